"""Checks of tensors, precisions and devices, which need torch; see ``lvmrs.kernel.checks``."""

import warnings

import numpy as np
import torch

from lvmrs.errors import InvalidArgumentError, first_line, shown
from lvmrs.kernel import checks

__all__ = ["all_finite", "device", "device_to_run_on", "finite_tensor", "floating", "precision", "warn_of_bytes"]


def finite_tensor(name: str, value: torch.Tensor, *, dims: int) -> torch.Tensor:
    """A non-empty floating tensor of at least ``dims`` dimensions without NaN or infinities; never copied."""
    if not isinstance(value, torch.Tensor):
        raise InvalidArgumentError(f"{name} must be a torch.Tensor, got {type(value).__name__}; use torch.as_tensor")
    if not value.is_floating_point():
        raise InvalidArgumentError(
            f"{name} must be a floating-point tensor, got {value.dtype}; use .float(), and divide by 255 if it is bytes"
        )
    if value.layout != torch.strided:
        raise InvalidArgumentError(f"{name} must be a dense tensor, got {value.layout}; use .to_dense()")
    if value.dim() < dims:
        raise InvalidArgumentError(f"{name} must have at least {dims} dimension(s), got shape {tuple(value.shape)}")
    if value.numel() == 0:
        raise InvalidArgumentError(f"{name} is empty (shape {tuple(value.shape)}); give it at least one value")
    if value.is_meta:
        raise InvalidArgumentError(f"{name} is on the device meta and holds no values; make it on another device")
    low, high = (float(bound) for bound in torch.aminmax(value.detach()))  # one pass, no temporary; NaN passes through
    if not np.isfinite(low) or not np.isfinite(high):
        raise InvalidArgumentError(f"{name} must be finite, got {low if not np.isfinite(low) else high}")
    return value


def all_finite(values: torch.Tensor) -> bool:
    """Whether a tensor has no NaN and no infinity.

    >>> all_finite(torch.tensor([1.0, 2.0])), all_finite(torch.tensor([float("inf"), -float("inf")]))
    (True, False)
    """
    # One pass without a temporary. In float64, a sum of finite numbers of lower precision is finite.
    total = values.sum(dtype=torch.float64) if values.device.type == "cpu" else values.sum()
    return bool(torch.isfinite(total)) or bool(torch.isfinite(values).all())


def floating(name: str, value: torch.dtype) -> torch.dtype:
    """A type of floating-point numbers."""
    if not isinstance(value, torch.dtype):
        raise InvalidArgumentError(f"{name} must be a torch.dtype such as torch.bfloat16, got {shown(value)}")
    if not value.is_floating_point:
        raise InvalidArgumentError(f"{name} must be a type of floating-point numbers, got {value}")
    return value


def precision(name: str | None) -> torch.dtype | None:
    """The 16-bit type of that name, for autocast."""
    kinds = {"bfloat16": torch.bfloat16, "float16": torch.float16}
    if name is not None:
        checks.one_of("autocast", name, kinds)
    return None if name is None else kinds[name]


def device(value: str | torch.device) -> torch.device | None:
    """A device that torch knows and this machine has; None for "auto"."""
    if value == "auto":
        return None
    try:
        chosen = torch.device(value)
        if chosen.type == "cpu":
            chosen = torch.device("cpu")  # every machine has one, whatever its index
        else:
            torch.ones(1, device=chosen).add(1).item()  # the device "meta" fails here
    except Exception as error:  # torch raises errors of many kinds: without CUDA it asserts, others fail to import
        reason = first_line(error)
        raise InvalidArgumentError(
            f"device {str(value)!r:.80} cannot be used here ({reason}); give auto, cpu or cuda"
        ) from error
    return chosen


def device_to_run_on(value: str | torch.device) -> torch.device:
    """A device that this machine has; "auto" is a GPU if there is one, and the CPU otherwise."""
    return device(value) or torch.device("cuda" if torch.cuda.is_available() else "cpu")


def warn_of_bytes(name: str, x: torch.Tensor) -> None:
    """Warn if an image holds whole numbers from 0 to 255: they look like bytes, and sigma is meant for [0, 1]."""
    if x.dim() < 3 or x.shape[-3] not in (1, 3):
        return
    low, high = (float(bound) for bound in torch.aminmax(x))
    if low >= 0 and 1 < high <= 255 and bool((x == x.round()).all()):
        warnings.warn(
            f"{name} has whole numbers up to {high:g}, as bytes have; sigma and radii are in the units of {name}, so "
            "divide by 255 if they are meant for pixels in [0, 1]",
            stacklevel=4,
        )
