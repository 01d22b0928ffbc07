"""Bounds by betting: as narrow as Clopper–Pearson on 0/1 data, and as the central limit theorem on other data.

A candidate mean m is rejected when a gambler who bets against it multiplies their wealth by 1/risk, which happens with
probability at most ``risk`` if m is the mean (Waudby-Smith and Ramdas 2024). The module ``game`` explains how the
stakes are chosen and why the bound holds. From n = 10⁴ samples on, Φ⁻¹ of the bound, which decides the radius, is
within 1 % of these two references (docs/bounds.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmrs import _checks
from lvmrs import _special as special
from lvmrs._checks import Floats, Numbers
from lvmrs.confidence.base import Bound, Sides, Tally
from lvmrs.confidence.game import ROUNDING, Game, blocks
from lvmrs.errors import InvalidArgumentError
from lvmrs.moments import statistics_device

__all__ = ["Betting", "histogram", "lower", "lower_from_histogram", "shares", "upper", "upper_from_histogram"]

# Rows that play at a time.
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
    top = _checks.positive_number("mass", mass)
    return top * _bound(shares(samples, top), risk)


def upper(samples: Numbers, risk: Numbers, *, mass: float = 1.0) -> Floats:
    """Upper bound on the mean, which falls below the true mean with probability at most ``risk``.

    The arguments are those of ``lower``.

    >>> print(f"{upper(np.full(1000, 0.25), 0.001):.3f}")
    0.257
    """
    top = _checks.positive_number("mass", mass)
    return top * (1.0 - _bound(1.0 - shares(samples, top), risk))


def shares(samples: Numbers, top: float) -> Floats:
    """Check samples in [0, top] along the last dimension, and divide them by ``top``.

    >>> shares([1.0, 2.0], 2.0)
    array([0.5, 1. ])
    """
    array = _checks.real("samples", samples)
    if array.ndim == 0:
        raise InvalidArgumentError(f"samples must have at least one dimension, got the single number {array}")
    array = _checks.within("samples", array, np.asarray(top), slack=ROUNDING)
    return array if top == 1.0 else array / top


def _bound(samples: Floats, risk: Numbers) -> Floats:
    *leading, n = samples.shape
    risk = _checks.risk(risk)
    _checks.broadcast(samples=samples[..., 0], risk=risk)
    shape = np.broadcast_shapes(tuple(leading), risk.shape)
    rows = np.broadcast_to(samples, (*shape, n)).reshape(-1, n)
    risks = np.broadcast_to(risk, shape).reshape(-1)
    bounds = []
    for first in range(0, len(rows), _ROWS):
        group = slice(first, first + _ROWS)
        game = Game(n, risks[group])
        game.feed(rows[group])
        bounds.append(game.bound())
    return np.concatenate(bounds).reshape(shape)[()]


def histogram(samples: Numbers, bins: int, *, side: Literal["lower", "upper"], mass: float = 1.0) -> NDArray[np.int64]:
    """How many samples round to each of 0, mass/bins, …, mass: down for a lower bound, up for an upper bound.

    The histograms of parts of a sample add up to the histogram of the whole. Rounding moves the mean by less than
    mass/bins, and never to the wrong side.

    Args:
        samples: samples in [0, mass] along the last dimension, shape (…, n).
        bins: number of steps from 0 to mass.
        side: which bound the histogram is for.
        mass: the largest possible value of a sample.

    Returns:
        Counts of shape (…, bins + 1).

    >>> histogram([0.1, 0.6, 1.0], 2, side="lower").tolist(), histogram([0.1, 0.6, 1.0], 2, side="upper").tolist()
    ([1, 1, 1], [0, 1, 2])
    """
    values = np.atleast_1d(_checks.real("samples", samples))
    array = _checks.within("samples", values, np.asarray(_checks.positive_number("mass", mass)), slack=ROUNDING)
    bins = _checks.count("bins", bins, least=1)
    _checks.one_of("side", side, ("lower", "upper"))
    grid = np.linspace(0.0, mass, bins + 1)
    if side == "lower":
        index = np.searchsorted(grid, array, side="right") - 1
    else:
        index = np.searchsorted(grid, array, side="left")
    flat = index.reshape(-1, array.shape[-1])
    counts = np.stack([np.bincount(row, minlength=bins + 1) for row in flat])
    return counts.reshape(*array.shape[:-1], bins + 1).astype(np.int64)


def lower_from_histogram(counts: Numbers, risk: float, *, mass: float = 1.0, seed: int = 0) -> Floats:
    """Lower bound on the mean from a histogram, which exceeds the true mean with probability at most ``risk``.

    Independent samples are as likely in one order as in another, so the bets are made in an order drawn from ``seed``.

    Args:
        counts: what ``histogram(samples, …, side="lower")`` returns, shape (…, bins + 1); fewer than 10⁹ samples.
        risk: probability of error, strictly between 0 and 1.
        mass: the largest possible value of a sample.
        seed: seed of the order.

    >>> print(f"{lower_from_histogram([10, 990], 0.001):.3f}")
    0.975
    """
    return _bound_of_counts(_counts(counts), risk, seed) * _checks.positive_number("mass", mass)


def upper_from_histogram(counts: Numbers, risk: float, *, mass: float = 1.0, seed: int = 0) -> Floats:
    """Upper bound on the mean from a histogram, which falls below the true mean with probability at most ``risk``.

    The arguments are those of ``lower_from_histogram``, with a histogram of ``side="upper"``.

    >>> print(f"{upper_from_histogram([995, 5], 0.001):.3f}")
    0.016
    """
    return (1.0 - _bound_of_counts(_counts(counts)[..., ::-1], risk, seed)) * _checks.positive_number("mass", mass)


def _counts(counts: Numbers) -> NDArray[np.int64]:
    array = np.atleast_1d(_checks.whole("counts", counts, least=0)).astype(np.int64)
    if array.shape[-1] < 2:
        raise InvalidArgumentError(f"counts must have at least 2 grid values (0 and mass), got shape {array.shape}")
    totals = array.sum(axis=-1)
    if not totals.all():
        raise InvalidArgumentError("counts hold no samples; give a histogram of at least one")
    if totals.max() >= 10**9:  # the limit of NumPy's hypergeometric draws
        raise InvalidArgumentError(f"counts must hold fewer than 10⁹ samples, got {totals.max()}")
    return array


def _bound_of_counts(counts: NDArray[np.int64], risk: float, seed: int) -> Floats:
    values = np.linspace(0.0, 1.0, counts.shape[-1])
    bounds = [_bound_of_row(values, row, risk, seed) for row in counts.reshape(-1, counts.shape[-1])]
    return np.array(bounds).reshape(counts.shape[:-1])[()]


def _bound_of_row(values: Floats, counts: NDArray[np.int64], risk: float, seed: int) -> float:
    random = np.random.default_rng(_checks.count("seed", seed, least=0))
    n = int(counts.sum())
    game = Game(n, np.array([_checks.single("risk", _checks.risk(risk))]))
    values, left = values[counts > 0], counts[counts > 0]
    for start, stop in pairwise(blocks(n)):
        drawn = random.multivariate_hypergeometric(left, stop - start, method="marginals")
        left = left - drawn
        game.play(values[None, drawn > 0], drawn[None, drawn > 0].astype(np.float64))
    return float(game.bound()[0])


@dataclass(frozen=True)
class Betting(Bound):
    """Bounds for any scores in [0, 1], by betting against each candidate mean."""

    name: ClassVar[str] = "betting"
    at_ease: ClassVar[int | None] = 24

    def tally(self, n: int, risks: Floats, upper: Sides) -> Tally:
        """A tally with one game for each column."""
        return _Games(n, risks, upper)

    def forecast(self, mean: Floats, variance: Floats, n: int, risk: float) -> Floats:
        """The mean less the width of the normal limit and that of a sample without variance, combined."""
        mean = np.clip(mean, 0.0, 1.0)
        width = np.hypot(-special.ndtri(risk) * np.sqrt(variance / n), mean * np.log(1 / risk) / n)
        lowest: Floats = np.maximum(mean - width, 0.0)
        return lowest


class _Games(Tally):
    def __init__(self, n: int, risks: Floats, upper: Sides) -> None:
        self.game, self.upper = Game(n, risks), upper

    def add(self, columns: Tensor) -> None:
        exact = columns.to(statistics_device(columns.device)).to(torch.float64)
        values = exact.t().contiguous().cpu().numpy()
        # An upper bound is a lower bound on what is missing to 1.
        self.game.feed(np.where(self.upper[:, None], 1 - values, values))

    def bounds(self) -> Floats:
        found = self.game.bound()
        return np.where(self.upper, 1 - found, found)
