"""The empirical Bernstein bound (Maurer and Pontil 2009, theorem 4): narrow where the observed variance is small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lvmrs.kernel import checks
from lvmrs.kernel.bounds.base import Bound, Sides, Tally, TallyOfMoments
from lvmrs.kernel.bounds.betting import ROUNDING
from lvmrs.kernel.checks import Floats, Numbers


def lower(mean: Numbers, variance: Numbers, n: Numbers, risk: Numbers, *, mass: Numbers = 1.0) -> Floats:
    """Lower bound on the mean, which exceeds the true mean with probability at most ``risk``.

    Args:
        mean: mean of the samples, which lie in [0, mass].
        variance: unbiased variance of all n samples.
        n: number of independent samples, at least 2.
        risk: probability of error, strictly between 0 and 1.
        mass: the largest possible value of a sample.

    Returns:
        mean − √(2 variance ln(2/risk)/n) − 7 mass ln(2/risk)/(3(n − 1)), or 0 where that is negative.

    >>> print(f"{lower(0.99, 0.0004, 1000, 0.001):.4f}")
    0.9698
    """
    mean, width, _ = _guarded(mean, variance, n, risk, mass)
    return checks.unwrapped(np.maximum(mean - width, 0.0))


def upper(mean: Numbers, variance: Numbers, n: Numbers, risk: Numbers, *, mass: Numbers = 1.0) -> Floats:
    """Upper bound on the mean, which falls below the true mean with probability at most ``risk``.

    The arguments are those of ``lower``. The bound is at most ``mass``.

    >>> print(f"{upper(0.01, 0.0004, 1000, 0.001):.4f}")
    0.0302
    """
    mean, width, top = _guarded(mean, variance, n, risk, mass)
    return checks.unwrapped(np.minimum(mean + width, top))


def _guarded(
    mean: Numbers, variance: Numbers, n: Numbers, risk: Numbers, mass: Numbers
) -> tuple[Floats, Floats, Floats]:
    top = checks.mass(mass)
    mean, n, risk = (
        checks.within("mean", mean, top, slack=ROUNDING),
        checks.whole("n", n, least=2),
        checks.risk(risk),
    )
    variance = checks.real("variance", variance)
    checks.broadcast(mean=mean, variance=variance, n=n, risk=risk, mass=top)
    # n samples in [0, mass] of that mean cannot vary more than this; the slack is for rounding.
    most = mean * (top - mean) * n / (n - 1) + ROUNDING * top**2
    shown, most = np.broadcast_arrays(variance, most)
    rule = "must be that of samples in [0, mass]: at least 0 and at most mean·(mass − mean)·n/(n − 1)"
    checks.require("variance", shown, (shown >= 0) & (shown <= most), rule)
    log = np.log(2) - np.log(risk)
    return mean, np.sqrt(2 * variance * log / n) + top * 7 * log / (3 * (n - 1)), top


_CLOSED_FORMS = lower, upper


@dataclass(frozen=True)
class Bernstein(Bound):
    """Bounds for any scores in [0, 1], from their mean and variance."""

    name: ClassVar[str] = "bernstein"

    def tally(self, n: int, risks: Floats, upper: Sides) -> Tally:
        """A tally of the mean and variance of each column."""
        return TallyOfMoments(n, risks, upper, *_CLOSED_FORMS)

    def forecast(self, mean: Floats, variance: Floats, n: int, risk: float) -> Floats:
        """The bound for the expected moments."""
        log = np.log(2 / risk)
        width = np.sqrt(2 * variance * log / n) + 7 * log / (3 * (n - 1))
        lowest: Floats = np.maximum(np.clip(mean, 0.0, 1.0) - width, 0.0)
        return lowest
