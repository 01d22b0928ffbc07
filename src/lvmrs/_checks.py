"""Guards of the public functions: each returns its argument as the inner code wants it, or raises one clear sentence.

Numbers may come as Python scalars, NumPy arrays or torch tensors of any device and precision; the scalar mathematics
runs in NumPy float64.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from lvmrs.errors import InvalidArgumentError, first_line

__all__ = [
    "Floats",
    "Numbers",
    "broadcast",
    "constant",
    "device",
    "finite_tensor",
    "known_lipschitz",
    "mass",
    "one_of",
    "positive",
    "precision",
    "real",
    "require",
    "risk",
    "single",
    "unwrapped",
    "whole",
    "within",
]

Floats: TypeAlias = NDArray[np.float64]
# What callers may pass where a number or an array of numbers is meant.
Numbers: TypeAlias = Any


def real(name: str, value: Numbers) -> Floats:
    """``value`` as a non-empty float64 array without NaN; infinities pass."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
    try:
        if isinstance(value, torch.Tensor):
            value = value.cpu() if value.is_complex() else value.cpu().double()
        array = np.asarray(value).astype(np.float64, casting="same_kind", copy=False)
    except (TypeError, ValueError, RuntimeError) as error:
        shown = f"{value!r}".replace("\n", " ")
        raise InvalidArgumentError(f"{name} must be a number or an array of numbers, got {shown:.80}") from error
    if array.size == 0:
        raise InvalidArgumentError(f"{name} is empty (shape {array.shape}); give it at least one value")
    require(name, array, ~np.isnan(array), "must not be NaN")
    return array


def require(name: str, array: Floats, valid: NDArray[np.bool_] | np.bool_, rule: str) -> None:
    """Raise a sentence that names the first value for which ``valid`` is false."""
    if np.all(valid):
        return
    index = tuple(int(i) for i in np.argwhere(~np.atleast_1d(valid))[0])
    where = f" at index {index[0] if len(index) == 1 else index}" if array.ndim else ""
    raise InvalidArgumentError(f"{name} {rule}, got {np.atleast_1d(array)[index]}{where}")


def one_of(name: str, value: object, choices: Iterable[str]) -> None:
    """Refuse a word that is not among the choices."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidArgumentError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def single(name: str, array: Floats) -> float:
    """The one number that ``array`` is."""
    if array.ndim:
        raise InvalidArgumentError(f"{name} must be a single number, got shape {array.shape}")
    return float(array)


def unwrapped(array: Floats) -> Floats:
    """``array``, or the number it holds if it has no dimensions."""
    number: Floats = array[()]
    return number


def positive(name: str, value: Numbers, *, infinite: bool = False) -> Floats:
    """``value`` above zero, and finite unless ``infinite`` allows otherwise."""
    array = real(name, value)
    finite = np.isfinite(array) | infinite
    require(name, array, (array > 0) & finite, "must be positive" if infinite else "must be positive and finite")
    return array


def constant(value: Numbers) -> Floats:
    """A Lipschitz constant; infinity stands for "not known"."""
    return positive("lipschitz", value, infinite=True)


def mass(value: Numbers) -> Floats:
    """The total mass of the simplex."""
    return positive("mass", value)


def risk(value: Numbers) -> Floats:
    """A probability of error, strictly between 0 and 1."""
    array = real("risk", value)
    require("risk", array, (array > 0) & (array < 1), "must lie strictly between 0 and 1")
    return array


def within(name: str, value: Numbers, top: Floats, *, slack: float = 0.0) -> Floats:
    """``value`` in [0, top], where ``top`` is the mass; what rounding put above it, by ``slack`` at most, is cut."""
    array = real(name, value)
    broadcast(**{name: array, "mass": top})
    shown, most = np.broadcast_arrays(array, top)
    require(name, shown, (shown >= 0) & (shown <= most * (1 + slack)), f"must lie in [0, mass] = [0, {_range(top)}]")
    return np.minimum(array, top) if slack and (shown > most).any() else array


def _range(top: Floats) -> str:
    return f"{top.min():g}" if top.min() == top.max() else f"{top.min():g} to {top.max():g}"


def whole(name: str, value: Numbers, *, least: int) -> Floats:
    """Whole numbers from ``least`` to 2⁵³; kept as float64, which holds them exactly."""
    array = real(name, value)
    rule = f"must be a whole number of at least {least}" + (" and at most 2⁵³" if (array > 2**53).any() else "")
    require(name, array, (array == np.floor(array)) & (array >= least) & (array <= 2**53), rule)
    return array


def broadcast(**arrays: Floats) -> None:
    """Raise unless the named arrays can be combined."""
    try:
        np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError as error:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise InvalidArgumentError(f"shapes do not broadcast together: {shapes}") from error


def finite_tensor(name: str, value: torch.Tensor, *, dims: int) -> torch.Tensor:
    """A non-empty floating tensor of at least ``dims`` dimensions without NaN or infinities; never copied."""
    if not isinstance(value, torch.Tensor):
        raise InvalidArgumentError(f"{name} must be a torch.Tensor, got {type(value).__name__}; use torch.as_tensor")
    if not value.is_floating_point():
        raise InvalidArgumentError(f"{name} must be a floating-point tensor, got {value.dtype}; use .float()")
    if value.dim() < dims:
        raise InvalidArgumentError(f"{name} must have at least {dims} dimension(s), got shape {tuple(value.shape)}")
    if value.numel() == 0:
        raise InvalidArgumentError(f"{name} is empty (shape {tuple(value.shape)}); give it at least one value")
    low, high = (float(bound) for bound in torch.aminmax(value.detach()))  # one pass, no temporary; NaN passes through
    if not np.isfinite(low) or not np.isfinite(high):
        raise InvalidArgumentError(f"{name} must be finite, got {low if not np.isfinite(low) else high}")
    return value


def known_lipschitz(model: object) -> float | None:
    """The constant that a model says it has, in its attribute ``lipschitz``; None if it has no such, or None."""
    value = getattr(model, "lipschitz", None)
    if value is None:
        return None
    if isinstance(value, bool) or callable(value):
        kind = type(model).__name__
        raise InvalidArgumentError(f"lipschitz of {kind} must be a positive number or None, got {value!r:.60}")
    return single("lipschitz", positive("lipschitz", value, infinite=True))


def precision(name: str | None) -> torch.dtype | None:
    """The 16-bit type of that name, for autocast."""
    kinds = {"bfloat16": torch.bfloat16, "float16": torch.float16}
    if name is not None:
        one_of("autocast", name, kinds)
    return None if name is None else kinds[name]


def device(value: str | torch.device) -> torch.device | None:
    """A device that torch knows and this machine has; None for "auto"."""
    if value == "auto":
        return None
    try:
        chosen = torch.device(value)
        torch.empty(0, device=chosen)
    except (RuntimeError, TypeError, AssertionError) as error:  # torch without CUDA asserts
        reason = first_line(error)
        raise InvalidArgumentError(
            f"device {value!r} cannot be used here ({reason}); give auto, cpu or cuda"
        ) from error
    return chosen
