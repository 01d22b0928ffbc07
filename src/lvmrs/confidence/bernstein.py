"""The empirical Bernstein bound (Maurer and Pontil 2009, theorem 4): narrow where the observed variance is small."""

import numpy as np

from lvmrs import _checks
from lvmrs._checks import Floats, Numbers
from lvmrs.confidence.game import ROUNDING

__all__ = ["lower", "upper"]


def lower(mean: Numbers, variance: Numbers, n: Numbers, risk: Numbers, *, mass: Numbers = 1.0) -> Floats:
    """Exceeds the true mean with probability at most ``risk``; ``variance`` is the unbiased one of all n samples."""
    mean, width, _ = _guarded(mean, variance, n, risk, mass)
    return _checks.unwrapped(np.maximum(mean - width, 0.0))


def upper(mean: Numbers, variance: Numbers, n: Numbers, risk: Numbers, *, mass: Numbers = 1.0) -> Floats:
    """Falls below the true mean with probability at most ``risk``; the arguments are those of ``lower``."""
    mean, width, top = _guarded(mean, variance, n, risk, mass)
    return _checks.unwrapped(np.minimum(mean + width, top))


def _guarded(
    mean: Numbers, variance: Numbers, n: Numbers, risk: Numbers, mass: Numbers
) -> tuple[Floats, Floats, Floats]:
    top = _checks.mass(mass)
    mean, n, risk = (
        _checks.within("mean", mean, top, slack=ROUNDING),
        _checks.whole("n", n, least=2),
        _checks.risk(risk),
    )
    variance = _checks.real("variance", variance)
    _checks.broadcast(mean=mean, variance=variance, n=n, risk=risk, mass=top)
    # n samples in [0, mass] of that mean cannot vary more than this; the slack is for rounding.
    most = mean * (top - mean) * n / (n - 1) + ROUNDING * top**2
    shown, most = np.broadcast_arrays(variance, most)
    rule = "must be that of samples in [0, mass]: at least 0 and at most mean·(mass − mean)·n/(n − 1)"
    _checks.require("variance", shown, (shown >= 0) & (shown <= most), rule)
    log = np.log(2) - np.log(risk)
    return mean, np.sqrt(2 * variance * log / n) + top * 7 * log / (3 * (n - 1)), top
