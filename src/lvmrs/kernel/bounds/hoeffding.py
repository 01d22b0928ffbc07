"""Hoeffding's bound (1963), from the mean alone, for any variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lvmrs.kernel import checks
from lvmrs.kernel.bounds.base import Bound, Sides, Tally, TallyOfMoments
from lvmrs.kernel.bounds.betting import ROUNDING
from lvmrs.kernel.checks import Floats, Numbers


def lower(mean: Numbers, n: Numbers, risk: Numbers, *, mass: Numbers = 1.0) -> Floats:
    """Lower bound on the mean, which exceeds the true mean with probability at most ``risk``.

    Args:
        mean: mean of the samples, which lie in [0, mass].
        n: number of independent samples.
        risk: probability of error, strictly between 0 and 1.
        mass: the largest possible value of a sample.

    Returns:
        mean − mass √(ln(1/risk)/(2n)), or 0 where that is negative.

    >>> print(f"{lower(0.99, 1000, 0.001):.4f}")
    0.9312
    """
    mean, width, _ = _guarded(mean, n, risk, mass)
    return checks.unwrapped(np.maximum(mean - width, 0.0))


def upper(mean: Numbers, n: Numbers, risk: Numbers, *, mass: Numbers = 1.0) -> Floats:
    """Upper bound on the mean, which falls below the true mean with probability at most ``risk``.

    The arguments are those of ``lower``. The bound is at most ``mass``.

    >>> print(f"{upper(0.01, 1000, 0.001):.4f}")
    0.0688
    """
    mean, width, top = _guarded(mean, n, risk, mass)
    return checks.unwrapped(np.minimum(mean + width, top))


def _guarded(mean: Numbers, n: Numbers, risk: Numbers, mass: Numbers) -> tuple[Floats, Floats, Floats]:
    top = checks.mass(mass)
    mean, n, risk = (
        checks.within("mean", mean, top, slack=ROUNDING),
        checks.whole("n", n, least=1),
        checks.risk(risk),
    )
    checks.broadcast(mean=mean, n=n, risk=risk, mass=top)
    return mean, top * np.sqrt(-np.log(risk) / (2 * n)), top


@dataclass(frozen=True)
class Hoeffding(Bound):
    """Bounds for any scores in [0, 1], from their mean."""

    name: ClassVar[str] = "hoeffding"

    def tally(self, n: int, risks: Floats, upper: Sides) -> Tally:
        """A tally of the mean of each column."""
        return TallyOfMoments(n, risks, upper, _lower_of_moments, _upper_of_moments)

    def forecast(self, mean: Floats, variance: Floats, n: int, risk: float) -> Floats:
        """The bound at the expected mean; its width is known beforehand."""
        return lower(np.clip(mean, 0.0, 1.0), n, risk)


def _lower_of_moments(mean: Floats, _: Floats, n: int, risk: Floats) -> Floats:
    return lower(mean, n, risk)


def _upper_of_moments(mean: Floats, _: Floats, n: int, risk: Floats) -> Floats:
    return upper(mean, n, risk)
