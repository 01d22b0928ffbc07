"""Which inputs of a data set a run is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lvmrs.errors import InvalidArgumentError

__all__ = ["Selection"]


@dataclass(frozen=True)
class Selection:
    """Every ``skip``-th input below index ``max``, and of these the share of one shard.

    >>> list(Selection(size=10, skip=2, shard=2, shards=2).indices)
    [2, 6]
    """

    size: int
    """How many inputs the data set has."""
    skip: int = 1
    max: int | None = None
    shard: int = 1
    shards: int = 1
    only: list[int] | None = None
    """If given, just these: for results of other projects."""

    def __post_init__(self) -> None:
        for name in ("skip", "shards", "shard", "max"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not (whole and value >= 1) and not (name == "max" and value is None):
                raise InvalidArgumentError(f"{name} must be a whole number of at least 1, got {value!r}")
        if self.shard > self.shards:
            raise InvalidArgumentError(f"shard {self.shard} of {self.shards} does not exist; they are numbered from 1")

    @property
    def indices(self) -> Sequence[int]:
        """The indices in the data set, in the order in which they are certified."""
        if self.only is not None:
            return self.only
        stop = self.size if self.max is None else min(self.size, self.max)
        return range(0, stop, self.skip)[self.shard - 1 :: self.shards]
