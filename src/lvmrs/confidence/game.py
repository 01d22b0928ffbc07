"""The game behind the bounds by betting: who stakes what, and which means are rejected.

For a candidate mean m, a gambler starts with wealth 1 and stakes λ_i on sample i: K(m) = Π (1 + λ_i (Z_i − m)) with
0 ≤ λ_i < 1/m. Each λ_i depends only on the samples before it, so if the mean is m (or less) the expected wealth never
exceeds 1, and reaching 1/risk at any time has probability at most ``risk`` (Ville). Such m are rejected; the lower
bound is the end of the unbroken run of rejected m, from 0 upwards (Waudby-Smith and Ramdas 2024).

**The stakes.** What pays is a wealth of 1/risk at the last sample and nothing otherwise: a digital option on the sum
of Z − m, whose price is the risk. In the Gaussian limit its price is Φ(d) = risk · K, so the wealth so far tells d, and
one sample that falls short by ``jump`` should leave the share Φ(d − jump/√(V · samples left))/Φ(d) of the wealth. The
stake that does so is λ = (1 − that share)/jump. V is the running second moment about m, and the jump is the typical
size of a downward step: close to 1 for 0/1 data with few zeros, where it keeps one zero from ruin; small for values
that spread evenly, where λ becomes φ(d)/Φ(d)/√(V · samples left). The bound then has the width of the normal quantile,
where one fixed stake has √(2 ln(1/risk)). (STaR-Bets, arXiv 2505.22422, recalculates its aim too, with the stake
√(2 ln(1/(risk K))/(V · samples left)).) Stakes are held within a block of samples.

**Why the order matters.** The stakes depend on m, so the wealth need not fall as m grows, and bisection on m could step
over the true mean to a false rejection further up. What is done here is valid for any stakes:

1. In the opening (the first eighth of the samples) all m share one stake per block, capped below 1/m.
2. Then a grid of m is laid around where the bound is expected, from the opening alone. From there on each m takes the
   stakes of the next grid point above it. Within a cell of the grid all stakes are shared, so the wealth falls in m
   there: rejecting the grid point rejects its cell.
   The caps of the opening depend on the grid, which comes later; but each factor 1 + min(λ, cap/m)(Z − m) falls in m,
   so the wealth at a grid point is at most that of a mean below it with its own cap, which is known beforehand.
3. Cells are tested upwards; the bound is the last point before the first that is not rejected. Only the cell of the
   true mean can do harm, and its wealth reaches the goal with probability at most ``risk``.

==================  ============================================
theory              here
==================  ============================================
Z_i, n, a           ``values``, ``n``, ``risk``
m, λ, ln K          ``points``, ``stakes``, ``wealth`` (its log)
ln(1/a)             ``goal``
==================  ============================================
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from lvmrs._checks import Floats
from lvmrs.errors import InvalidArgumentError

__all__ = ["ROUNDING", "Game", "blocks", "unbroken"]

# How far single precision may carry a score above its mass.
ROUNDING = 1e-6

# Share of the samples after which the grid is laid.
_OPENING = 1 / 8
# A stake leaves at least this share of the wealth, whatever the sample.
_RESERVE = 0.01
# Pseudo-samples that the running moments start from: the largest variance, 1/4, and falls all the way down.
_PRIOR = 1.0
# The aim lies this much above the goal in log-wealth: the hedge fades out as it nears its aim, and must not stop short.
_OVERSHOOT = 0.01
# A rejection needs this much more log-wealth than the goal: far above what rounding adds up to in a million samples.
_SLACK = 1e-7
# A candidate this far below the goal in log-wealth is given up, and with it all above: they count as not rejected.
_HOPELESS = 40.0
# Terms of the series for the growth over a block, and the largest relative deviation for which it is used.
_TERMS, _NEAR = 12, 0.5
# Numbers of scratch in the exact growth.
_SCRATCH = 1 << 18


def blocks(n: int) -> list[int]:
    """Ends of the blocks of samples within which stakes are held: 0, …, n.

    Short while little is known, and shorter and shorter towards the end, where the hedge turns fastest.
    """
    ends = [0]
    while (t := ends[-1]) < n:
        ends.append(t + min(t // 4 + 1, n // 64 + 1, (n - t) // 10 + 1))
    return ends


class Game:
    """The wealth of one gambler per row and candidate mean: a lower bound for each row, at the risk of that row.

    Samples are fed in any portions; they are played block by block, so the portions do not matter.
    """

    def __init__(self, n: int, risks: Floats) -> None:
        rows = len(risks)
        self.n = n
        self.goal = -np.log(risks)[:, None]
        self.ends = blocks(n)
        self.waiting = np.empty((rows, int(np.diff(self.ends).max())))
        self.seen, self.fed = 0, 0
        self.power_sums = np.zeros((4, rows, 1))  # of the samples to the powers 0 to 3
        self.opening: list[tuple[_Block, Floats]] = []
        self.points: Floats | None = None
        self.wealth: Floats = np.zeros((rows, 1))
        self.open = slice(0, 0)  # the columns in which some row still has a candidate to decide

    def feed(self, values: Floats) -> None:
        """The next samples (rows, any number): played as soon as they fill a block."""
        if self.fed + values.shape[-1] > self.n:
            raise InvalidArgumentError(f"more than the {self.n} samples that the game was set up for")
        position = self.fed - self.seen
        while values.shape[-1]:
            end = self.ends[bisect_right(self.ends, self.seen)]
            taken = values[:, : end - self.seen - position]
            self.waiting[:, position : position + taken.shape[-1]] = taken
            position += taken.shape[-1]
            self.fed += taken.shape[-1]
            values = values[:, taken.shape[-1] :]
            if self.fed == end:
                self.play(self.waiting[:, :position].copy())
                position = 0

    def play(self, values: Floats, weights: Floats | None = None) -> None:
        """Bet on the next block: ``values`` (rows, b), each standing for ``weights`` samples (one if not given)."""
        if self.points is None and self.seen >= max(1, self.n * _OPENING):
            self._lay_grid()
        block = _Block.of(values, weights)
        if self.points is None:
            self.opening.append((block, self._shared_stake()))
        else:
            points, wealth = self.points[:, self.open], self.wealth[:, self.open]
            wealth += block.growth(points, self._aimed_stakes(points, wealth))
            self.open = self._undecided()
        self.seen += block.count
        self.power_sums += block.power_sums()

    def bound(self) -> Floats:
        """The largest point up to which every one was rejected, for each row; 0 where none was."""
        if self.seen < self.n:
            raise InvalidArgumentError(f"{self.fed} samples where the game was set up for {self.n}")
        points = self.points if self.points is not None else self._lay_grid()
        mean = self.power_sums[1] / self.seen
        # A freak order of the samples can carry the bound past their mean, where nobody expects it.
        bound: Floats = np.minimum(unbroken(points, self._rejected(self.wealth)), mean[:, 0])
        return bound

    def _rejected(self, wealth: Floats) -> NDArray[np.bool_]:
        rejected: NDArray[np.bool_] = wealth >= self.goal + _SLACK
        return rejected

    def _undecided(self) -> slice:
        """From the first column that is not rejected in every row to the last before all rows have given up."""
        settled = self._rejected(self.wealth).all(axis=0)
        hopeless = np.logical_or.accumulate(self.wealth < self.goal - _HOPELESS, axis=1).all(axis=0)
        return slice(int(settled.argmin()), int((~hopeless).sum()))

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
        log_share = special.log_ndtr(d - jump / (np.sqrt(left) * deviation)) - special.log_ndtr(d)
        stakes: Floats = -np.expm1(log_share) / jump
        return stakes

    def _lay_grid(self) -> Floats:
        """Candidate means around where the bound should come to lie, judged from the opening; and their wealth."""
        _, mean, square, _ = self.power_sums / self.seen
        variance = square - mean**2
        unit = np.sqrt((np.maximum(variance, 0.0) + 0.5 / self.seen) / self.n)
        quantile = -special.ndtri(np.exp(-self.goal))
        points = mean + unit * (_offsets(np.sqrt(self.n / self.seen)) - quantile)
        self.points = np.clip(points, 1e-12, 1.0)
        self.wealth = np.zeros_like(self.points)
        for block, stake in self.opening:
            self.wealth += block.growth(self.points, _capped(stake, self.points))
        self.opening.clear()
        self.open = self._undecided()
        return self.points


def unbroken(points: Floats, rejected: NDArray[np.bool_]) -> Floats:
    """The last of the ascending ``points`` (last dimension) before the first that is not rejected; 0 if none is."""
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
    quantiles: Floats = special.ndtri_exp(-(np.maximum(root, 1e-8) ** 2))
    return quantiles


def _quantile(log_probability: Floats) -> Floats:
    """Φ⁻¹ of a probability given by its logarithm; from a table, even in √−ln p, since any stake is sound."""
    place = np.minimum(100 * np.sqrt(-log_probability), 2000.0)
    index = place.astype(np.intp)
    table = _quantiles()
    quantile: Floats = table[index] + (place - index) * (table[index + 1] - table[index])
    return quantile


@dataclass(frozen=True)
class _Block:
    """Samples that share their stakes, with what their growth needs."""

    count: int
    values: Floats
    weights: Floats | None
    centre: Floats
    reach: Floats
    """Largest deviation from the centre."""
    powers: list[Floats]
    """Sums of the deviations to the powers 2, 3, …"""

    @classmethod
    def of(cls, values: Floats, weights: Floats | None) -> _Block:
        count = values.shape[-1] if weights is None else int(weights[0].sum())
        weighted = values if weights is None else values * weights
        centre = weighted.sum(axis=-1, keepdims=True) / count
        deviations = values - centre
        power = deviations if weights is None else deviations * weights
        powers = []
        for _ in range(2, _TERMS + 1):
            power = power * deviations
            powers.append(power.sum(axis=-1, keepdims=True))
        return cls(count, values, weights, centre, np.abs(deviations).max(axis=-1, keepdims=True), powers)

    def power_sums(self) -> Floats:
        """Sums of the samples to the powers 0, 1, 2 and 3."""
        c, (second, third, *_) = self.centre, self.powers
        ones = np.full_like(c, self.count)
        return np.stack([ones, ones * c, second + ones * c**2, third + 3 * c * second + ones * c**3])

    def growth(self, points: Floats, stakes: Floats) -> Floats:
        """Σ ln(1 + λ (z − m)) over the block, never overestimated but for rounding: (rows, points)."""
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
        """The same logarithm by logarithm, for pairs of a row and a point."""
        factors = 1 + stakes[:, None] * (self.values[rows] - points[:, None])
        if self.weights is not None:
            logs = np.log(factors) * self.weights[rows]
        else:  # eight factors, each well within 1e±13, to a logarithm
            logs = np.log(np.multiply.reduceat(factors, np.arange(0, factors.shape[-1], 8), axis=-1))
        total: Floats = logs.sum(axis=-1)
        return total
