"""Bounds by betting for scores in [0, 1]: ``WealthProcess`` computes the wealth, ``Betting`` is the bound."""

from __future__ import annotations

import functools
from bisect import bisect_right
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks
from lvmrs.kernel.bounds.base import Bound, Sides, Tally
from lvmrs.kernel.checks import Floats, Numbers
from lvmrs.kernel.scores import statistics_device

# Terms of the series for the growth over a block, and the largest relative deviation for which it is used.
_TERMS, _NEAR = 12, 0.5
# Numbers of scratch memory in the exact growth.
_SCRATCH = 1 << 18


@dataclass(frozen=True)
class Block:
    """A block of samples that share their stakes, one row for each wealth process.

    >>> block = Block.of(np.array([[0.2, 0.6]]))
    >>> growth = block.growth(points=np.array([[0.3]]), stakes=np.array([[1.0]]))
    >>> print(f"{growth[0, 0]:.6f} {np.log(1 - 0.1) + np.log(1 + 0.3):.6f}")
    0.157004 0.157004
    """

    count: int
    """Number of samples."""
    values: Floats
    """Their values, of shape (rows, values)."""
    centre: Floats
    """Mean of each row."""
    reach: Floats
    """Largest deviation from the centre."""
    powers: list[Floats]
    """Sums of the deviations to the powers 2, 3, …"""

    @classmethod
    def of(cls, values: Floats) -> Block:
        """The block of these values."""
        count = values.shape[-1]
        centre = values.sum(axis=-1, keepdims=True) / count
        power = deviations = values - centre
        powers = []
        for _ in range(2, _TERMS + 1):
            power = power * deviations
            powers.append(power.sum(axis=-1, keepdims=True))
        return cls(count, values, centre, np.abs(deviations).max(axis=-1, keepdims=True), powers)

    def power_sums(self) -> Floats:
        """Sums of the samples to the powers 0, 1, 2 and 3."""
        c, (second, third, *_) = self.centre, self.powers
        ones = np.full_like(c, self.count)
        return np.stack([ones, ones * c, second + ones * c**2, third + 3 * c * second + ones * c**3])

    def growth(self, points: Floats, stakes: Floats) -> Floats:
        """Growth of the log-wealth, Σ ln(1 + λ (z − m)) over the samples z; only rounding may overestimate it.

        Args:
            points: candidate means m, of shape (rows, points).
            stakes: λ, of the same shape.
        """
        at_centre = stakes * (self.centre - points)
        total: Floats = self.count * np.log1p(at_centre)
        if self.values.shape[-1] == 1:
            return total
        # 1 + λ(z − m) = (1 + λ(centre − m)) (1 + x · deviation): a series in x, less a bound on what it leaves out.
        x = stakes / (1 + at_centre)
        worst = x * self.reach
        near = worst <= _NEAR
        x = np.where(near, x, 0.0)
        series = np.zeros_like(x)
        for k in range(_TERMS, 1, -1):
            series = x * (series + (-1) ** (k + 1) * self.powers[k - 2] / k)
        left_out = x**2 * self.powers[0] * np.where(near, worst, 0.0) ** (_TERMS - 1) / ((_TERMS + 1) * (1 - _NEAR))
        total += x * series - left_out
        rows, columns = np.nonzero(~near)
        at_a_time = max(1, _SCRATCH // self.values.shape[-1])
        for first in range(0, len(rows), at_a_time):
            pairs = rows[first : first + at_a_time], columns[first : first + at_a_time]
            total[pairs] = self._plain_growth(pairs[0], points[pairs], stakes[pairs])
        return total

    def _plain_growth(self, rows: NDArray[np.intp], points: Floats, stakes: Floats) -> Floats:
        """The same, logarithm by logarithm, for pairs of a row and a point."""
        factors = 1 + stakes[:, None] * (self.values[rows] - points[:, None])
        # Eight factors, each well within 1e±13, to a logarithm.
        logs = np.log(np.multiply.reduceat(factors, np.arange(0, factors.shape[-1], 8), axis=-1))
        total: Floats = logs.sum(axis=-1)
        return total


# ---------------------------------------------------------------------------------------------------------------------
# The wealth process: the stakes, and the means that are rejected.
#
# For a candidate mean m, a bettor starts with wealth 1 and stakes λ_i on sample i: K(m) = Π (1 + λ_i (Z_i − m)) with
# 0 ≤ λ_i < 1/m. Each λ_i depends only on the samples before it, so if the mean is m (or less) the expected wealth never
# exceeds 1, and reaching 1/risk at any time has probability at most ``risk`` (Ville). Such m are rejected; the lower
# bound is the end of the unbroken run of rejected m, from 0 upwards (Waudby-Smith and Ramdas 2024).
#
# **The stakes.** Only a wealth of 1/risk at the last sample rejects m. So the best stakes aim at 1/risk or nothing:
# they replicate a digital option on the sum of Z − m, whose price is the risk. In the Gaussian limit its price is
# Φ(d) = risk · K, so the wealth so far determines d, and one sample that falls short by ``jump`` should leave the
# share Φ(d − jump/√(V · samples left))/Φ(d) of the wealth. The stake that does so is λ = (1 − that share)/jump. V is
# the running second moment about m, and the jump is the typical size of a downward step: close to 1 for 0/1 data with
# few zeros, so that one zero does not cost most of the wealth; small for values that spread evenly, where λ becomes
# φ(d)/Φ(d)/√(V · samples left). The bound then has the width of the normal quantile, where one fixed stake has √(2
# ln(1/risk)). (STaR-Bets, arXiv 2505.22422, recalculates its aim too, with the stake √(2 ln(1/(risk K))/(V · samples
# left)).) Stakes do not change within a block of samples.
#
# **Why the order matters.** The stakes depend on m, so the wealth need not fall as m grows, and bisection on m could
# step over the true mean to a false rejection further up. The following procedure is valid for any stakes:
#
# 1. In the opening (the first eighth of the samples) all m share one stake per block, capped below 1/m.
# 2. Then candidate means are placed around the expected bound, which is judged from the opening alone; they form a
#    grid. From there on each m takes the stakes of the next grid point above it. Within a cell of the grid all stakes
#    are shared, so the wealth falls in m there: rejecting the grid point rejects its cell. In the
#    opening the stake of a mean m is min(λ, cap/m), which does not depend on the grid; each factor
#    1 + min(λ, cap/m)(Z − m) falls in m, so the wealth at a grid point is at most that of any mean below it.
# 3. Cells are tested upwards; the bound is the last point before the first that is not rejected. Only the cell of the
#    true mean can do harm, and its wealth reaches the goal with probability at most ``risk``.
#
# ==================  ============================================
# theory              here
# ==================  ============================================
# Z_i, n, a           ``values``, ``n``, ``risk``
# m, λ, ln K          ``points``, ``stakes``, ``wealth`` (its log)
# ln(1/a)             ``goal``
# ==================  ============================================


# The largest rounding error of a score above its mass in single precision.
ROUNDING = 1e-6

# Share of the samples after which the candidate means are placed.
_OPENING = 1 / 8
# A stake leaves at least this share of the wealth, for any sample.
_RESERVE = 0.01
# Pseudo-samples that the running moments start from: the largest variance, 1/4, and falls all the way down.
_PRIOR = 1.0
# Stakes aim at this much log-wealth above the goal: they vanish near the aim, and must not vanish below the goal.
_OVERSHOOT = 0.01
# A rejection needs this much more log-wealth than the goal: far more than rounding adds in a million samples.
_SLACK = 1e-7
# A candidate this far below the goal in log-wealth, and all candidates above it, count as not rejected.
_GIVE_UP = 40.0


def blocks(n: int) -> list[int]:
    """Ends of the blocks of samples within which stakes do not change: 0, …, n.

    Blocks are short while little is known, and again towards the end, where the best stakes change fastest.

    >>> ends = blocks(100)
    >>> ends[:8], ends[-8:]
    ([0, 1, 2, 3, 4, 6, 8, 10], [93, 94, 95, 96, 97, 98, 99, 100])
    """
    ends = [0]
    while (t := ends[-1]) < n:
        ends.append(t + min(t // 4 + 1, n // 64 + 1, (n - t) // 10 + 1))
    return ends


class WealthProcess:
    """The wealth for each row and candidate mean, which gives a lower bound for each row.

    Samples are added in any portions, and used block by block, so the portions do not matter.

    Args:
        n: the number of samples of each row.
        risks: for each row, the probability that its bound is wrong.

    >>> process = WealthProcess(1000, np.array([0.001]))
    >>> process.add(np.full((1, 1000), 0.75))
    >>> print(f"{process.bound()[0]:.3f}")
    0.743
    """

    def __init__(self, n: int, risks: Floats) -> None:
        rows = len(risks)
        self.n = n
        self.goal = -np.log(risks)[:, None]
        self.ends = blocks(n)
        self.waiting = np.empty((rows, int(np.diff(self.ends).max())))
        self.seen, self.added = 0, 0
        self.power_sums = np.zeros((4, rows, 1))  # of the samples to the powers 0 to 3
        self.opening: list[tuple[Block, Floats]] = []
        self.points: Floats | None = None
        self.wealth: Floats = np.zeros((rows, 1))
        self.open = slice(0, 0)  # the columns in which some row still has a candidate to decide

    def add(self, values: Floats) -> None:
        """Take the next samples, of shape (rows, any number), and bet on each block as soon as it is full."""
        if self.added + values.shape[-1] > self.n:
            raise InvalidArgumentError(f"more than the {self.n} samples that the bound was set up for")
        position = self.added - self.seen
        while values.shape[-1]:
            end = self.ends[bisect_right(self.ends, self.seen)]
            taken = values[:, : end - self.seen - position]
            self.waiting[:, position : position + taken.shape[-1]] = taken
            position += taken.shape[-1]
            self.added += taken.shape[-1]
            values = values[:, taken.shape[-1] :]
            if self.added == end:
                self.bet(self.waiting[:, :position].copy())
                position = 0

    def bet(self, values: Floats) -> None:
        """Bet on the next block of samples, of shape (rows, any number)."""
        if self.points is None and self.seen >= max(1, self.n * _OPENING):
            self._lay_grid()
        block = Block.of(values)
        if self.points is None:
            self.opening.append((block, self._shared_stake()))
        else:
            points, wealth = self.points[:, self.open], self.wealth[:, self.open]
            wealth += block.growth(points, self._aimed_stakes(points, wealth))
            self.open = self._undecided()
        self.seen += block.count
        self.power_sums += block.power_sums()

    def bound(self) -> Floats:
        """For each row, the largest point up to which all points were rejected; 0 if none was."""
        if self.seen < self.n:
            raise InvalidArgumentError(f"{self.added} samples where the bound was set up for {self.n}")
        points = self.points if self.points is not None else self._lay_grid()
        mean = self.power_sums[1] / self.seen
        # In rare orders of the samples the bound would exceed their mean.
        bound: Floats = np.minimum(unbroken(points, self._rejected(self.wealth)), mean[:, 0])
        return bound

    def _rejected(self, wealth: Floats) -> NDArray[np.bool_]:
        rejected: NDArray[np.bool_] = wealth >= self.goal + _SLACK
        return rejected

    def _undecided(self) -> slice:
        """From the first column that is not rejected in every row to the last before all rows have given up."""
        settled = self._rejected(self.wealth).all(axis=0)
        given_up = np.logical_or.accumulate(self.wealth < self.goal - _GIVE_UP, axis=1).all(axis=0)
        return slice(int(settled.argmin()), int((~given_up).sum()))

    def _shared_stake(self) -> Floats:
        mean = self.power_sums[1] / max(self.seen, 1)
        return self._stakes(self.n, np.broadcast_to(-self.goal, mean.shape), about=mean, most=0.25)

    def _aimed_stakes(self, points: Floats, wealth: Floats) -> Floats:
        log_price = np.minimum(wealth - self.goal, 0.0)
        stakes = self._stakes(self.n - self.seen, log_price, about=points, most=points * (1 - points))
        return np.where(self._rejected(wealth), 0.0, _capped(stakes, points))

    def _stakes(self, left: int, log_price: Floats, *, about: Floats, most: Floats | float) -> Floats:
        """Stakes that hedge the option priced at exp(``log_price``) over the ``left`` samples to come."""
        ones, sums, squares, cubes = self.power_sums
        mean = sums / max(self.seen, 1)
        scatter = np.maximum(squares - mean * sums, 0.0)
        falls = -(cubes - 3 * mean * squares + 2 * mean**2 * sums)  # minus the third moment about the mean
        variance = (_PRIOR / 4 + scatter + ones * (mean - about) ** 2) / (_PRIOR + self.seen)
        deviation = np.sqrt(np.minimum(variance, most)) + 1e-150
        jump = np.clip((_PRIOR / 4 + falls) / (_PRIOR / 4 + scatter), 0.01 * deviation, 1.0)
        d = _quantile(log_price - _OVERSHOOT)
        log_share = scipy.special.log_ndtr(d - jump / (np.sqrt(left) * deviation)) - scipy.special.log_ndtr(d)
        stakes: Floats = -np.expm1(log_share) / jump
        return stakes

    def _lay_grid(self) -> Floats:
        """Candidate means around the expected bound, judged from the opening; sets their wealth too."""
        _, mean, square, _ = self.power_sums / self.seen
        variance = square - mean**2
        unit = np.sqrt((np.maximum(variance, 0.0) + 0.5 / self.seen) / self.n)
        quantile = -scipy.special.ndtri(np.exp(-self.goal))
        points = mean + unit * (_offsets(np.sqrt(self.n / self.seen)) - quantile)
        self.points = np.clip(points, 1e-12, 1.0)
        self.wealth = np.zeros_like(self.points)
        for block, stake in self.opening:
            self.wealth += block.growth(self.points, _capped(stake, self.points))
        self.opening.clear()
        self.open = self._undecided()
        return self.points


def unbroken(points: Floats, rejected: NDArray[np.bool_]) -> Floats:
    """The last of the ascending ``points`` (last dimension) before the first that is not rejected; 0 if none is.

    >>> float(unbroken(np.array([0.1, 0.2, 0.3, 0.4]), np.array([True, True, False, True])))
    0.2
    """
    run = np.logical_and.accumulate(rejected, axis=-1).sum(axis=-1, keepdims=True)
    return np.where(run > 0, np.take_along_axis(points, np.maximum(run - 1, 0), axis=-1), 0.0)[..., 0]


def _capped(stakes: Floats, points: Floats) -> Floats:
    return np.minimum(stakes, (1 - _RESERVE) / points)


def _offsets(uncertainty: float) -> Floats:
    """The grid in units of the standard error at n: even as far as the opening may mislead, then geometric."""
    step, reach = 0.08, 4.0 * uncertainty
    even = np.arange(-reach, reach, step)
    far = reach * 1.2 ** np.arange(1, 60)
    return np.concatenate([-far[::-1], even, far])


@functools.cache
def _quantiles() -> Floats:
    root = np.arange(0, 2002) / 100
    quantiles: Floats = scipy.special.ndtri_exp(-(np.maximum(root, 1e-8) ** 2))
    return quantiles


def _quantile(log_probability: Floats) -> Floats:
    """Φ⁻¹ of a probability given by its logarithm; from a table, even in √−ln p, since any stake is sound."""
    place = np.minimum(100 * np.sqrt(-log_probability), 2000.0)
    index = place.astype(np.intp)
    table = _quantiles()
    quantile: Floats = table[index] + (place - index) * (table[index + 1] - table[index])
    return quantile


# ---------------------------------------------------------------------------------------------------------------------
# The bounds: as narrow as Clopper–Pearson on 0/1 data, and as the central limit theorem on other data.
#
# A candidate mean m is rejected when the wealth of bets against it grows by the factor 1/risk, which happens with
# probability at most ``risk`` if m is the mean (Waudby-Smith and Ramdas 2024). From n = 10⁴ samples on, Φ⁻¹ of the
# bound, which decides the radius, is within 1 % of these two references (docs/bounds.md).


# Rows that are bounded at a time.
_ROWS = 256


def lower(samples: Numbers, risk: Numbers, *, mass: float = 1.0) -> Floats:
    """Lower bound on the mean, which exceeds the true mean with probability at most ``risk``.

    A larger risk gives a larger bound, up to the resolution of the candidate means: about a tenth of the standard
    error.

    Args:
        samples: independent samples in [0, mass] along the last dimension, shape (…, n). They must be in the order in
            which they were drawn, or in an order that does not depend on their values.
        risk: probability of error, strictly between 0 and 1; it broadcasts with the leading dimensions.
        mass: the largest possible value of a sample.

    Returns:
        The bound for each row of samples, in [0, mass].

    >>> votes = np.ones(1000)
    >>> votes[::100] = 0.0
    >>> print(f"{lower(votes, 0.001):.3f}")
    0.975
    """
    top = checks.positive_number("mass", mass)
    return top * _bound(shares(samples, top), risk)


def upper(samples: Numbers, risk: Numbers, *, mass: float = 1.0) -> Floats:
    """Upper bound on the mean, which falls below the true mean with probability at most ``risk``.

    The arguments are those of ``lower``.

    >>> print(f"{upper(np.full(1000, 0.25), 0.001):.3f}")
    0.257
    """
    top = checks.positive_number("mass", mass)
    return top * (1.0 - _bound(1.0 - shares(samples, top), risk))


def shares(samples: Numbers, top: float) -> Floats:
    """Check samples in [0, top] along the last dimension, and divide them by ``top``.

    >>> shares([1.0, 2.0], 2.0)
    array([0.5, 1. ])
    """
    array = checks.real("samples", samples)
    if array.ndim == 0:
        raise InvalidArgumentError(f"samples must have at least one dimension, got the single number {array}")
    array = checks.within("samples", array, np.asarray(top), slack=ROUNDING)
    return array if top == 1.0 else array / top


def _bound(samples: Floats, risk: Numbers) -> Floats:
    *leading, n = samples.shape
    risk = checks.risk(risk)
    checks.broadcast(samples=samples[..., 0], risk=risk)
    shape = np.broadcast_shapes(tuple(leading), risk.shape)
    rows = np.broadcast_to(samples, (*shape, n)).reshape(-1, n)
    risks = np.broadcast_to(risk, shape).reshape(-1)
    bounds = []
    for first in range(0, len(rows), _ROWS):
        group = slice(first, first + _ROWS)
        process = WealthProcess(n, risks[group])
        process.add(rows[group])
        bounds.append(process.bound())
    return np.concatenate(bounds).reshape(shape)[()]


@dataclass(frozen=True)
class Betting(Bound):
    """Bounds for any scores in [0, 1], by betting against each candidate mean."""

    name: ClassVar[str] = "betting"
    cheap_columns: ClassVar[int | None] = 24

    def tally(self, n: int, risks: Floats, upper: Sides) -> Tally:
        """A tally with one wealth process for each column."""
        return _BettingTally(n, risks, upper)

    def forecast(self, mean: Floats, variance: Floats, n: int, risk: float) -> Floats:
        """The mean less the width of the normal limit and that of a sample without variance, combined."""
        mean = np.clip(mean, 0.0, 1.0)
        width = np.hypot(-scipy.special.ndtri(risk) * np.sqrt(variance / n), mean * np.log(1 / risk) / n)
        lowest: Floats = np.maximum(mean - width, 0.0)
        return lowest


class _BettingTally(Tally):
    def __init__(self, n: int, risks: Floats, upper: Sides) -> None:
        self.process, self.upper = WealthProcess(n, risks), upper

    def add(self, columns: Tensor) -> None:
        exact = columns.to(statistics_device(columns.device)).to(torch.float64)
        values = exact.t().contiguous().cpu().numpy()
        # An upper bound on z is a lower bound on 1 − z.
        self.process.add(np.where(self.upper[:, None], 1 - values, values))

    def bounds(self) -> Floats:
        found = self.process.bound()
        return np.where(self.upper, 1 - found, found)
