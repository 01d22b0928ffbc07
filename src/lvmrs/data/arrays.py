"""Data sets in memory: scikit-learn's digits, and .npz files."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmrs._util.facts import DataFacts
from lvmrs._util.optional import optional
from lvmrs.data.archive import read_arrays
from lvmrs.data.base import Dataset
from lvmrs.errors import DataError
from lvmrs.kernel import checks

__all__ = ["Arrays", "digits", "npz", "part_of"]

_T = TypeVar("_T")
# Larger labels are not class numbers.
_LARGEST_LABEL = 1 << 31


class Arrays(Dataset):
    """A data set in two arrays.

    Args:
        name: the name of the data set.
        split: the part of the data set, such as "test".
        inputs: (count, …); bytes are divided by 255, and floats must lie in [0, 1].
        labels: whole numbers from 0, one for each input.
        classes: names of the classes, if known.
        facts: metadata of the source, and assumptions about it.
        names: a name for each input, if the inputs have names.
        levels: if known, floats are multiples of 1/levels; bytes always have 255 levels.

    >>> data = Arrays("two", "test", np.zeros((2, 1, 8, 8), np.uint8), np.array([0, 1]))
    >>> data, data[1][1]
    (<two, test: 2 inputs>, 1)
    """

    def __init__(
        self,
        name: str,
        split: str,
        inputs: NDArray[Any],
        labels: NDArray[Any],
        *,
        classes: tuple[str, ...] | None = None,
        facts: DataFacts | None = None,
        names: NDArray[Any] | None = None,
        levels: int | None = None,
    ) -> None:
        self.name, self.split, self.classes, self.facts = name, split, classes, facts or DataFacts()
        for kind, array in (("inputs", inputs), ("labels", labels)):
            checks.instance(kind, array, np.ndarray, "a NumPy array")
        if inputs.ndim < 2:
            raise DataError(f"{name}: the inputs have shape {inputs.shape}; expected at least two dimensions")
        labels = _labels(name, labels)
        if len(inputs) != len(labels):
            raise DataError(f"{name}: {len(inputs)} inputs but {len(labels)} labels; there must be one for each")
        if not len(inputs):
            raise DataError(f"{name}: there are no inputs in split {split!r}")
        if not inputs.size:
            raise DataError(f"{name}: the inputs are empty (shape {inputs.shape}); each must have at least one value")
        if inputs.dtype != np.uint8:
            _check_range(name, inputs)
        if classes is not None and labels.max() >= len(classes):
            raise DataError(f"{name}: label {labels.max()} is out of range for {len(classes)} classes")
        if names is not None and (names.shape != labels.shape or names.dtype.kind not in "US"):
            raise DataError(f"{name}: the names of the inputs must be texts, one for each input")
        self.inputs, self.labels, self.names = inputs, labels, names
        self.levels = 255 if inputs.dtype == np.uint8 else levels

    def __len__(self) -> int:
        """The number of inputs."""
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """One input and its label."""
        inputs, labels = self.many([index])
        return inputs[0], int(labels[0])

    def many(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Several inputs and their labels, each with a leading dimension."""
        rows = np.asarray(indices)
        x = torch.from_numpy(self.inputs[rows].astype(np.float32))
        return (x / 255 if self.inputs.dtype == np.uint8 else x), torch.from_numpy(self.labels[rows])

    def input_name(self, index: int) -> str | None:
        """The name of an input; None if the inputs have no names."""
        if self.names is None:
            return None
        found = self.names[index]
        return found.decode(errors="backslashreplace") if isinstance(found, bytes) else str(found)

    def largest_label(self) -> int:
        """The largest label."""
        return int(self.labels.max())

    def fingerprint(self) -> str:
        """A hash of shape, type, values and labels."""
        digest = hashlib.sha256(f"{self.inputs.shape} {self.inputs.dtype}".encode())
        digest.update(np.ascontiguousarray(self.inputs).data)
        digest.update(np.ascontiguousarray(self.labels).data)
        return digest.hexdigest()


def _labels(name: str, labels: NDArray[Any]) -> NDArray[np.int64]:
    flat = labels.reshape(-1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
    whole = np.issubdtype(flat.dtype, np.integer) or (
        np.issubdtype(flat.dtype, np.floating) and np.array_equal(flat, np.round(flat))
    )
    if flat.ndim != 1 or not whole or (flat < 0).any() or (flat > _LARGEST_LABEL).any():
        raise DataError(f"{name}: labels must be whole numbers from 0, one for each input; save class numbers")
    return flat.astype(np.int64)


def _check_range(name: str, inputs: NDArray[Any]) -> None:
    if not np.issubdtype(inputs.dtype, np.floating):
        raise DataError(f"{name}: the inputs are {inputs.dtype}; save them as uint8, or as floats in [0, 1]")
    low, high = float(inputs.min()), float(inputs.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise DataError(f"{name}: the inputs hold NaN or infinity; they must lie in [0, 1]")
    if not (low >= 0 and high <= 1):
        fix = "divide by 255, or save as uint8" if low >= 0 and high <= 255 else "undo the normalisation"
        raise DataError(
            f"{name}: the inputs range from {low:g} to {high:g}; they must lie in [0, 1], the units of sigma: {fix}"
        )


def digits(name: str, rest: str, split: str) -> Dataset:
    """Load scikit-learn's 1797 digits of 8 × 8 pixels.

    The first 1437 are the split "train"; the last 360, by other writers, are the split "test".
    """
    bunch = optional("sklearn.datasets", extra="digits", error=DataError).load_digits()
    part = part_of(name, {"train": slice(0, 1437), "test": slice(1437, None)}, split)
    images = (bunch.images[part, None] / 16).astype(np.float32)
    return Arrays(name, split, images, bunch.target[part], classes=tuple(map(str, range(10))), levels=16)


def npz(name: str, rest: str, split: str, classes: tuple[str, ...] | None = None) -> Dataset:
    """Load the arrays x_SPLIT and y_SPLIT of a NumPy archive, or x and y if it has no splits.

    An optional array names_SPLIT, or names, holds a text for each input, which rows of runs repeat.
    """

    def choose(held: list[str]) -> list[str]:
        names = [f"x_{split}", f"y_{split}"] if f"x_{split}" in held else ["x", "y"]
        if missing := sorted(set(names) - set(held)):
            raise DataError(
                f"{name}: {' and '.join(missing)} not found; expected x_{split} and y_{split}, or x and y, "
                f"and the file holds {', '.join(held) or 'nothing'}"
            )
        named = f"names{names[0][1:]}"
        return [*names, named] if named in held else names

    chosen = read_arrays(name, Path(rest), choose)
    inputs, labels, *texts = chosen.values()
    last = inputs.ndim == 4 and inputs.shape[-1] in (1, 3) and inputs.shape[1] not in (1, 3)
    inputs = inputs.transpose(0, 3, 1, 2) if last else inputs
    facts = DataFacts(channels_last=last)
    found = Arrays(name, split, inputs, labels, classes=classes, facts=facts, names=next(iter(texts), None))
    found.divided = "x" not in chosen
    return found


def part_of(name: str, splits: dict[str, _T], split: str) -> _T:
    """The entry of ``splits`` for a split. Raises DataError for an unknown split."""
    if split not in splits:
        raise DataError(f"{name}: there is no split {split!r}; choose {' or '.join(splits)}")
    return splits[split]
