"""The game behind the bounds by betting: how much is staked, and which means are rejected.

For a candidate mean m, a gambler starts with wealth 1 and stakes λ_i on sample i: K(m) = Π (1 + λ_i (Z_i − m)) with
0 ≤ λ_i < 1/m. Each λ_i depends only on the samples before it, so if the mean is m (or less) the expected wealth never
exceeds 1, and reaching 1/risk at any time has probability at most ``risk`` (Ville). Such m are rejected; the lower
bound is the end of the unbroken run of rejected m, from 0 upwards (Waudby-Smith and Ramdas 2024).

**The stakes.** A wealth of 1/risk at the last sample counts, and less than that counts for nothing: this is a digital
option on the sum of Z − m, whose price is the risk. In the Gaussian limit its price is Φ(d) = risk · K, so the wealth
so far determines d, and one sample that falls short by ``jump`` should leave the share
Φ(d − jump/√(V · samples left))/Φ(d) of the wealth. The stake that does so is λ = (1 − that share)/jump. V is the
running second moment about m, and the jump is the typical size of a downward step: close to 1 for 0/1 data with few
zeros, where one zero must not ruin the gambler; small for values that spread evenly, where λ becomes
φ(d)/Φ(d)/√(V · samples left). The bound then has the width of the normal quantile, where one fixed stake has
√(2 ln(1/risk)). (STaR-Bets, arXiv 2505.22422, recalculates its aim too, with the stake
√(2 ln(1/(risk K))/(V · samples left)).) Stakes do not change within a block of samples.

**Why the order matters.** The stakes depend on m, so the wealth need not fall as m grows, and bisection on m could step
over the true mean to a false rejection further up. The following procedure is valid for any stakes:

1. In the opening (the first eighth of the samples) all m share one stake per block, capped below 1/m.
2. Then candidate means are placed around the expected bound, which is judged from the opening alone; they form a grid.
   From there on each m takes the stakes of the next grid point above it. Within a cell of the grid all stakes are
   shared, so the wealth falls in m there: rejecting the grid point rejects its cell.
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

import numpy as np
from numpy.typing import NDArray

from lvmrs import _special as special
from lvmrs._checks import Floats
from lvmrs.confidence.block import Block
from lvmrs.errors import InvalidArgumentError

__all__ = ["ROUNDING", "Game", "blocks", "unbroken"]

# How far single precision may carry a score above its mass.
ROUNDING = 1e-6

# Share of the samples after which the candidate means are placed.
_OPENING = 1 / 8
# A stake leaves at least this share of the wealth, whatever the sample.
_RESERVE = 0.01
# Pseudo-samples that the running moments start from: the largest variance, 1/4, and falls all the way down.
_PRIOR = 1.0
# The aim lies this much above the goal in log-wealth: the hedge fades out as it nears its aim, and must not stop short.
_OVERSHOOT = 0.01
# A rejection needs this much more log-wealth than the goal: far more than rounding adds in a million samples.
_SLACK = 1e-7
# A candidate this far below the goal in log-wealth is given up, and with it all above: they count as not rejected.
_HOPELESS = 40.0


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


class Game:
    """The wealth of one gambler per row and candidate mean; the result is a lower bound for each row.

    Samples are fed in any portions; they are played block by block, so the portions do not matter.

    Args:
        n: how many samples each row will have.
        risks: for each row, the probability at which its bound may be wrong.

    >>> game = Game(1000, np.array([0.001]))
    >>> game.feed(np.full((1, 1000), 0.75))
    >>> print(f"{game.bound()[0]:.3f}")
    0.743
    """

    def __init__(self, n: int, risks: Floats) -> None:
        rows = len(risks)
        self.n = n
        self.goal = -np.log(risks)[:, None]
        self.ends = blocks(n)
        self.waiting = np.empty((rows, int(np.diff(self.ends).max())))
        self.seen, self.fed = 0, 0
        self.power_sums = np.zeros((4, rows, 1))  # of the samples to the powers 0 to 3
        self.opening: list[tuple[Block, Floats]] = []
        self.points: Floats | None = None
        self.wealth: Floats = np.zeros((rows, 1))
        self.open = slice(0, 0)  # the columns in which some row still has a candidate to decide

    def feed(self, values: Floats) -> None:
        """Take the next samples, of shape (rows, any number), and play each block as soon as it is full."""
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
        block = Block.of(values, weights)
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
            raise InvalidArgumentError(f"{self.fed} samples where the game was set up for {self.n}")
        points = self.points if self.points is not None else self._lay_grid()
        mean = self.power_sums[1] / self.seen
        # In rare orders of the samples the bound would exceed their mean, which no one expects of a lower bound.
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
        """Candidate means around the expected bound, judged from the opening; sets their wealth too."""
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
    quantiles: Floats = special.ndtri_exp(-(np.maximum(root, 1e-8) ** 2))
    return quantiles


def _quantile(log_probability: Floats) -> Floats:
    """Φ⁻¹ of a probability given by its logarithm; from a table, even in √−ln p, since any stake is sound."""
    place = np.minimum(100 * np.sqrt(-log_probability), 2000.0)
    index = place.astype(np.intp)
    table = _quantiles()
    quantile: Floats = table[index] + (place - index) * (table[index + 1] - table[index])
    return quantile
