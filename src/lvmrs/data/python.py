"""Data sets from the user's Python code."""

from __future__ import annotations

import numpy as np

from lvmrs._util.facts import DataFacts
from lvmrs._util.user_code import called, imported
from lvmrs.data.arrays import Arrays
from lvmrs.data.base import Dataset
from lvmrs.errors import DataError, guarded
from lvmrs.kernel import checks

__all__ = ["python"]


def python(name: str, rest: str, split: str) -> Dataset:
    """Import the ``Dataset`` ``MODULE:NAME``, or call the function ``MODULE:NAME`` with the split.

    The function returns a ``Dataset``, or a pair of arrays (inputs, labels).
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
    if isinstance(made, tuple) and len(made) == 2:
        with guarded(f"{name}: inputs and labels are not arrays", error=DataError):
            inputs, labels = (np.asarray(part) for part in made)
        return Arrays(name, split, inputs, labels)
    raise DataError(
        f"{name}: it gives {type(made).__name__}; expected a Dataset, or a function from a split to (inputs, labels)"
    )
