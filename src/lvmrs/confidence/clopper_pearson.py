"""The exact bound for a binomial proportion (Clopper and Pearson 1934): for variables that are 0 or ``mass`` only.

It agrees with the beta quantiles of SciPy to a relative 10⁻⁹ for risks from 10⁻⁸ to 0.97 and n up to 10⁶.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from lvmrs import _checks, binomial
from lvmrs._checks import Floats, Numbers
from lvmrs.confidence.base import Bound, Sides, Tally

__all__ = ["ClopperPearson", "guarded_counts", "lower", "upper"]


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
    return _checks.unwrapped(top * binomial.lower(count, n, risk))


def upper(count: Numbers, n: Numbers, risk: Numbers, *, mass: Numbers = 1.0) -> Floats:
    """Upper bound on the mean, which falls below the true mean with probability at most ``risk``.

    The arguments are those of ``lower``. The bound is ``mass`` for a count of n.

    >>> print(f"{upper(5, 1000, 0.001):.4f}")
    0.0164
    """
    count, n, risk, top = guarded_counts(count, n, risk, mass)
    return _checks.unwrapped(top * binomial.upper(count, n, risk))


def guarded_counts(count: Numbers, n: Numbers, risk: Numbers, mass: Numbers) -> tuple[Floats, Floats, Floats, Floats]:
    """Check the arguments of a bound from counts; they are given back as arrays that broadcast.

    >>> [float(part) for part in guarded_counts(5, 10, 0.1, 1.0)]
    [5.0, 10.0, 0.1, 1.0]
    """
    top = _checks.mass(mass)
    count, n, risk = _checks.whole("count", count, least=0), _checks.whole("n", n, least=1), _checks.risk(risk)
    _checks.broadcast(count=count, n=n, risk=risk, mass=top)
    shown, most = np.broadcast_arrays(count, n)
    _checks.require("count", shown, shown <= most, "must not exceed n")
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
