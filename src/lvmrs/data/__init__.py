"""Data sets by one name.

=========================  =========================================================================================
``digits``                 scikit-learn's 8 × 8 digits
``cifar10:PATH``           the folder of the official python batches, or an .npz
``imagefolder:PATH``       PATH/CLASS/IMAGE
``npz:FILE``               arrays x_test and y_test, or x and y
``hf:NAME``                a data set of the Hugging Face hub, or a folder saved by its library
``python:MODULE:NAME``     what a function of yours returns: a ``Dataset``, or (inputs, labels)
=========================  =========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lvmrs._python import called, imported
from lvmrs.data.arrays import Arrays, cifar10, digits, npz
from lvmrs.data.base import Dataset, checked_input
from lvmrs.data.folder import ImageFolder
from lvmrs.data.huggingface import HuggingFaceDataset
from lvmrs.errors import DataError

__all__ = ["Arrays", "Dataset", "ImageFolder", "checked_input", "load"]


def load(name: str, *, split: str = "test", size: int | None = None) -> Dataset:
    """The data set of that name. ``size`` scales and crops images from files to squares of that many pixels."""
    kind, _, rest = name.partition(":")
    if size is not None and size < 1:
        raise DataError(f"image size must be a whole number of at least 1, got {size}")
    if kind in _SIZED:
        return _SIZED[kind](name, rest, split, size)
    if size is not None:
        raise DataError(f"{name}: a size can be asked for with imagefolder and hf only; leave it out")
    if kind not in _PLAIN:
        known = ", ".join((*_PLAIN, *_SIZED))
        raise DataError(f"{name}: no data set of that name; it begins with one of {known}, as in npz:FILE")
    return _PLAIN[kind](name, rest, split)


def _python(name: str, rest: str, split: str) -> Dataset:
    made = imported(name, rest, error=DataError)
    if callable(made) and not isinstance(made, Dataset):
        made = called(name, made, split, error=DataError)
    if isinstance(made, Dataset):
        made.name, made.split = getattr(made, "name", name), getattr(made, "split", split)
        return made
    if isinstance(made, tuple) and len(made) == 2:
        return Arrays(name, split, *(np.asarray(part) for part in made))
    raise DataError(f"{name}: got {type(made).__name__}; called with the split, it must return (inputs, labels)")


_PLAIN: dict[str, Callable[[str, str, str], Dataset]] = {
    "digits": digits,
    "cifar10": cifar10,
    "npz": npz,
    "python": _python,
}
_SIZED: dict[str, Callable[[str, str, str, int | None], Dataset]] = {
    "imagefolder": ImageFolder,
    "hf": HuggingFaceDataset,
}
