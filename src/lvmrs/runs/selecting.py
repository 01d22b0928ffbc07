"""Checks that a selection of inputs fits a data set."""

from __future__ import annotations

from dataclasses import replace

from lvmrs.data import Dataset
from lvmrs.errors import DataError, InvalidArgumentError
from lvmrs.kernel import checks
from lvmrs.record import Selection

__all__ = ["check_selection"]


def check_selection(data: Dataset, selection: Selection) -> None:
    """Raise if a selection was made for other data, is empty, or has more shards than inputs.

    Args:
        data: the data set.
        selection: the inputs to certify.

    >>> import numpy as np
    >>> from lvmrs.data import Arrays
    >>> check_selection(Arrays("two", "test", np.eye(2), np.arange(2)), Selection(2, shard=1, shards=3))
    Traceback (most recent call last):
    lvmrs.errors.DataError: two: 3 shards for 2 inputs; take fewer
    """
    checks.instance("data", data, Dataset, "a Dataset, as lvmrs.data.load gives it")
    checks.instance("selection", selection, Selection, "a Selection")
    whole = replace(selection, shard=1, shards=1)
    if selection.size != len(data):
        raise InvalidArgumentError(
            f"the selection is for {selection.size} inputs, and {data.name} has {len(data)}; make it for this data set"
        )
    if not len(whole.indices):
        raise DataError(f"{data.name}: no inputs are selected; check max and skip")
    if selection.shards > len(whole.indices):
        raise DataError(f"{data.name}: {selection.shards} shards for {len(whole.indices)} inputs; take fewer")
