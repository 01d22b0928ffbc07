"""Data sets from the user's own Python code."""

from __future__ import annotations

import numpy as np

from lvmrs._user_code import called, imported
from lvmrs.data.arrays import Arrays
from lvmrs.data.base import Dataset
from lvmrs.errors import DataError

__all__ = ["python"]


def python(name: str, rest: str, split: str) -> Dataset:
    """Import the ``Dataset`` called ``MODULE:NAME``, or call the function of that name with the split.

    The function returns a ``Dataset``, or a pair of arrays (inputs, labels).
    """
    named = made = imported(name, rest, error=DataError)
    if callable(made) and not isinstance(made, Dataset):
        made = called(name, made, split, error=DataError)
    if isinstance(made, Dataset):
        made.name, made.split = getattr(made, "name", name), getattr(made, "split", split)
        made.divided = made.divided and made is not named
        return made
    if isinstance(made, tuple) and len(made) == 2:
        return Arrays(name, split, *(np.asarray(part) for part in made))
    raise DataError(
        f"{name}: it gives {type(made).__name__}; expected a Dataset, or a function from a split to (inputs, labels)"
    )
