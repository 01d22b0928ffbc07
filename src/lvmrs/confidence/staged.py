"""Bounds for 0/1 data at a few stages, which share the risk (Horváth et al. 2022), to compare others with.

Before sampling begins, some numbers of samples are fixed. After each, the bound of Clopper and Pearson is computed at
an equal share of the risk; between two stages the last bound stands, and the best of all stages so far holds. So
sampling may stop for any reason, but it pays to stop at a stage only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from lvmrs import binomial
from lvmrs._checks import Floats
from lvmrs.confidence.base import Bound, Sides, Tally

__all__ = ["Staged", "stages"]

# How many stages there are, and how many times as many samples one has as that before it.
_STAGES, _FACTOR = 4, 10


def stages(n: int) -> list[int]:
    """The numbers of samples after which bounds are computed, up to n.

    >>> stages(100_000), stages(50)
    ([100, 1000, 10000, 100000], [5, 50])
    """
    found = {n // _FACTOR**k for k in range(_STAGES)}
    return sorted(found - {0})


@dataclass(frozen=True)
class Staged(Bound):
    """Clopper and Pearson's bounds for 0/1 scores at a few stages that share the risk."""

    name: ClassVar[str] = "staged"
    votes_only: ClassVar[bool] = True
    anytime: ClassVar[bool] = True

    def tally(self, n: int, risks: Floats, upper: Sides) -> Tally:
        """A tally that counts the ones of each column up to the last stage."""
        return _Stages(stages(n), risks, upper)

    def forecast(self, mean: Floats, variance: Floats, n: int, risk: float) -> Floats:
        """The bound of the last stage for the expected count, rounded down."""
        count = np.floor(np.clip(mean, 0.0, 1.0) * n)
        return binomial.lower(count, np.asarray(float(n)), np.asarray(risk / len(stages(n))))


class _Stages(Tally):
    def __init__(self, ends: list[int], risks: Floats, upper: Sides) -> None:
        self.ends, self.upper, self.risks = list(ends), upper, risks / len(ends)
        self.n, self.counts = 0, np.zeros(len(risks))
        self.best: Floats = np.where(upper, 1.0, 0.0)

    def add(self, columns: Tensor) -> None:
        while len(columns) and self.ends:
            part, columns = columns[: self.ends[0] - self.n], columns[self.ends[0] - self.n :]
            self.n += len(part)
            self.counts += part.sum(dim=0).cpu().numpy()
            if self.n == self.ends[0]:
                self._end_stage()

    def _end_stage(self) -> None:
        n = np.asarray(float(self.ends.pop(0)))
        ones = np.where(self.upper, n - self.counts, self.counts)
        low = binomial.lower(ones, n, self.risks)
        self.best = np.where(self.upper, np.minimum(self.best, 1 - low), np.maximum(self.best, low))

    def bounds(self) -> Floats:
        return self.best
