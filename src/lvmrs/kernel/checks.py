"""Checks of arguments of public functions: each returns its argument in a normal form, or raises one clear sentence.

Numbers may be Python scalars, NumPy arrays, sequences of numbers, or torch tensors of any device and precision; they
are converted to NumPy float64. This module imports torch only in functions that take tensors or devices, so that
commands that only read start fast.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from lvmrs.errors import InvalidArgumentError, SuspiciousWarning, shown

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Floats: TypeAlias = NDArray[np.float64]
if TYPE_CHECKING:
    # Nested sequences are written out up to three levels: a recursive alias would accept any string as a sequence of
    # sequences.
    _Scalar: TypeAlias = np.floating[Any] | np.integer[Any] | np.bool_
    _Number: TypeAlias = float | _Scalar
    _Array: TypeAlias = NDArray[_Scalar] | Tensor
    _Row: TypeAlias = Sequence[_Number | _Array]
    Numbers: TypeAlias = _Number | _Array | _Row | Sequence[_Row] | Sequence[Sequence[_Row]]
else:
    Numbers: TypeAlias = Any

_Thing = TypeVar("_Thing")

_LEAST_ALPHA = 1e-300
_MOST = 2**53
_LARGEST_INPUT = 2**31


def real(name: str, value: Numbers) -> Floats:
    """``value`` as a non-empty float64 array without NaN; infinities pass."""
    if type(value) is float and value == value:  # the most frequent case
        return np.asarray(value)
    if _is_tensor(value):
        value = value.detach()
    try:
        if _is_tensor(value):
            value = value.cpu() if value.is_complex() else value.cpu().double()
        array = np.asarray(value).astype(np.float64, casting="same_kind", copy=False)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidArgumentError(f"{name} must be a number or an array of numbers, got {shown(value)}") from error
    if array.size == 0:
        raise InvalidArgumentError(f"{name} is empty (shape {array.shape}); give it at least one value")
    require(name, array, ~np.isnan(array), "must not be NaN")
    return array


def _is_tensor(value: object) -> TypeGuard[Tensor]:
    """Whether this is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def require(name: str, array: Floats, valid: NDArray[np.bool_] | np.bool_, rule: str) -> None:
    """Raise a sentence that names the first value for which ``valid`` is false."""
    if valid.all() if valid.ndim else valid:
        return
    index = tuple(int(i) for i in np.argwhere(~np.atleast_1d(valid))[0])
    where = f" at index {index[0] if len(index) == 1 else index}" if array.ndim else ""
    raise InvalidArgumentError(f"{name} {rule}, got {np.atleast_1d(array)[index]}{where}")


def one_of(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise if a word is not among the choices."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidArgumentError(f"{name} must be one of {', '.join(choices)}, got {shown(value)}")


def single(name: str, array: Floats) -> float:
    """The number that an array without dimensions holds."""
    if array.ndim:
        raise InvalidArgumentError(f"{name} must be a single number, got shape {array.shape}")
    return float(array)


def several(name: str, array: Floats) -> list[float]:
    """The numbers that an array of one dimension holds."""
    if array.ndim != 1:
        raise InvalidArgumentError(f"{name} must be a list of numbers, got shape {array.shape}")
    return array.tolist()  # type: ignore[no-any-return]


def unwrapped(array: Floats) -> Floats:
    """``array``, or its only number if it has no dimensions."""
    number: Floats = array[()]
    return number


def positive(name: str, value: Numbers, *, infinite: bool = False) -> Floats:
    """``value`` above zero, and finite unless ``infinite`` allows otherwise."""
    array = real(name, value)
    finite = np.isfinite(array) | infinite
    require(name, array, (array > 0) & finite, "must be positive" if infinite else "must be positive and finite")
    return array


def positive_number(name: str, value: Numbers, *, infinite: bool = False) -> float:
    """One number above zero, and finite unless ``infinite`` allows otherwise."""
    return single(name, positive(name, value, infinite=infinite))


def at_least_zero(name: str, value: Numbers) -> Floats:
    """``value`` of at least zero, and finite."""
    array = real(name, value)
    require(name, array, (array >= 0) & np.isfinite(array), "must be at least 0 and finite")
    return array


def nonnegative_number(name: str, value: Numbers) -> float:
    """One number of at least zero, and finite."""
    return single(name, at_least_zero(name, value))


def constant(value: Numbers) -> Floats:
    """A Lipschitz constant; infinity stands for "not known"."""
    return positive("lipschitz", value, infinite=True)


def mass(value: Numbers) -> Floats:
    """The total mass of the simplex."""
    return positive("mass", value)


def risk(value: Numbers) -> Floats:
    """A probability of error, strictly between 0 and 1."""
    return fraction("risk", value)


def alpha(value: Numbers) -> float:
    """The risk of one certificate, strictly between 0 and 1 and no smaller than float64 can compute with."""
    array = fraction("alpha", value)
    require("alpha", array, array >= _LEAST_ALPHA, f"must be at least {_LEAST_ALPHA:g}")
    return single("alpha", array)


def fraction(name: str, value: Numbers) -> Floats:
    """``value`` strictly between 0 and 1."""
    array = real(name, value)
    require(name, array, (array > 0) & (array < 1), "must lie strictly between 0 and 1")
    return array


def within(name: str, value: Numbers, top: Floats, *, slack: float = 0.0) -> Floats:
    """``value`` in [0, top], where ``top`` is the mass; values above it by at most ``slack`` are clipped."""
    array = real(name, value)
    broadcast(**{name: array, "mass": top})
    each, most = np.broadcast_arrays(array, top)
    require(name, each, (each >= 0) & (each <= most * (1 + slack)), f"must lie in [0, mass] = [0, {_range(top)}]")
    return np.minimum(array, top) if slack and (each > most).any() else array


def _range(top: Floats) -> str:
    return f"{top.min():g}" if top.min() == top.max() else f"{top.min():g} to {top.max():g}"


def whole(name: str, value: Numbers, *, least: int, most: int = _MOST) -> Floats:
    """Whole numbers from ``least`` to ``most``; kept as float64, which holds them exactly up to 2⁵³."""
    array = real(name, value)
    rule = f"must be a whole number of at least {least}"
    if (array > most).any():
        rule += f" and at most {'2⁵³' if most == _MOST else most}"
    require(name, array, (array == np.floor(array)) & (array >= least) & (array <= most), rule)
    return array


def count(name: str, value: Numbers, *, least: int, most: int = _MOST) -> int:
    """One whole number from ``least`` to ``most``."""
    return int(single(name, whole(name, value, least=least, most=most)))


def seed(name: str, value: object) -> int:
    """A whole number from 0 to 2⁶³ − 1, given exactly: floats and arrays are rejected."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 0 <= int(value) < 1 << 63:
        raise InvalidArgumentError(f"{name} must be a whole number from 0 to 2⁶³ − 1, got {shown(value)}")
    return int(value)


def shape(value: Sequence[int]) -> tuple[int, ...]:
    """The shape of an input: at least one dimension, each of size at least 1, within the limit on memory."""
    sides = several("shape", whole("shape", value, least=1))
    if math.prod(sides) > _LARGEST_INPUT:
        raise InvalidArgumentError(f"shape must have at most {_LARGEST_INPUT:,} numbers, got {shown(value)}")
    return tuple(int(side) for side in sides)


def radii(value: Numbers) -> list[float]:
    """Radii as a list, which may be empty; each radius is at least 0 and finite."""
    if isinstance(value, list | tuple) and not value:
        return []
    return several("radii", at_least_zero("radii", value))


def instance(name: str, value: object, kind: type | tuple[type, ...], what: str) -> None:
    """Raise if a value is not of this class; ``what`` describes the expected value in the message."""
    if not isinstance(value, kind):
        raise InvalidArgumentError(f"{name} must be {what}, got {shown(value)}")


def iterable(name: str, values: Iterable[_Thing], what: str) -> Iterable[_Thing]:
    """An iterable, whose elements are not checked; ``what`` describes the expected elements in the message."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidArgumentError(f"{name} must be {what}, got {shown(values)}")
    return values


def instances(name: str, values: Iterable[_Thing], kind: type, what: str) -> list[_Thing]:
    """At least one object of this class, as a list; ``what`` describes the expected objects in the message."""
    found = list(iterable(name, values, what))
    if not found:
        raise InvalidArgumentError(f"{name} must be {what}, and there is none; give at least one")
    for each in found:
        instance(name, each, kind, what)
    return found


def class_numbers(name: str, values: Iterable[int]) -> list[int]:
    """Class numbers from 0, as a list."""
    return [count(name, value, least=0) for value in iterable(name, values, "class numbers")]


def model(value: object) -> None:
    """Raise if a model is not callable."""
    if not callable(value):
        raise InvalidArgumentError(f"model must be callable on a batch of inputs, got {type(value).__name__}")


def text(name: str, value: object) -> str:
    """A text."""
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name} must be a text, got {shown(value)}")
    return value


def broadcast(**arrays: Floats) -> None:
    """Raise unless the named arrays can be combined."""
    try:
        np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError as error:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise InvalidArgumentError(f"shapes do not broadcast together: {shapes}") from error


# ---------------------------------------------------------------------------------------------------------------------
# Tensors and precisions. These functions import torch when they are called.


def finite_tensor(name: str, value: torch.Tensor, *, dims: int) -> torch.Tensor:
    """A non-empty floating tensor of at least ``dims`` dimensions without NaN or infinities; never copied."""
    import torch

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

    >>> import torch
    >>> all_finite(torch.tensor([1.0, 2.0])), all_finite(torch.tensor([float("inf"), -float("inf")]))
    (True, False)
    """
    import torch

    # One pass without a temporary. In float64, a sum of finite numbers of lower precision is finite.
    total = values.sum(dtype=torch.float64) if values.device.type == "cpu" else values.sum()
    return bool(torch.isfinite(total)) or bool(torch.isfinite(values).all())


AUTOCAST = "autocast-"
"""Before the name of a 16-bit type: the network runs in it under torch's autocast, and is not cast to it as a whole."""


def precision(name: str, value: str | None, *, autocast: bool = False) -> torch.dtype | None:
    """The 16-bit type of that name; None for None and for float32.

    With ``autocast``, the name may say that the network runs under torch's autocast: "autocast-bfloat16".
    """
    names = ("float32", "bfloat16", "float16")
    if value is not None:
        one_of(name, value, (*names, *(f"{AUTOCAST}{kind}" for kind in names[1:] if autocast)))
    import torch

    return None if value in (None, "float32") else getattr(torch, str(value).removeprefix(AUTOCAST))


def in_precision(value: str) -> str:
    """A precision that a network runs in, as a phrase after "runs".

    >>> in_precision("bfloat16"), in_precision("autocast-bfloat16")
    ('in bfloat16', 'in bfloat16 under autocast')
    """
    kind = value.removeprefix(AUTOCAST)
    return f"in {kind}" if kind == value else f"in {kind} under autocast"


def warn_of_bytes(name: str, x: torch.Tensor) -> None:
    """Warn if the pixels of an image look like bytes, perhaps rounded, while sigma is meant for [0, 1]."""
    import torch

    if x.dim() < 3 or x.shape[-3] not in (1, 3):
        return
    low, high = (float(bound) for bound in torch.aminmax(x))
    whole = bool((x == x.round()).all())
    if low >= 0 and 1 < high <= 256 and (whole or high > 2):  # 255 · (k/255) is rounded, and may be augmented
        warnings.warn(
            f"{name} has {'whole ' * whole}numbers up to {high:g}, as pixels from 0 to 255 have; sigma and radii are "
            f"in the units of {name}, so divide by 255 if they are meant for pixels in [0, 1]",
            SuspiciousWarning,
            stacklevel=4,
        )


def memory() -> int:
    """The memory of this machine in bytes, or 64 GiB if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 36
