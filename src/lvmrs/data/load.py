"""Loads data sets by name. The source ``python:`` imports data sets from the user's code."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils import data as torch_data

from lvmrs._util.facts import DataFacts
from lvmrs._util.settings import absolute, files_of, is_word, parse_name
from lvmrs._util.user_code import called, imported
from lvmrs.data.arrays import Arrays
from lvmrs.data.base import Dataset
from lvmrs.errors import DataError, InvalidArgumentError, guarded, shown
from lvmrs.kernel import checks
from lvmrs.registry import DATA

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
        if self.size is not None and not (type(self.size) is int and 1 <= self.size <= _LARGEST_SIZE):
            raise InvalidArgumentError(
                f"image size must be a whole number from 1 to {_LARGEST_SIZE}, got {shown(self.size, 40)}"
            )
        if not is_word(self.split):
            raise DataError(f"{self.name}: split must be a word such as test, got {shown(self.split, 40)}")
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

    def _options(self, source: str) -> dict[str, Any]:
        """The options for a source. Raises DataError for an option that the source does not have."""
        index = None if self.class_index is None else absolute(self.class_index, self.directory)
        given = {"size": (self.size, "sized", "an image size"), "class_index": (index, "indexed", "a class index")}
        for value, fact, words in given.values():
            takers = DATA.having(fact)
            if value is not None and source not in takers:
                verb = "takes" if len(takers) == 1 else "take"
                raise DataError(f"{self.name}: only {', '.join(takers)} {verb} {words}; leave it out")
        return {option: value for option, (value, fact, _) in given.items() if source in DATA.having(fact)}

    def load_again(self, name: str, fingerprint: str) -> Dataset:
        """Load a pickled data set again. Raises DataError if the data have changed."""
        data = self.load()
        data.name = name
        if data.fingerprint() != fingerprint:
            raise DataError(f"{name}: the data have changed since they were pickled; load them again")
        return data


def python(name: str, rest: str, split: str) -> Dataset:
    """Import the ``Dataset`` ``MODULE:NAME``, or call the function ``MODULE:NAME`` with the split.

    The function returns a ``Dataset``, a torch data set of inputs or of pairs of input and label, a pair of arrays
    (inputs, labels), or an array of inputs without labels.
    """
    named = made = imported(name, rest, error=DataError)
    if callable(made) and not isinstance(made, Dataset):
        made = called(name, made, split, error=DataError)
    if isinstance(made, Dataset):
        made.name, made.split = str(getattr(made, "name", name)), str(getattr(made, "split", split))
        made.divided = made.divided and made is not named
        if not isinstance(made.facts, DataFacts):
            raise DataError(f"{name}: its facts are {type(made.facts).__name__}; expected DataFacts")
        if made.levels is not None:
            made.levels = checks.count("levels", made.levels, least=1)
        made.classes = None if made.classes is None else tuple(map(str, made.classes))
        return made
    if isinstance(made, torch_data.Dataset):
        with guarded(f"{name}: its inputs cannot be read", error=DataError):
            items = [made[index] for index in range(len(made))]  # type: ignore[arg-type]
            pairs = [item if isinstance(item, tuple | list) else (item, None) for item in items]
            known = [label for _, label in pairs]
            made = np.stack([np.asarray(x) for x, _ in pairs]), None if known[0] is None else known
    if isinstance(made, np.ndarray | Tensor):
        made = made, None
    if isinstance(made, tuple) and len(made) == 2:
        with guarded(f"{name}: inputs and labels are not arrays", error=DataError):
            inputs, labels = np.asarray(made[0]), None if made[1] is None else np.asarray(made[1])
        return Arrays(name, split, inputs, labels)
    raise DataError(
        f"{name}: it gives {type(made).__name__}; expected an lvmrs.data.Dataset or a torch data set, or a function "
        "that is called with the split and returns one, or (inputs, labels), or inputs without labels"
    )
