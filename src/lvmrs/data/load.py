"""Loads data sets by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lvmrs._util.settings import absolute, files_of, parse_name
from lvmrs.data.base import Dataset
from lvmrs.errors import DataError, InvalidArgumentError, guarded, shown
from lvmrs.registry import DATA

__all__ = ["DataSource", "load"]

_LARGEST_SIZE = 4096


def load(name: str, *, split: str = "test", size: int | None = None, class_index: str | Path | None = None) -> Dataset:
    """Load a data set by its name.

    Args:
        name: a source of ``lvmrs.registry.DATA`` with its argument, such as ``npz:FILE``.
        split: the part of the data, such as "test" or "train".
        size: height and width to which images from files are scaled and cropped, at most 4096.
        class_index: a file with the class number of each folder of images: JSON such as {"0": ["n01440764", "tench"]},
            {"0": "tench"} or {"tench": 0}, a JSON list, or text with one class in each line.

    Returns:
        The data set; its ``facts`` state the assumptions about it.

    >>> len(load("digits", split="train"))
    1437
    """
    return DataSource(name, split, size, None if class_index is None else str(class_index)).load()


@dataclass(frozen=True)
class DataSource:
    """The arguments of ``load``, which identify the data in any process and working directory."""

    name: str
    split: str = "test"
    size: int | None = None
    class_index: str | None = None
    directory: Path = field(default_factory=Path.cwd)
    """The base of relative paths: the working directory of the first call."""

    def load(self) -> Dataset:
        """Load the data set."""
        self._check_arguments()
        source, rest = parse_name(DATA, self.name, self.directory, error=DataError)
        with guarded(f"{self.name}: it cannot be read", error=DataError):
            data: Dataset = DATA.find(source)(self.name, rest, self.split, **self._options(source))
        if not len(data):
            raise DataError(f"{self.name}: there are no inputs in split {self.split!r}")
        data.data_source = self
        return data

    @property
    def files(self) -> list[Path]:
        """The file of the user's code that makes the data, if any. Other data are pickled, or are folders."""
        own = self.name.partition(":")[0] in DATA.having("code")
        return files_of(DATA, self.name, self.directory) if own else []

    def _check_arguments(self) -> None:
        if self.size is not None and not (type(self.size) is int and 1 <= self.size <= _LARGEST_SIZE):
            raise InvalidArgumentError(
                f"image size must be a whole number from 1 to {_LARGEST_SIZE}, got {shown(self.size, 40)}"
            )
        # The split may come from a manifest, and becomes a part of a path.
        if not isinstance(self.split, str) or self.split in ("", ".", "..") or set(self.split) & set("/\\\0"):
            raise DataError(f"{self.name}: split must be a word such as test, got {shown(self.split, 40)}")

    def _options(self, source: str) -> dict[str, Any]:
        """The options for a source. Raises DataError for an option that the source does not have."""
        index = None if self.class_index is None else absolute(self.class_index, self.directory)
        given = {"size": (self.size, "sized", "an image size"), "class_index": (index, "indexed", "a class index")}
        for value, fact, words in given.values():
            takers = DATA.having(fact)
            if value is not None and source not in takers:
                verb = "takes" if len(takers) == 1 else "take"
                raise DataError(f"{self.name}: only {' and '.join(takers)} {verb} {words}; leave it out")
        return {option: value for option, (value, fact, _) in given.items() if source in DATA.having(fact)}

    def load_again(self, name: str, fingerprint: str) -> Dataset:
        """Load a pickled data set again. Raises DataError if the data have changed."""
        data = self.load()
        data.name = name
        if data.fingerprint() != fingerprint:
            raise DataError(f"{name}: the data have changed since they were pickled; load them again")
        return data
