"""Hoeffding's bound (1963): from the mean alone, blind to the variance."""

import numpy as np

from lvmrs import _checks
from lvmrs._checks import Floats, Numbers
from lvmrs.confidence.game import ROUNDING

__all__ = ["lower", "upper"]


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
