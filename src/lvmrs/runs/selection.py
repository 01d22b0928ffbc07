"""The selection of inputs of a data set that a run certifies."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from lvmrs.errors import InvalidArgumentError, shown

__all__ = ["Selection"]


@dataclass(frozen=True)
class Selection:
    """Every ``skip``-th input below index ``max``; of these, the inputs of one shard.

    >>> list(Selection(size=10, skip=2).indices)
    [0, 2, 4, 6, 8]
    >>> list(Selection(size=10, skip=2, shard=2, shards=2).indices)
    [2, 6]
    """

    size: int
    """How many inputs the data set has."""
    skip: int = 1
    """Take every ``skip``-th input."""
    max: int | None = None
    """Take inputs below this index only; None for all."""
    shard: int = 1
    """The number of this shard, from 1 to ``shards``."""
    shards: int = 1
    """Into how many shards the inputs are divided in turn."""
    only: list[int] | None = None
    """If given, take exactly these indices; results of other projects need this."""

    def __post_init__(self) -> None:
        for name in ("skip", "shards", "shard", "max"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not (whole and value >= 1) and not (name == "max" and value is None):
                raise InvalidArgumentError(f"{name} must be a whole number of at least 1, got {shown(value)}")
        if not isinstance(self.size, int) or self.size < 0:
            raise InvalidArgumentError(f"size must be a whole number of at least 0, got {shown(self.size)}")
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


def _rising(indices: object, size: int) -> bool:
    """Whether these are whole numbers below ``size``, from 0, each larger than the one before."""
    if not isinstance(indices, list) or not all(type(k) is int for k in indices):
        return False
    return all(a < b for a, b in itertools.pairwise((-1, *indices, size)))
