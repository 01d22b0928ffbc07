"""Loading of data sets by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lvmrs._sources import taken_apart
from lvmrs._user_code import importing_from
from lvmrs.data.base import Dataset
from lvmrs.errors import DataError
from lvmrs.registry import DATA

__all__ = ["DataSource", "load"]


def load(name: str, *, split: str = "test", size: int | None = None) -> Dataset:
    """Load a data set by its name.

    Args:
        name: a source of ``lvmrs.registry.DATA`` and what to load from it, such as ``npz:FILE``.
        split: which part of the data, such as "test" or "train".
        size: images from files are scaled and cropped to squares of that many pixels.

    Returns:
        The data set; its ``facts`` say what was assumed about it.

    >>> len(load("digits", split="train"))
    1437
    """
    return DataSource(name, split, size).load()


@dataclass(frozen=True)
class DataSource:
    """The arguments of ``load`` as plain values. They name the same data in any process and working directory."""

    name: str
    split: str = "test"
    size: int | None = None
    directory: Path = field(default_factory=Path.cwd)
    """Where relative paths begin and modules are imported from: the working directory of the first call."""

    def load(self) -> Dataset:
        """Load the data set."""
        if self.size is not None and self.size < 1:
            raise DataError(f"image size must be a whole number of at least 1, got {self.size}")
        source, rest = taken_apart(DATA, self.name, self.directory, error=DataError)
        sized = DATA.having("sized")
        if self.size is not None and source not in sized:
            raise DataError(f"{self.name}: only {' and '.join(sized)} take an image size; leave it out")
        size = {"size": self.size} if source in sized else {}
        with importing_from(self.directory):
            data: Dataset = DATA.find(source)(self.name, rest, self.split, **size)
        data.data_source = self
        return data

    def load_again(self, name: str, fingerprint: str) -> Dataset:
        """Load the data set that was pickled under that name; data that have changed are refused."""
        data = self.load()
        data.name = name
        if data.fingerprint() != fingerprint:
            raise DataError(f"{name}: the data have changed since they were pickled; load them again")
        return data
