"""Data sets in memory: arrays, scikit-learn's digits, .npz files, and CIFAR-10.

Headers in .npz files are checked against the file size before memory is allocated.
"""

from __future__ import annotations

import hashlib
import math
import pickle
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.lib import format as npy_format
from numpy.typing import NDArray
from torch import Tensor

from lvmrs._util.facts import DataFacts
from lvmrs._util.files import expanded, is_file, is_folder, no_file
from lvmrs._util.text import optional
from lvmrs.data.base import Dataset, check_labelled
from lvmrs.errors import DataError, guarded
from lvmrs.kernel import checks

_T = TypeVar("_T")
# Larger labels are not class numbers.
_LARGEST_LABEL = 1 << 31
# Pixels up to this value, such as those of scikit-learn's digits, are hardly bytes.
_NOT_BYTES = 16
# NumPy's codes for kinds of values: numbers and texts.
_NUMBERS, _TEXTS = "biuf", "US"
_HEADERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}


class Arrays(Dataset):
    """A data set in two arrays.

    Args:
        name: the name of the data set.
        split: the part of the data set, such as "test".
        inputs: (count, …); bytes are divided by 255, and floats must lie in [0, 1].
        labels: whole numbers from 0, one for each input; None if the inputs have no labels.
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
        labels: NDArray[Any] | None,
        *,
        classes: tuple[str, ...] | None = None,
        facts: DataFacts | None = None,
        names: NDArray[Any] | None = None,
        levels: int | None = None,
    ) -> None:
        self.name, self.split, self.classes, self.facts = name, split, classes, facts or DataFacts()
        checks.instance("inputs", inputs, np.ndarray, "a NumPy array")
        if labels is None:
            self.facts = replace(self.facts, labels="none")
        else:
            checks.instance("labels", labels, np.ndarray, "a NumPy array")
        if inputs.ndim < 2:
            raise DataError(f"{name}: the inputs have shape {inputs.shape}; expected at least two dimensions")
        labels = None if labels is None else _labels(name, labels)
        if labels is not None and len(inputs) != len(labels):
            raise DataError(f"{name}: {len(inputs)} inputs but {len(labels)} labels; there must be one for each")
        if not len(inputs):
            raise DataError(f"{name}: there are no inputs in split {split!r}")
        if not inputs.size:
            raise DataError(f"{name}: the inputs are empty (shape {inputs.shape}); each must have at least one value")
        if inputs.dtype != np.uint8:
            _check_range(name, inputs)
        if classes is not None and labels is not None and labels.max() >= len(classes):
            raise DataError(f"{name}: label {labels.max()} is out of range for {len(classes)} classes")
        if names is not None and (names.shape != (len(inputs),) or names.dtype.kind not in _TEXTS):
            raise DataError(f"{name}: the names of the inputs must be texts, one for each input")
        self.inputs, self.labels, self.names = inputs, labels, names
        self.levels = 255 if inputs.dtype == np.uint8 else levels

    def __len__(self) -> int:
        """The number of inputs."""
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, int | None]:
        """One input and its label; None if there are no labels."""
        return self._inputs([index])[0], None if self.labels is None else int(self.labels[index])

    def many(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Several inputs and their labels, each with a leading dimension. Raises DataError if there are no labels."""
        check_labelled(self)
        assert self.labels is not None  # noqa: S101 (checked above)
        return self._inputs(indices), torch.from_numpy(self.labels[np.asarray(indices)])

    def _inputs(self, indices: Sequence[int]) -> Tensor:
        x = torch.from_numpy(self.inputs[np.asarray(indices)].astype(np.float32))
        return x / 255 if self.inputs.dtype == np.uint8 else x

    def input_name(self, index: int) -> str | None:
        """The name of an input; None if the inputs have no names."""
        if self.names is None:
            return None
        found = self.names[index]
        return found.decode(errors="backslashreplace") if isinstance(found, bytes) else str(found)

    def largest_label(self) -> int | None:
        """The largest label; None if there are no labels."""
        return None if self.labels is None else int(self.labels.max())

    def fingerprint(self) -> str:
        """A hash of shape, type, values and labels."""
        digest = hashlib.sha256(f"{self.inputs.shape} {self.inputs.dtype}".encode())
        digest.update(np.ascontiguousarray(self.inputs).data)
        if self.labels is not None:
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
        if low >= 0 and high <= _NOT_BYTES:
            fix = "divide by the largest value that a pixel can have"
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

    Without y, the inputs have no labels, and no array of another name is allowed, which could hold the labels.
    An optional array names_SPLIT, or names, holds a text for each input, which rows of runs repeat.
    """

    def choose(held: list[str]) -> list[str]:
        names = [f"x_{split}", f"y_{split}"] if f"x_{split}" in held else ["x", "y"]
        if set(names) - set(held) == {names[1]} and all(_is_known(key, held) for key in held):
            del names[1]
        elif missing := sorted(set(names) - set(held)):
            raise DataError(
                f"{name}: {' and '.join(missing)} not found; expected x_{split} and y_{split}, or x and y, "
                f"or x alone for inputs without labels, and the file holds {', '.join(held) or 'nothing'}"
            )
        named = f"names{names[0][1:]}"
        return [*names, named] if named in held else names

    chosen = _read_arrays(name, Path(rest), choose)
    by_kind = {key[0]: array for key, array in chosen.items()}
    inputs, facts = _channels_first(by_kind["x"])
    found = Arrays(name, split, inputs, by_kind.get("y"), classes=classes, facts=facts, names=by_kind.get("n"))
    found.divided = "x" not in chosen
    return found


def _is_known(key: str, held: list[str]) -> bool:
    """Whether an array of an archive holds inputs, their names, or the labels of inputs of the archive, by its name."""
    kind = key.partition("_")[0]
    return kind in ("x", "names") or (kind == "y" and f"x{key[1:]}" in held)


def npy(name: str, rest: str, split: str) -> Dataset:
    """Load inputs without labels from a NumPy file of one array; every split is the whole array."""
    path = Path(rest)
    with guarded(f"{name}: {path} is not an .npy file of a plain array", error=DataError), path.open("rb") as opened:
        _check_header(f"{name}: {path}", opened, path.stat().st_size, _NUMBERS)
        opened.seek(0)
        array = npy_format.read_array(opened, allow_pickle=False)
    inputs, facts = _channels_first(array)
    found = Arrays(name, split, inputs, None, facts=facts)
    found.divided = False
    return found


def _channels_first(inputs: NDArray[Any]) -> tuple[NDArray[Any], DataFacts]:
    """Images as channels × height × width, with the fact whether they came otherwise."""
    last = inputs.ndim == 4 and inputs.shape[-1] in (1, 3) and inputs.shape[1] not in (1, 3)
    return (inputs.transpose(0, 3, 1, 2) if last else inputs), DataFacts(channels_last=last)


def part_of(name: str, splits: dict[str, _T], split: str) -> _T:
    """The entry of ``splits`` for a split. Raises DataError for an unknown split."""
    if split not in splits:
        raise DataError(f"{name}: there is no split {split!r}; choose {' or '.join(splits)}")
    return splits[split]


def _read_arrays(name: str, path: Path, choose: Callable[[list[str]], list[str]]) -> dict[str, NDArray[Any]]:
    """Read the arrays of an archive that ``choose`` selects from all names."""
    other = "; write npy:FILE" if path.suffix == ".npy" else ""
    with (
        guarded(f"{name}: {path} is not an .npz archive of plain arrays{other}", error=DataError),
        zipfile.ZipFile(path) as archive,
    ):
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        chosen = {key: members[key] for key in choose(list(members))}
        for key, info in chosen.items():
            with archive.open(info) as opened:
                kinds = _TEXTS if key.startswith("names") else _NUMBERS
                _check_header(f"{name}: {key} of {path}", opened, info.file_size, kinds)
        if sum(info.file_size for info in chosen.values()) > checks.memory():
            raise DataError(f"{name}: {path} would take more than the memory of this machine; split it")
        arrays: dict[str, NDArray[Any]] = {}
        for key, info in chosen.items():
            with archive.open(info) as opened:
                arrays[key] = npy_format.read_array(opened, allow_pickle=False)
        return arrays


def _check_header(what: str, opened: Any, size: int, kinds: str) -> None:
    version = npy_format.read_magic(opened)
    if version not in _HEADERS:
        raise DataError(f"{what} is not a plain array: its format is {version[0]}.{version[1]}")
    shape, _, kind = _HEADERS[version](opened)
    if kind.kind not in kinds:
        expected = "texts" if kinds == _TEXTS else "numbers"
        raise DataError(f"{what} is not a plain array: it holds {kind}; expected {expected}")
    claimed = math.prod(shape) * kind.itemsize
    held = size - opened.tell()
    if min(shape, default=0) < 0 or claimed > held:
        raise DataError(f"{what} is damaged: its header says {claimed:,} bytes, and there are {held:,}")


CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def cifar10(name: str, rest: str, split: str) -> Dataset:
    """Load CIFAR-10 from the official python batches (Krizhevsky 2009), or from an .npz with x_test, y_test and so on.

    ``rest`` is the folder of the batches, its parent folder, or the .npz file.
    """
    path = expanded(rest)
    if is_file(path):
        return npz(name, str(path), split, classes=CIFAR10)
    if not is_folder(path):
        raise DataError(f"{name}: {path} {no_file(path)}; write cifar10:PATH")
    folder = path / "cifar-10-batches-py" if is_folder(path / "cifar-10-batches-py") else path
    files = part_of(name, {"train": [f"data_batch_{k}" for k in range(1, 6)], "test": ["test_batch"]}, split)
    batches = [_batch(name, folder / file) for file in files]
    inputs, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return Arrays(name, split, inputs, labels, classes=CIFAR10)


def _batch(name: str, file: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    if not is_file(file):
        raise DataError(f"{name}: {file} is missing; give the folder with data_batch_1 … and test_batch, or an .npz")
    with guarded(f"{name}: {file} is not an official CIFAR-10 batch", error=DataError):
        with file.open("rb") as opened:
            batch = _ArrayUnpickler(opened, encoding="bytes").load()
        pixels, labels = batch[b"data"], np.asarray(batch[b"labels"])
        if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != 3 * 32 * 32:
            raise DataError(f"{name}: {file} is not an official CIFAR-10 batch: its data are {pixels.dtype} numbers of "
                            f"shape {pixels.shape}, and not bytes of shape (…, 3072)")  # fmt: skip
        return pixels.reshape(-1, 3, 32, 32), labels


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickles arrays of numbers only. Functions in the pickle are replaced by ones that make arrays or bytes."""

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("numpy.") and module.endswith(".multiarray") and name == "_reconstruct":
            return lambda kind, shape, code: np.empty(0, np.uint8)  # the pickle then sets its shape and bytes
        known = {
            ("_codecs", "encode"): lambda text, encoding: text.encode("latin-1"),  # bytes that Python 2 pickled
            ("numpy", "ndarray"): None,
            ("numpy", "dtype"): np.dtype,
        }
        if (module, name) in known:
            return known[module, name]
        raise pickle.UnpicklingError(f"it would import {module}.{name}")
