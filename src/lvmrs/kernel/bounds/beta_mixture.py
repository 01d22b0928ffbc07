"""Anytime bounds for 0/1 data: they hold at all numbers of samples at once.

After k ones among n samples, the evidence against a mean q is the probability of these samples, averaged over means
with the prior Beta(a, b), divided by their probability if the mean is q:

    ln B(a + k, b + n − k) − ln B(a, b) − k ln q − (n − k) ln(1 − q).

If q is the mean, its exponential is a martingale that begins at 1, so it *ever* reaches 1/risk with probability at most
``risk`` (Ville 1939; Robbins 1970). The bounds are the two means at which it is 1/risk. Any prior is sound if it does
not depend on the samples; one that is close to the truth makes the bounds narrower. All that is kept is k and n.

The evidence is convex in q with its minimum, which is at most 0, at k/n. So Newton's method, begun below the lower
bound, approaches it from below and is on the safe side at every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
from torch import Tensor

from lvmrs.errors import InvalidArgumentError, shown
from lvmrs.kernel import checks
from lvmrs.kernel.bounds.base import Bound, Sides, Tally, anytime_goal
from lvmrs.kernel.bounds.clopper_pearson import guarded_counts
from lvmrs.kernel.checks import Floats, Numbers

# Jeffreys' prior.
_PLAIN = 0.5
# Limits of the parameters of a prior: beyond them, rounding could move the evidence by more than
# ``anytime_goal`` allows for.
_LEAST, MOST = 1e-6, 1e6
"""The largest parameter of a prior."""
# The number of Newton steps, more than enough for convergence.
_STEPS = 100


def lower(
    count: Numbers, n: Numbers, risk: Numbers, *, prior: tuple[Numbers, Numbers] = (_PLAIN, _PLAIN), mass: Numbers = 1.0
) -> Floats:
    """Lower bound on the mean. The probability that it ever exceeds the true mean, at any n, is at most ``risk``.

    Args:
        count: how many of the samples were not zero, from 0 to n.
        n: number of independent samples so far.
        risk: probability of error, strictly between 0 and 1.
        prior: the parameters a and b of the Beta prior, from 1e-6 to 1e6: ones and zeros that are expected. They must
            not depend on the samples, nor change from one n to another.
        mass: the value of a sample that is not zero.

    Returns:
        The bound in [0, mass]; 0 for a count of 0.

    >>> print(f"{lower(990, 1000, 0.001):.4f}, {lower(990, 1000, 0.001, prior=(99.0, 1.0)):.4f}")
    0.9680, 0.9715
    """
    ones, total, risk, top = guarded_counts(count, n, risk, mass)
    a, b = (_expected("prior", part) for part in prior)
    checks.broadcast(count=ones, n=total, risk=risk, mass=top, a=a, b=b)
    return checks.unwrapped(top * _lower(ones, total, risk, a, b))


def upper(
    count: Numbers, n: Numbers, risk: Numbers, *, prior: tuple[Numbers, Numbers] = (_PLAIN, _PLAIN), mass: Numbers = 1.0
) -> Floats:
    """Upper bound on the mean. The probability that it ever falls below the true mean, at any n, is at most ``risk``.

    The arguments are those of ``lower``. The bound is ``mass`` for a count of n.

    >>> print(f"{upper(5, 1000, 0.001):.4f}")
    0.0231
    """
    ones, total, risk, top = guarded_counts(count, n, risk, mass)
    a, b = (_expected("prior", part) for part in prior)
    checks.broadcast(count=ones, n=total, risk=risk, mass=top, a=a, b=b)
    return checks.unwrapped(top * (1 - _lower(total - ones, total, risk, b, a)))


def _expected(name: str, numbers: Numbers) -> Floats:
    """Parameters of a prior; raises if they are outside of the limits."""
    found = checks.positive(name, numbers)
    if not ((found >= _LEAST) & (found <= MOST)).all():
        raise InvalidArgumentError(f"{name} must lie between {_LEAST:g} and {MOST:g}, got {shown(numbers)}")
    return found


def _lower(ones: Floats, n: Floats, risk: Floats, a: Floats, b: Floats) -> Floats:
    ones, n, risk, a, b = np.broadcast_arrays(ones, n, risk, a, b)
    zeros, some = n - ones, np.maximum(ones, 1.0)
    # The evidence is to reach the goal: −k ln q − (n − k) ln(1 − q) = needed.
    needed = anytime_goal(risk, n) - (scipy.special.betaln(a + ones, b + zeros) - scipy.special.betaln(a, b))
    q = np.exp(-needed / some)  # the zeros alone can only raise the evidence
    most = some / np.maximum(n, 1.0)
    for _ in range(_STEPS):
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond = -scipy.special.xlogy(some, q) - scipy.special.xlog1py(zeros, -q) - needed
            step = np.where(beyond > 0, beyond / (some / q - zeros / (1 - q)), 0.0)
        following = np.clip(np.where(np.isfinite(step), q + step, q), q, most)
        if np.array_equal(following, q):
            break
        q = following
    return np.where(ones > 0, q, 0.0)


@dataclass(frozen=True)
class BetaMixture(Bound):
    """Anytime bounds for 0/1 scores, from their counts."""

    wins: tuple[float, ...] = ()
    """The parameter a of the prior of each column, the expected ones; ½ if empty. They must come from other samples."""
    losses: tuple[float, ...] = ()
    """The parameter b of the prior of each column, the expected zeros."""

    name: ClassVar[str] = "beta_mixture"
    votes_only: ClassVar[bool] = True
    anytime: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if len(self.wins) != len(self.losses):
            raise InvalidArgumentError("wins and losses must have one number for each column")
        for name in ("wins", "losses"):
            numbers = _expected(name, getattr(self, name)) if len(getattr(self, name)) else np.empty(0)
            object.__setattr__(self, name, tuple(numbers.reshape(-1).tolist()))

    def tally(self, n: int, risks: Floats, upper: Sides) -> Tally:
        """A tally that counts the ones of each column, with bounds at any time."""
        wins, losses = (np.array(prior or [_PLAIN] * len(risks)) for prior in (self.wins, self.losses))
        if len(wins) != len(risks):
            raise InvalidArgumentError(
                f"the prior of {self.name} is for {len(wins)} columns, and there are {len(risks)}"
            )
        return _Counts(risks, upper, wins, losses)

    def forecast(self, mean: Floats, variance: Floats, n: int, risk: float) -> Floats:
        """The bound for the expected count, rounded down, without a prior of its own."""
        return lower(np.floor(np.clip(mean, 0.0, 1.0) * n), n, risk)


class _Counts(Tally):
    def __init__(self, risks: Floats, upper: Sides, wins: Floats, losses: Floats) -> None:
        self.risks, self.upper, self.wins, self.losses = risks, upper, wins, losses
        self.n, self.counts = 0, np.zeros(len(risks))

    def add(self, columns: Tensor) -> None:
        self.n += len(columns)
        self.counts += columns.sum(dim=0).cpu().numpy()

    def bounds(self) -> Floats:
        n, up = np.float64(self.n), self.upper
        ones = np.where(up, n - self.counts, self.counts)
        a, b = np.where(up, self.losses, self.wins), np.where(up, self.wins, self.losses)
        found = _lower(ones, np.full_like(ones, n), self.risks, a, b)
        return np.where(up, 1 - found, found)
