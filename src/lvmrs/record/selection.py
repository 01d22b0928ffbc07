"""The selection of inputs of a data set that a run certifies."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lvmrs.errors import InvalidArgumentError, shown

__all__ = ["Selection"]

# Indices below this number are exact in files of floats, too.
_MOST = 1 << 53


@dataclass(frozen=True)
class Selection:
    """Every ``skip``-th input below index ``max``; of these, the inputs of one shard.

    >>> list(Selection(size=10, skip=2).indices)
    [0, 2, 4, 6, 8]
    >>> list(Selection(size=10, skip=2, shard=2, shards=2).indices)
    [2, 6]
    """

    size: int
    """Number of inputs of the data set."""
    skip: int = 1
    """Take every ``skip``-th input."""
    max: int | None = None
    """Take only inputs below this index; None for all."""
    shard: int = 1
    """The number of this shard, from 1 to ``shards``."""
    shards: int = 1
    """Number of shards. Inputs are assigned to shards round-robin."""
    only: list[int] | None = None
    """If given, take exactly these indices; imported results need this."""

    def __post_init__(self) -> None:
        for name in ("skip", "shards", "shard", "max"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not (whole and value >= 1) and not (name == "max" and value is None):
                raise InvalidArgumentError(f"{name} must be a whole number of at least 1, got {shown(value)}")
        if not isinstance(self.size, int) or not 0 <= self.size < _MOST:
            raise InvalidArgumentError(f"size must be a whole number from 0 to 2⁵³ − 1, got {shown(self.size)}")
        if self.only is not None and (self.shards > 1 or not _rising(self.only, self.size)):
            raise InvalidArgumentError("only must list indices of the data set in order, each once, without shards")
        if self.shard > self.shards:
            raise InvalidArgumentError(f"shard {self.shard} of {self.shards} does not exist; they are numbered from 1")

    @property
    def indices(self) -> Sequence[int]:
        """The indices in the data set, in the order in which they are certified."""
        if self.only is not None:
            return self.only
        stop = self.size if self.max is None else min(self.size, self.max)
        return range(0, stop, self.skip)[self.shard - 1 :: self.shards]

    def position(self, index: int) -> int:
        """The position of an index in ``indices``, without a linear search."""
        indices = self.indices
        found = indices.index(index) if isinstance(indices, range) else bisect_left(indices, index)
        if found == len(indices) or indices[found] != index:
            raise ValueError(f"{index} is not in the selection")
        return found

    def has(self, idx: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each of these indices is selected."""
        indices = self.indices
        if isinstance(indices, range):
            found = (idx >= indices.start) & (idx < indices.stop) & ((idx - indices.start) % indices.step == 0)
            return np.asarray(found, bool)
        return np.isin(idx, np.array(indices, np.int64))


def _rising(indices: object, size: int) -> bool:
    """Whether these are strictly increasing whole numbers from 0 to below ``size``."""
    if not isinstance(indices, list) or not all(type(k) is int for k in indices):
        return False
    return all(a < b for a, b in itertools.pairwise((-1, *indices, size)))
