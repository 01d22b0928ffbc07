"""Anytime bounds for scores in [0, 1]: they hold at all numbers of samples at once.

Gamblers bet against a candidate mean m, each with one stake λ_j that never changes: the wealth of all together is
W(m) = Σ_j w_j Π_i (1 + λ_j (Z_i − m)), with Σ_j w_j = 1 and 0 < λ_j < 1/m. If the mean is m or less, W is a
supermartingale that begins at 1, so it *ever* reaches 1/risk with probability at most ``risk`` (Ville 1939;
Waudby-Smith and Ramdas 2024). The best stake depends on the n at which one stops, √(2 ln(1/risk)/(n V)). With stakes in
geometric progression one of them is close to it at every n, and having fourteen gamblers costs no more than a factor of
14 of the wealth: no stake looks at n or at the samples.

**What is kept.** Since stakes do not change, the order of the samples has no effect, and five sums do for all m: those
of the samples to the powers 0 to 4. With y = λ(Z − m), which is at least −λm,

    ln(1 + y) = y − y²/2 + y³/3 − y⁴ h(y),  h(y) = ∫₀¹ u³/(1 + yu) du,

and h falls in y. So ln(1 + y) ≥ y − y²/2 + y³/3 − y⁴ h(−λm): a lower bound on the wealth from the moments about m. It
is exact for Z = 0, and close where y is small.

**Why any rejected m will do.** Each factor 1 + min(λ, c/m)(Z − m) falls in m, and so does W. If the lower bound on W(m)
reaches 1/risk for one m, W does so for all smaller means, and all of them are rejected, whether their own lower bounds
show it or not. So the search for the largest such m can proceed in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks
from lvmrs.kernel.bounds.base import Bound, Sides, Tally, anytime_goal
from lvmrs.kernel.bounds.betting import Betting, shares
from lvmrs.kernel.checks import Floats, Numbers
from lvmrs.kernel.scores import statistics_device

_STAKES: Floats = 1.98 * 1.6 ** -np.arange(14.0)
# A stake leaves at least this share of the wealth, for any sample.
_RESERVE = 0.01
# Highest power of the samples that is summed, and the point about which the sums are taken.
_POWERS, _CENTRE = 4, 0.5
# Candidate means as shares of the sample mean; the interval above the last rejected one is then refined repeatedly.
_DISTANCES: Floats = 2.0 ** -np.arange(20.0)
_BETWEEN, _TIMES = 16, 2


def power_sums(samples: Numbers) -> Floats:
    """Sums of (samples − ½) to the powers 0 to 4, of shape (5, …).

    Those of parts of a sample add up to those of the whole.

    Args:
        samples: samples in [0, 1] along the last dimension, shape (…, n).

    >>> power_sums([0.0, 0.5, 1.0, 1.0]).tolist()
    [4.0, 0.5, 0.75, 0.125, 0.1875]
    """
    deviations = shares(samples, 1.0) - _CENTRE
    return np.stack([(deviations**k).sum(axis=-1) for k in range(_POWERS + 1)])


def lower_from_sums(sums: Numbers, risk: Numbers) -> Floats:
    """Lower bound on the mean. The probability that it ever exceeds the true mean, at any n, is at most ``risk``.

    Args:
        sums: what ``power_sums`` gives, of shape (5, …).
        risk: probability of error, strictly between 0 and 1; it broadcasts with the other dimensions.

    Returns:
        The bound in [0, 1].

    >>> sums = power_sums(np.full(1000, 0.5))
    >>> bool(0.4 < lower_from_sums(sums, 0.001) < 0.5)
    True
    """
    array = checks.real("sums", sums)
    if array.shape[:1] != (_POWERS + 1,):
        raise InvalidArgumentError(f"sums must have {_POWERS + 1} rows, for the powers 0 to 4, got shape {array.shape}")
    risk = checks.risk(risk)
    checks.broadcast(sums=array[0], risk=risk)
    shape = np.broadcast_shapes(array.shape[1:], risk.shape)
    rows = np.broadcast_to(array, (_POWERS + 1, *shape)).reshape(_POWERS + 1, -1)
    return _lower(rows, np.broadcast_to(risk, shape).reshape(-1)).reshape(shape)[()]


def lower(samples: Numbers, risk: Numbers, *, mass: float = 1.0) -> Floats:
    """Lower bound on the mean. The probability that it ever exceeds the true mean, at any n, is at most ``risk``.

    Args:
        samples: independent samples in [0, mass] so far, along the last dimension, shape (…, n).
        risk: probability of error, strictly between 0 and 1; it broadcasts with the leading dimensions.
        mass: the largest possible value of a sample.

    Returns:
        The bound for each row of samples, in [0, mass].

    >>> print(f"{lower(np.full(1000, 0.75), 0.001):.3f}")
    0.743
    """
    top = checks.positive_number("mass", mass)
    return top * lower_from_sums(power_sums(shares(samples, top)), risk)


def upper(samples: Numbers, risk: Numbers, *, mass: float = 1.0) -> Floats:
    """Upper bound on the mean. The probability that it ever falls below the true mean, at any n, is at most ``risk``.

    The arguments are those of ``lower``.

    >>> print(f"{upper(np.full(1000, 0.25), 0.001):.3f}")
    0.257
    """
    top = checks.positive_number("mass", mass)
    return top * (1.0 - lower_from_sums(power_sums(1.0 - shares(samples, top)), risk))


def _lower(sums: Floats, risks: Floats) -> Floats:
    """The largest candidate mean that is rejected, for each column of sums (5, rows); 0 if none is."""
    n = sums[0]
    goal = anytime_goal(risks, n)[:, None]
    mean = np.clip(_CENTRE + sums[1] / np.maximum(n, 1.0), 0.0, 1.0)
    points = mean[:, None] * (1 - _DISTANCES)
    low: Floats = np.zeros_like(mean)
    high: Floats = mean
    for _ in range(1 + _TIMES):
        rejected = _log_wealth(sums, points) >= goal
        last = np.where(rejected, np.arange(points.shape[1]), -1).max(axis=1)[:, None]
        bracket = np.column_stack([low, points, high])
        low, high = (np.take_along_axis(bracket, last + place, axis=1)[:, 0] for place in (1, 2))
        points = low[:, None] + (high - low)[:, None] * np.arange(1, _BETWEEN) / _BETWEEN
    return low


def _log_wealth(sums: Floats, points: Floats) -> Floats:
    """A lower bound on the logarithm of the wealth, for each row of samples and each of its points."""
    stakes = np.minimum(_STAKES[:, None, None], (1 - _RESERVE) / np.maximum(points, 1e-300))
    first, second, third, fourth = _moments_about(sums, points)
    growth = stakes * (
        first - stakes * (second / 2 - stakes * (third / 3 - stakes * _remainder(stakes * points) * fourth))
    )
    most = growth.max(axis=0)
    wealth: Floats = most + np.log(np.exp(growth - most).sum(axis=0) / len(_STAKES))
    return wealth


def _moments_about(sums: Floats, points: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Sums of (samples − point) to the powers 1 to 4, from those about the centre."""
    zeroth, one, two, three, four = (row[:, None] for row in sums)
    shift = _CENTRE - points
    return (
        one + shift * zeroth,
        two + shift * (2 * one + shift * zeroth),
        three + shift * (3 * two + shift * (3 * one + shift * zeroth)),
        four + shift * (4 * three + shift * (6 * two + shift * (4 * one + shift * zeroth))),
    )


def _remainder(loss: Floats) -> Floats:
    """h(−loss), for a loss from 0 to less than 1; never less."""
    small = loss < 0.02
    y = np.where(small, 0.02, loss)
    squared = y * y
    exact = -(y * (1 + y * (0.5 + y / 3)) + np.log1p(-y)) / (squared * squared)
    found: Floats = np.where(small, 0.25 / (1 - loss), exact)
    return found


@dataclass(frozen=True)
class BettingMixture(Bound):
    """Anytime bounds for any scores in [0, 1], by a mixture of constant stakes."""

    name: ClassVar[str] = "betting_mixture"
    anytime: ClassVar[bool] = True
    cheap_columns: ClassVar[int | None] = 24

    def tally(self, n: int, risks: Floats, upper: Sides) -> Tally:
        """A tally of power sums, with bounds at any time."""
        return _Sums(risks, upper)

    def forecast(self, mean: Floats, variance: Floats, n: int, risk: float) -> Floats:
        """The forecast of betting, at the risk divided by the number of stakes."""
        return Betting().forecast(mean, variance, n, risk / len(_STAKES))


class _Sums(Tally):
    def __init__(self, risks: Floats, upper: Sides) -> None:
        self.risks, self.upper = risks, upper
        self.sums = np.zeros((_POWERS + 1, len(risks)))

    def add(self, columns: Tensor) -> None:
        exact = columns.to(statistics_device(columns.device)).to(torch.float64)
        values = exact.t().contiguous().cpu().numpy()
        # An upper bound on z is a lower bound on 1 − z.
        self.sums += power_sums(np.where(self.upper[:, None], 1 - values, values))

    def bounds(self) -> Floats:
        found = _lower(self.sums, self.risks)
        return np.where(self.upper, 1 - found, found)
