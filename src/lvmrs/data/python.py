"""Data sets by the user's own Python code."""

from __future__ import annotations

import numpy as np

from lvmrs._user_code import called, imported
from lvmrs.data.arrays import Arrays
from lvmrs.data.base import Dataset
from lvmrs.errors import DataError

__all__ = ["python"]


def python(name: str, rest: str, split: str) -> Dataset:
    """The ``Dataset`` that ``MODULE:NAME`` is, or what the function of that name returns for the split."""
    made = imported(name, rest, error=DataError)
    if callable(made) and not isinstance(made, Dataset):
        made = called(name, made, split, error=DataError)
    if isinstance(made, Dataset):
        made.name, made.split = getattr(made, "name", name), getattr(made, "split", split)
        return made
    if isinstance(made, tuple) and len(made) == 2:
        return Arrays(name, split, *(np.asarray(part) for part in made))
    raise DataError(f"{name}: got {type(made).__name__}; called with the split, it must return (inputs, labels)")
