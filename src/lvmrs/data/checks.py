"""Checks of the inputs, labels and other values that data sets return."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from numbers import Integral
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lvmrs.errors import DataError, guarded
from lvmrs.kernel import checks

if TYPE_CHECKING:
    from lvmrs.data.base import Dataset

__all__ = ["AUTHORED", "check_labels", "checked_input"]


def checked_input(data: Dataset, index: int) -> tuple[Tensor, int]:
    """Read one input and its label, and check them.

    Args:
        data: the data set.
        index: the index of the input.

    Returns:
        The input, a floating-point tensor with values in [0, 1], and its class number.
    """
    from lvmrs.data.base import Dataset  # a cyclic import

    checks.instance("data", data, Dataset, "a Dataset, as lvmrs.data.load gives it")
    pair = data[checks.seed("index", index)]
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise DataError(f"{data.name}: input {index} is {type(pair).__name__}; expected a pair of input and label")
    x, label = pair
    _check_pixels(f"{data.name}: input {index}", x)
    if isinstance(label, Tensor) and label.numel() == 1:
        label = label.item()
    if not isinstance(label, Integral) or label < 0:
        raise DataError(f"{data.name}: input {index} has label {label!r:.60}; expected a class number from 0")
    return x, int(label)


def _check_pixels(what: str, x: object) -> None:
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.layout != torch.strided:
        kind = type(x).__name__ if not isinstance(x, Tensor) else x.dtype if x.layout == torch.strided else x.layout
        raise DataError(f"{what} is {kind}; expected a floating-point tensor in [0, 1]")
    if not x.numel():
        raise DataError(f"{what} is empty (shape {tuple(x.shape)}); it must have at least one value")
    with guarded(f"{what} cannot be read", error=DataError):
        low, high = (float(bound) for bound in torch.aminmax(x))
    if not (low >= 0 and high <= 1):  # also true for NaN
        raise DataError(f"{what} has values outside [0, 1], the units of sigma; scale it")


def check_labels(data: Dataset, classes: int, first: int | None = None) -> None:
    """Raise DataError if the labels cannot be the class numbers of a model.

    Args:
        data: the data set.
        classes: the number of classes of the model.
        first: the label of one input, for data without a known largest label.
    """
    if data.facts.labels == "folder order" and data.classes is not None and len(data.classes) != classes:
        raise DataError(
            f"{data.name}: its {len(data.classes)} folders are numbered in alphabetical order, and the model has "
            f"{classes} classes, so these labels are not the model's: give a class index file, or name the folders by "
            "the class numbers"
        )
    known = data.largest_label()
    largest = first if known is None else known
    if largest is not None and largest >= classes:
        raise DataError(f"{data.name}, {data.split}, has label {largest}, but the model has {classes} classes")


def _counted(data: Dataset, answer: Any) -> int:
    if not isinstance(answer, Integral) or not 0 <= int(answer) <= sys.maxsize:
        raise DataError(f"{data.name}: its length is {answer!r:.60}; expected a whole number from 0")
    return int(answer)


def _hashed(data: Dataset, answer: Any) -> str:
    if not isinstance(answer, str) or not answer:
        raise DataError(f"{data.name}: its fingerprint is {answer!r:.60}; expected a string")
    return answer


def _largest(data: Dataset, answer: Any) -> int | None:
    if answer is not None and (not isinstance(answer, Integral) or answer < 0):
        raise DataError(f"{data.name}: its largest label is {answer!r:.60}; expected a class number from 0, or None")
    return None if answer is None else int(answer)


def _batch(data: Dataset, answer: Any) -> tuple[Tensor, Tensor]:
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise DataError(f"{data.name}: a batch is {type(answer).__name__}; expected a pair of inputs and labels")
    x, labels = answer
    _check_pixels(f"{data.name}: a batch of inputs", x)
    whole = isinstance(labels, Tensor) and not labels.is_floating_point() and not labels.is_complex()
    if not whole or labels.shape != x.shape[:1] or bool((labels < 0).any()):
        raise DataError(f"{data.name}: the labels of a batch are not class numbers from 0, one for each input")
    return x, labels.long()


def _named(data: Dataset, answer: Any) -> str | None:
    if answer is not None and not isinstance(answer, str):
        raise DataError(f"{data.name}: the name of an input is {answer!r:.40}; expected a text or None")
    return answer or None


# Decorators for the methods of data sets, by the name of the method.
AUTHORED: dict[str, Callable[[Any], Any]] = {}


def _guard(method: str, failing: str, check: Callable[[Dataset, Any], Any]) -> None:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def guarded_method(self: Dataset, *arguments: Any) -> Any:
            name = getattr(self, "name", type(self).__name__)
            with guarded(f"{name}: {failing.format(*arguments)}", error=DataError):
                return check(self, function(self, *arguments))

        return guarded_method

    AUTHORED[method] = decorate


_guard("__len__", "its length is not known", _counted)
_guard("__getitem__", "input {0} cannot be read", lambda data, answer: answer)
_guard("many", "inputs cannot be read", _batch)
_guard("fingerprint", "it has no fingerprint", _hashed)
_guard("largest_label", "its largest label is not known", _largest)
_guard("input_name", "the name of input {0} is not known", _named)
