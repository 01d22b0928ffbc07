"""Bounds by betting: as narrow as Clopper–Pearson on 0/1 data, and as the central limit theorem on the rest.

Mean m is rejected when a gambler who bets against it multiplies their wealth by 1/risk, which happens with probability
at most ``risk`` if m is the mean (Waudby-Smith and Ramdas 2024). How the stakes are chosen, and why the bound holds, is
told in ``game``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special
from torch import Tensor

from lvmrs import _checks
from lvmrs._checks import Floats, Numbers
from lvmrs.confidence.base import Bound, Sides, Tally
from lvmrs.confidence.game import ROUNDING, Game, blocks
from lvmrs.errors import InvalidArgumentError
from lvmrs.moments import statistics_device

__all__ = ["Betting", "histogram", "lower", "lower_from_histogram", "upper", "upper_from_histogram"]

# Rows that play at a time.
_ROWS = 256


def lower(samples: Numbers, risk: Numbers, *, mass: float = 1.0) -> Floats:
    """Exceeds the true mean with probability at most ``risk``, given independent samples along the last dimension.

    The samples must be in the order in which they were drawn, or in one that does not depend on their values. More risk
    gives a larger bound up to the resolution of the grid, about a tenth of the standard error.
    """
    top = _checks.positive_number("mass", mass)
    return top * _bound(_shares(samples, top), risk)


def upper(samples: Numbers, risk: Numbers, *, mass: float = 1.0) -> Floats:
    """Falls below the true mean with probability at most ``risk``; otherwise as ``lower``."""
    top = _checks.positive_number("mass", mass)
    return top * (1.0 - _bound(1.0 - _shares(samples, top), risk))


def _shares(samples: Numbers, top: float) -> Floats:
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
    """How many samples (last dimension) round to each of 0, mass/bins, …, mass: down for ``lower``, up for ``upper``.

    Histograms of parts of a sample add up to that of the whole. Rounding moves the mean by less than mass/bins.
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
    """Exceeds the true mean with probability at most ``risk``, given ``histogram(samples, …, side="lower")``.

    Independent samples are as likely in one order as in another, so the bets are made in an order drawn from ``seed``.
    """
    return _bound_of_counts(_counts(counts), risk, seed) * _checks.positive_number("mass", mass)


def upper_from_histogram(counts: Numbers, risk: float, *, mass: float = 1.0, seed: int = 0) -> Floats:
    """Falls below the true mean with probability at most ``risk``, given ``histogram(samples, …, side="upper")``."""
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
        """One game for each column."""
        return _Games(n, risks, upper)

    def forecast(self, mean: Floats, variance: Floats, n: int, risk: float) -> Floats:
        """The normal width, and for next to no variance that of a sample without any."""
        mean = np.clip(mean, 0.0, 1.0)
        width = np.hypot(-special.ndtri(risk) * np.sqrt(variance / n), mean * np.log(1 / risk) / n)
        lowest: Floats = np.maximum(mean - width, 0.0)
        return lowest


class _Games(Tally):
    def __init__(self, n: int, risks: Floats, upper: Sides) -> None:
        self.game, self.upper = Game(n, risks), upper

    def add(self, columns: Tensor) -> None:
        shares = columns.to(statistics_device(columns.device)).to(torch.float64)
        values = shares.t().contiguous().cpu().numpy()
        # An upper bound is a lower bound on what is missing to 1.
        self.game.feed(np.where(self.upper[:, None], 1 - values, values))

    def bounds(self) -> Floats:
        found = self.game.bound()
        return np.where(self.upper, 1 - found, found)
