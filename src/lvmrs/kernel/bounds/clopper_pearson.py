"""The exact bound for a binomial proportion (Clopper and Pearson 1934): for variables that are 0 or ``mass`` only.

It agrees with the beta quantiles of SciPy to a relative 10⁻⁹ for risks from 10⁻⁸ to 0.97 and n up to 10⁶.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
from torch import Tensor

from lvmrs.kernel import checks
from lvmrs.kernel.bounds.base import Bound, Sides, Tally
from lvmrs.kernel.checks import Floats, Numbers


def lower(count: Numbers, n: Numbers, risk: Numbers, *, mass: Numbers = 1.0) -> Floats:
    """Lower bound on the mean, which exceeds the true mean with probability at most ``risk``.

    Args:
        count: how many of the samples were not zero, from 0 to n.
        n: number of independent samples.
        risk: probability of error, strictly between 0 and 1.
        mass: the value of a sample that is not zero.

    Returns:
        The bound in [0, mass]; 0 for a count of 0.

    >>> print(f"{lower(990, 1000, 0.001):.4f}")
    0.9760
    """
    count, n, risk, top = guarded_counts(count, n, risk, mass)
    inside = scipy.special.betaincinv(np.maximum(count, 1), n - np.maximum(count, 1) + 1, risk)
    return checks.unwrapped(top * np.where(count > 0, inside, 0.0))


def upper(count: Numbers, n: Numbers, risk: Numbers, *, mass: Numbers = 1.0) -> Floats:
    """Upper bound on the mean, which falls below the true mean with probability at most ``risk``.

    The arguments are those of ``lower``. The bound is ``mass`` for a count of n.

    >>> print(f"{upper(5, 1000, 0.001):.4f}")
    0.0164
    """
    count, n, risk, top = guarded_counts(count, n, risk, mass)
    # The beta quantile at 1 − risk, by its complement: 1 − risk itself would lose the digits of a small risk.
    inside = scipy.special.betainccinv(np.minimum(count, n - 1) + 1, np.maximum(n - count, 1), risk)
    return checks.unwrapped(top * np.where(count < n, inside, 1.0))


def guarded_counts(count: Numbers, n: Numbers, risk: Numbers, mass: Numbers) -> tuple[Floats, Floats, Floats, Floats]:
    """Check the arguments of a bound from counts, and return them as arrays that broadcast.

    >>> [float(part) for part in guarded_counts(5, 10, 0.1, 1.0)]
    [5.0, 10.0, 0.1, 1.0]
    """
    top = checks.mass(mass)
    count, n, risk = checks.whole("count", count, least=0), checks.whole("n", n, least=1), checks.risk(risk)
    checks.broadcast(count=count, n=n, risk=risk, mass=top)
    shown, most = np.broadcast_arrays(count, n)
    checks.require("count", shown, shown <= most, "must not exceed n")
    return count, n, risk, top


@dataclass(frozen=True)
class ClopperPearson(Bound):
    """Exact bounds for 0/1 scores, from their counts."""

    name: ClassVar[str] = "clopper_pearson"
    votes_only: ClassVar[bool] = True

    def tally(self, n: int, risks: Floats, upper: Sides) -> Tally:
        """A tally that counts the ones of each column."""
        return _Counts(n, risks, upper)

    def forecast(self, mean: Floats, variance: Floats, n: int, risk: float) -> Floats:
        """The bound for the expected count, rounded down."""
        return lower(np.floor(np.clip(mean, 0.0, 1.0) * n), n, risk)


class _Counts(Tally):
    def __init__(self, n: int, risks: Floats, upper: Sides) -> None:
        self.n, self.risks, self.upper = n, risks, upper
        self.counts = np.zeros(len(risks))

    def add(self, columns: Tensor) -> None:
        self.counts += columns.sum(dim=0).cpu().numpy()

    def bounds(self) -> Floats:
        found = np.empty(len(self.counts))
        for side, closed_form in ((~self.upper, lower), (self.upper, upper)):
            if side.any():
                found[side] = closed_form(self.counts[side], self.n, self.risks[side])
        return found


# ---------------------------------------------------------------------------------------------------------------------
# Bounds for 0/1 data at a few stages, which share the risk (Horváth et al. 2022), for comparisons.
#
# Before sampling begins, some numbers of samples are fixed. After each, the bound of Clopper and Pearson is computed at
# an equal share of the risk; between two stages the last bound remains, and the best of all stages so far holds. So
# sampling may stop for any reason, but samples after the last stage are not used.


# The number of stages, and the factor between their numbers of samples.
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
        return lower(np.floor(np.clip(mean, 0.0, 1.0) * n), n, risk / len(stages(n)))


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
        n = self.ends.pop(0)
        ones = np.where(self.upper, n - self.counts, self.counts)
        low = lower(ones, n, self.risks)
        self.best = np.where(self.upper, np.minimum(self.best, 1 - low), np.maximum(self.best, low))

    def bounds(self) -> Floats:
        return self.best
