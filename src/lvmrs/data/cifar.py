"""CIFAR-10 from the official python batches. Their pickles are read without running code from them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvmrs._util.files import expanded, is_file, is_folder, no_file
from lvmrs.data.arrays import Arrays, npz, part_of
from lvmrs.data.base import Dataset
from lvmrs.errors import DataError, guarded

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
