"""A block of samples in the game of betting, and how much a gambler's wealth grows over it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lvmrs._checks import Floats

__all__ = ["Block"]

# Terms of the series for the growth over a block, and the largest relative deviation for which it is used.
_TERMS, _NEAR = 12, 0.5
# Numbers of scratch in the exact growth.
_SCRATCH = 1 << 18


@dataclass(frozen=True)
class Block:
    """Samples that share their stakes, one row for each gambler.

    >>> block = Block.of(np.array([[0.2, 0.6]]), None)
    >>> growth = block.growth(points=np.array([[0.3]]), stakes=np.array([[1.0]]))
    >>> print(f"{growth[0, 0]:.6f} {np.log(1 - 0.1) + np.log(1 + 0.3):.6f}")
    0.157004 0.157004
    """

    count: int
    """Number of samples."""
    values: Floats
    """Their values, of shape (rows, values)."""
    weights: Floats | None
    """How many samples each value stands for; None for one each."""
    centre: Floats
    """Mean of each row."""
    reach: Floats
    """Largest deviation from the centre."""
    powers: list[Floats]
    """Sums of the deviations to the powers 2, 3, …"""

    @classmethod
    def of(cls, values: Floats, weights: Floats | None) -> Block:
        """The block of these values, each standing for ``weights`` samples (one if None)."""
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
        if self.weights is not None:
            logs = np.log(factors) * self.weights[rows]
        else:  # eight factors, each well within 1e±13, to a logarithm
            logs = np.log(np.multiply.reduceat(factors, np.arange(0, factors.shape[-1], 8), axis=-1))
        total: Floats = logs.sum(axis=-1)
        return total
