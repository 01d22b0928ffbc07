"""Bounds by betting: as narrow as Clopper–Pearson on 0/1 data, and as the central limit theorem on the rest.

Mean m is rejected when a gambler who bets against it multiplies their wealth by 1/risk, which happens with probability
at most ``risk`` if m is the mean (Waudby-Smith and Ramdas 2024). How the stakes are chosen, and why the bound holds, is
told in ``game``.
"""

from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lvmrs import _checks
from lvmrs._checks import Floats, Numbers
from lvmrs.confidence.game import Game, blocks
from lvmrs.errors import InvalidArgumentError

__all__ = ["histogram", "lower", "lower_from_histogram", "upper", "upper_from_histogram"]

# Rows that play at a time.
_ROWS = 256


def lower(samples: Numbers, risk: Numbers, *, mass: float = 1.0) -> Floats:
    """Exceeds the true mean with probability at most ``risk``, given independent samples along the last dimension.

    The samples must be in the order in which they were drawn, or in one that does not depend on their values.
    """
    return _bound(_samples(samples, mass), risk) * mass


def upper(samples: Numbers, risk: Numbers, *, mass: float = 1.0) -> Floats:
    """Falls below the true mean with probability at most ``risk``; otherwise as ``lower``."""
    return (1.0 - _bound(1.0 - _samples(samples, mass), risk)) * mass


def _samples(samples: Numbers, mass: float) -> Floats:
    array = _checks.real("samples", samples)
    if array.ndim == 0:
        raise InvalidArgumentError(f"samples must have at least one dimension, got the single number {array}")
    return _checks.probability("samples", array, np.asarray(_mass(mass)))


def _mass(mass: float) -> float:
    return _checks.single("mass", _checks.mass(mass))


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

    Histograms of parts of a sample add up to that of the whole. Rounding moves the bound by less than mass/bins.
    """
    array = _checks.within("samples", np.atleast_1d(_checks.real("samples", samples)), np.asarray(_mass(mass)))
    bins = int(_checks.single("bins", _checks.whole("bins", bins, least=1)))
    if side not in ("lower", "upper"):
        raise InvalidArgumentError(f"side must be 'lower' or 'upper', got {side!r}")
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
    return _bound_of_counts(_counts(counts), risk, seed) * _mass(mass)


def upper_from_histogram(counts: Numbers, risk: float, *, mass: float = 1.0, seed: int = 0) -> Floats:
    """Falls below the true mean with probability at most ``risk``, given ``histogram(samples, …, side="upper")``."""
    return (1.0 - _bound_of_counts(_counts(counts)[..., ::-1], risk, seed)) * _mass(mass)


def _counts(counts: Numbers) -> NDArray[np.int64]:
    array = np.atleast_1d(_checks.whole("counts", counts, least=0)).astype(np.int64)
    if array.shape[-1] < 2:
        raise InvalidArgumentError(f"counts must have at least 2 grid values (0 and mass), got shape {array.shape}")
    if not array.sum(axis=-1).all():
        raise InvalidArgumentError("counts hold no samples; give a histogram of at least one")
    return array


def _bound_of_counts(counts: NDArray[np.int64], risk: float, seed: int) -> Floats:
    values = np.linspace(0.0, 1.0, counts.shape[-1])
    bounds = [_bound_of_row(values, row, risk, seed) for row in counts.reshape(-1, counts.shape[-1])]
    return np.array(bounds).reshape(counts.shape[:-1])[()]


def _bound_of_row(values: Floats, counts: NDArray[np.int64], risk: float, seed: int) -> float:
    random = np.random.default_rng(seed)
    n = int(counts.sum())
    game = Game(n, np.array([_checks.single("risk", _checks.risk(risk))]))
    values, left = values[counts > 0], counts[counts > 0]
    for start, stop in pairwise(blocks(n)):
        drawn = random.multivariate_hypergeometric(left, stop - start, method="marginals")
        left = left - drawn
        game.play(values[None, drawn > 0], drawn[None, drawn > 0].astype(np.float64))
    return float(game.bound()[0])
