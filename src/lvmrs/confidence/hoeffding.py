"""Hoeffding's bound (1963): from the mean alone, blind to the variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lvmrs import _checks
from lvmrs._checks import Floats, Numbers
from lvmrs.confidence.base import Bound, Sides, Tally, TallyOfMoments
from lvmrs.confidence.game import ROUNDING

__all__ = ["Hoeffding", "lower", "upper"]


def lower(mean: Numbers, n: Numbers, risk: Numbers, *, mass: Numbers = 1.0) -> Floats:
    """Exceeds the true mean with probability at most ``risk``, given the mean of n samples in [0, mass]."""
    mean, width, _ = _guarded(mean, n, risk, mass)
    return _checks.unwrapped(np.maximum(mean - width, 0.0))


def upper(mean: Numbers, n: Numbers, risk: Numbers, *, mass: Numbers = 1.0) -> Floats:
    """Falls below the true mean with probability at most ``risk``, given the mean of n samples in [0, mass]."""
    mean, width, top = _guarded(mean, n, risk, mass)
    return _checks.unwrapped(np.minimum(mean + width, top))


def _guarded(mean: Numbers, n: Numbers, risk: Numbers, mass: Numbers) -> tuple[Floats, Floats, Floats]:
    top = _checks.mass(mass)
    mean, n, risk = (
        _checks.within("mean", mean, top, slack=ROUNDING),
        _checks.whole("n", n, least=1),
        _checks.risk(risk),
    )
    _checks.broadcast(mean=mean, n=n, risk=risk, mass=top)
    return mean, top * np.sqrt(-np.log(risk) / (2 * n)), top


@dataclass(frozen=True)
class Hoeffding(Bound):
    """Bounds for any scores in [0, 1], from their mean."""

    name: ClassVar[str] = "hoeffding"

    def tally(self, n: int, risks: Floats, upper: Sides) -> Tally:
        """Moments of each column."""
        return TallyOfMoments(n, risks, upper, _lower_of_moments, _upper_of_moments)

    def forecast(self, mean: Floats, variance: Floats, n: int, risk: float) -> Floats:
        """The bound itself: its width is known beforehand."""
        return lower(np.clip(mean, 0.0, 1.0), n, risk)


def _lower_of_moments(mean: Floats, _: Floats, n: int, risk: Floats) -> Floats:
    return lower(mean, n, risk)


def _upper_of_moments(mean: Floats, _: Floats, n: int, risk: Floats) -> Floats:
    return upper(mean, n, risk)
