"""The base class of data sets: indexed inputs in [0, 1], labels, a fingerprint; and checks of what data sets return."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from numbers import Integral
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lvmrs._util.facts import DataFacts
from lvmrs.errors import DataError, guarded
from lvmrs.kernel import checks

if TYPE_CHECKING:
    from lvmrs.data.load import DataSource


class Dataset(ABC):
    """Inputs and labels, indexed from 0.

    An input is a float32 tensor with values in [0, 1] and no batch dimension; a label is a class number from 0.
    Data without labels have ``facts = DataFacts(labels="none")``, and their items are inputs alone. Subclasses define
    ``__len__``, ``__getitem__`` and ``fingerprint``. Errors in these methods and results of the wrong
    type raise ``DataError`` with a message of one sentence.
    """

    name: str
    """The name that the data set was loaded by."""
    split: str
    """The part of the data, such as "test"."""
    classes: tuple[str, ...] | None = None
    """The names of the classes, if the source gives them."""
    facts: DataFacts = DataFacts()
    """Metadata of the source, and assumptions about it."""
    levels: int | None = None
    """All values are multiples of 1/levels, such as 255 for bytes. None: not known."""
    divided: bool = True
    """Whether the source has splits. If not, it returns the same data for every split."""
    data_source: DataSource | None = None
    """The arguments of ``load``; None if the data set was not loaded by name."""

    def __init_subclass__(cls, **settings: Any) -> None:
        """Wrap the methods of a subclass: checks results, and turns exceptions into ``DataError``."""
        super().__init_subclass__(**settings)
        for method, (failing, check) in _AUTHORED.items():
            if callable(written := vars(cls).get(method)):
                setattr(cls, method, _guard(written, failing, check))

    @property
    def labelled(self) -> bool:
        """Whether the inputs have labels."""
        return self.facts.labels != "none"

    @property
    def assumed(self) -> tuple[str, ...]:
        """One sentence for each fact."""
        return self.facts.sentences()

    @abstractmethod
    def __len__(self) -> int:
        """The number of inputs."""

    @abstractmethod
    def __getitem__(self, index: int) -> tuple[Tensor, int | None] | Tensor:
        """One input and its label; data without labels return the input, alone or with None."""

    def __iter__(self) -> Iterator[tuple[Tensor, int | None] | Tensor]:
        """All items, in order."""
        return (self[index] for index in range(len(self)))

    def many(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Several inputs and their labels, each with a leading dimension. Raises DataError if there are no labels."""
        check_labelled(self)
        rows = [checked_input(self, index) for index in indices]
        shapes = {tuple(x.shape) for x, _ in rows}
        if len(shapes) > 1:
            some = ", ".join(map(str, sorted(shapes)[:3]))
            raise DataError(f"{self.name}: the inputs have several shapes ({some}); scale them to one size")
        return torch.stack([x for x, _ in rows]), torch.tensor([label for _, label in rows])

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash that changes when the data change."""

    def input_name(self, index: int) -> str | None:
        """The name of an input, such as its file name; None if the input has no name."""
        return None

    def largest_label(self) -> int | None:
        """The largest label; None if it is unknown without reading every input."""
        return None

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle an instance of a user's class as its source, because another process may not find the class."""
        if self.data_source is None or type(self).__module__.partition(".")[0] == "lvmrs":
            return super().__reduce_ex__(protocol)
        return self.data_source.load_again, (self.name, self.fingerprint())

    def __repr__(self) -> str:
        """Name, split and number of inputs."""
        return f"<{self.name}, {self.split}: {len(self)} inputs>"


def check_labelled(data: Dataset) -> None:
    """Raise DataError if the inputs have no labels."""
    if not data.labelled:
        raise DataError(f"{data.name}: its inputs have no labels, which this needs; take data with labels")


def checked_input(data: Dataset, index: int) -> tuple[Tensor, int | None]:
    """Read one input and its label, and check them.

    Args:
        data: the data set.
        index: the index of the input.

    Returns:
        The input, a floating-point tensor with values in [0, 1], and its class number; None if the data have no labels.
    """
    checks.instance("data", data, Dataset, "a Dataset, as lvmrs.data.load gives it")
    pair: Any = data[checks.seed("index", index)]
    if not data.labelled and isinstance(pair, Tensor):
        pair = pair, None
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise DataError(
            f"{data.name}: input {index} is {type(pair).__name__}; expected a pair of input and label, or for data "
            "without labels facts = DataFacts(labels='none')"
        )
    x, label = pair
    _check_pixels(f"{data.name}: input {index}", x)
    if isinstance(label, Tensor) and label.numel() == 1:
        label = label.item()
    if label is None and not data.labelled:
        return x, None
    if not data.labelled:
        raise DataError(f"{data.name}: input {index} has label {label!r:.60}, and its facts say that there are none")
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
        one = "; labels may begin at 1: lvmrs check tells more" if largest == classes else ""
        raise DataError(f"{data.name}, {data.split}, has label {largest}, but the model has {classes} classes{one}")


def _batch(data: Dataset, answer: Any) -> tuple[Tensor, Tensor]:
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise DataError(f"{data.name}: a batch is {type(answer).__name__}; expected a pair of inputs and labels")
    x, labels = answer
    _check_pixels(f"{data.name}: a batch of inputs", x)
    whole = isinstance(labels, Tensor) and not labels.is_floating_point() and not labels.is_complex()
    if not whole or labels.shape != x.shape[:1] or bool((labels < 0).any()):
        raise DataError(f"{data.name}: the labels of a batch are not class numbers from 0, one for each input")
    return x, labels.long()


def _expecting(what: str, expected: str, valid: Callable[[Any], bool]) -> Callable[[Dataset, Any], Any]:
    """A check of a result that is a number, a text or None; an empty text counts as None."""

    def check(data: Dataset, answer: Any) -> Any:
        if not valid(answer):
            raise DataError(f"{data.name}: {what} is {answer!r:.60}; expected {expected}")
        return int(answer) if isinstance(answer, Integral) else answer or None

    return check


def _is_count(answer: Any) -> bool:
    return isinstance(answer, Integral) and 0 <= int(answer) <= sys.maxsize


# What to say if a method of a data set fails, and the check of its result, by the name of the method.
_AUTHORED: dict[str, tuple[str, Callable[[Dataset, Any], Any]]] = {
    "__len__": ("its length is not known", _expecting("its length", "a whole number from 0", _is_count)),
    "__getitem__": ("input {0} cannot be read", lambda data, answer: answer),
    "many": ("inputs cannot be read", _batch),
    "fingerprint": (
        "it has no fingerprint",
        _expecting("its fingerprint", "a string", lambda answer: isinstance(answer, str) and answer != ""),
    ),
    "largest_label": (
        "its largest label is not known",
        _expecting("its largest label", "a class number from 0, or None", lambda a: a is None or _is_count(a)),
    ),
    "input_name": (
        "the name of input {0} is not known",
        _expecting("the name of an input", "a text or None", lambda answer: answer is None or isinstance(answer, str)),
    ),
}


def _guard(function: Callable[..., Any], failing: str, check: Callable[[Dataset, Any], Any]) -> Callable[..., Any]:
    @wraps(function)
    def guarded_method(self: Dataset, *arguments: Any) -> Any:
        name = getattr(self, "name", type(self).__name__)
        with guarded(f"{name}: {failing.format(*arguments)}", error=DataError):
            return check(self, function(self, *arguments))

    return guarded_method
