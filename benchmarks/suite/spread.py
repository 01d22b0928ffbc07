"""Medians with their spread, and ratios of times that were measured in the same rounds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Spread", "ratio", "spread"]


@dataclass(frozen=True)
class Spread:
    """The median of several measurements, the smallest and the largest."""

    median: float
    low: float
    high: float

    def text(self, digits: int = 2) -> str:
        """The median, and the range in brackets.

        >>> Spread(1.0, 0.95, 1.1).text()
        '1.00 (0.95–1.10)'
        """
        return f"{self.median:.{digits}f} ({self.low:.{digits}f}–{self.high:.{digits}f})"


def spread(values: Sequence[float]) -> Spread:
    """Median and range.

    >>> spread([3.0, 1.0, 2.0])
    Spread(median=2.0, low=1.0, high=3.0)
    """
    return Spread(statistics.median(values), min(values), max(values))


def ratio(times: Mapping[str, Sequence[float]], name: str, reference: str) -> Spread:
    """How many times as long as the reference one contestant took, round by round.

    >>> ratio({"a": [2.0, 4.0, 9.0], "b": [1.0, 2.0, 3.0]}, "a", "b")
    Spread(median=2.0, low=2.0, high=3.0)
    """
    return spread([mine / theirs for mine, theirs in zip(times[name], times[reference], strict=True)])
