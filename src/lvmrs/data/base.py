"""The base class of data sets: indexed inputs in [0, 1], labels, and a fingerprint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lvmrs._util.facts import DataFacts
from lvmrs.data.checks import AUTHORED, checked_input
from lvmrs.errors import DataError

if TYPE_CHECKING:
    from lvmrs.data.load import DataSource

__all__ = ["Dataset"]


class Dataset(ABC):
    """Inputs and labels, indexed from 0.

    An input is a float32 tensor with values in [0, 1] and no batch dimension; a label is a class number from 0.
    Subclasses define ``__len__``, ``__getitem__`` and ``fingerprint``. Errors in these methods and results of the wrong
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
        for method, guard in AUTHORED.items():
            if callable(written := vars(cls).get(method)):
                setattr(cls, method, guard(written))

    @property
    def assumed(self) -> tuple[str, ...]:
        """One sentence for each fact."""
        return self.facts.sentences()

    @abstractmethod
    def __len__(self) -> int:
        """The number of inputs."""

    @abstractmethod
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """One input and its label."""

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        """All inputs with their labels, in order."""
        return (self[index] for index in range(len(self)))

    def many(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Several inputs and their labels, each with a leading dimension."""
        rows = [checked_input(self, index) for index in indices]
        shapes = {tuple(x.shape) for x, _ in rows}
        if len(shapes) > 1:
            raise DataError(f"{self.name}: the inputs have several shapes ({_some(shapes)}); scale them to one size")
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


def _some(shapes: set[tuple[int, ...]]) -> str:
    return ", ".join(str(shape) for shape in sorted(shapes)[:3])
