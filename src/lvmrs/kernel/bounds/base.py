"""The interface of the bounds: a bound keeps a tally of several columns of scores and bounds the mean of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmrs.kernel.checks import Floats
from lvmrs.kernel.scores import Moments, statistics_device

Sides = NDArray[np.bool_]
"""For each column, whether its mean is bounded from above (else from below)."""


class Tally(ABC):
    """The running state of a bound for several columns; it can be pickled at any time."""

    @abstractmethod
    def add(self, columns: Tensor) -> None:
        """Take the next samples.

        Args:
            columns: scores in [0, 1] of shape (samples, columns), in the order in which they were drawn.
        """

    @abstractmethod
    def bounds(self) -> Floats:
        """The bound of each column, once all n samples were added; for an anytime bound, at any time."""


@dataclass(frozen=True)
class Bound(ABC):
    """A way to bound the mean of independent scores in [0, 1]."""

    name: ClassVar[str]
    votes_only: ClassVar[bool] = False
    """Whether it holds for 0/1 scores only; the proof then accepts only booleans."""
    anytime: ClassVar[bool] = False
    """Whether its bounds hold at all numbers of samples at once, so that sampling may stop for any reason before n."""
    cheap_columns: ClassVar[int | None] = None
    """The number of columns that cost next to nothing; planners pool the rivals beyond it. None: no limit."""

    @abstractmethod
    def tally(self, n: int, risks: Floats, upper: Sides) -> Tally:
        """A tally for n samples.

        Args:
            n: the number of samples that will be added.
            risks: for each column, the probability that its bound is wrong.
            upper: for each column, whether it gets an upper bound (else a lower one).
        """

    @abstractmethod
    def forecast(self, mean: Floats, variance: Floats, n: int, risk: float) -> Floats:
        """Estimate of the lower bound that n samples of this mean and variance would give.

        Planners compare candidates with it; no certificate relies on it.
        """

    def alone(self, rivals: Sequence[int], others: int) -> tuple[int, ...] | None:
        """The rivals that a planner should bound individually; it pools the others into one column.

        Pooling the weakest rivals saves computing time if each column is expensive. It costs no risk.

        Args:
            rivals: all rivals of the top class, the strongest first.
            others: the number of columns besides those of the rivals: 1 for simplex maps, 0 for duels.

        Returns:
            The strongest rivals, which fill ``cheap_columns`` together with the pooled one; None for all rivals.
        """
        most = self.cheap_columns
        return None if most is None or len(rivals) + others <= most else tuple(rivals[: most - others - 1])


class TallyOfMoments(Tally):
    """Mean and variance of each column, for bounds that are a closed form of them."""

    def __init__(
        self,
        n: int,
        risks: Floats,
        upper: Sides,
        lower_bound: Callable[[Floats, Floats, int, Floats], Floats],
        upper_bound: Callable[[Floats, Floats, int, Floats], Floats],
    ) -> None:
        self.n, self.risks, self.upper = n, risks, upper
        self.lower_bound, self.upper_bound = lower_bound, upper_bound
        self.moments = Moments.empty((len(risks),))

    def add(self, columns: Tensor) -> None:
        """Merge the moments of these samples."""
        values = columns.to(statistics_device(columns.device)).to(torch.float64)
        self.moments = self.moments + Moments.of(values.cpu())

    def bounds(self) -> Floats:
        """The closed form, on the side of each column."""
        mean, variance = self.moments.mean.clamp(0.0, 1.0).numpy(), self.moments.variance.numpy()
        found = np.empty(len(mean))
        for side, closed_form in ((~self.upper, self.lower_bound), (self.upper, self.upper_bound)):
            if side.any():
                found[side] = closed_form(mean[side], variance[side], self.moments.count, self.risks[side])
        return found


def anytime_goal(risk: Floats, n: Floats) -> Floats:
    """The log-wealth that rejects a mean: ln(1/risk), plus far more than the rounding of n samples.

    >>> print(f"{anytime_goal(np.array(0.001), np.array(1000.0)):.6f}")
    6.907755
    """
    goal: Floats = -np.log(risk) + 1e-7 + 1e-12 * n
    return goal
