"""Counting false bounds: seeded draws from distributions of known mean, and a binomial test against the risk."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lvmrs.kernel.bounds import bernstein, betting, clopper_pearson, hoeffding
from tests.oracles import Floats

Bound = Callable[[Floats, float], Floats]


@dataclass(frozen=True)
class Distribution:
    mean: float
    draw: Callable[[np.random.Generator, tuple[int, int]], Floats]
    binary: bool = False


def bernoulli(p: float) -> Distribution:
    return Distribution(p, lambda random, shape: (random.random(shape) < p).astype(float), binary=True)


def two_points(low: float, high: float, share_low: float) -> Distribution:
    mean = low * share_low + high * (1 - share_low)
    return Distribution(mean, lambda random, shape: np.where(random.random(shape) < share_low, low, high))


def beta(a: float, b: float) -> Distribution:
    return Distribution(a / (a + b), lambda random, shape: random.beta(a, b, shape))


DISTRIBUTIONS = {
    "Bernoulli(.5)": bernoulli(0.5),
    "Bernoulli(.99)": bernoulli(0.99),
    "Bernoulli(.999)": bernoulli(0.999),
    "Beta(60,2)": beta(60, 2),
    "Beta(.02,2)": beta(0.02, 2),
    "two points near 1": two_points(0.97, 0.999, 0.3),
    "rarely far below 1": two_points(0.2, 0.999, 0.004),
    "constant": Distribution(0.75, lambda random, shape: np.full(shape, 0.75)),
    "zero with rare ones": bernoulli(0.002),
}

BOUNDS: dict[str, tuple[Bound, Bound]] = {
    "Clopper–Pearson": (
        lambda z, risk: clopper_pearson.lower(z.sum(axis=-1), z.shape[-1], risk),
        lambda z, risk: clopper_pearson.upper(z.sum(axis=-1), z.shape[-1], risk),
    ),
    "Hoeffding": (
        lambda z, risk: hoeffding.lower(z.mean(axis=-1), z.shape[-1], risk),
        lambda z, risk: hoeffding.upper(z.mean(axis=-1), z.shape[-1], risk),
    ),
    "Bernstein": (
        lambda z, risk: bernstein.lower(z.mean(axis=-1), z.var(axis=-1, ddof=1), z.shape[-1], risk),
        lambda z, risk: bernstein.upper(z.mean(axis=-1), z.var(axis=-1, ddof=1), z.shape[-1], risk),
    ),
    "betting": (betting.lower, betting.upper),
}


def false_bounds(bound: Bound, side: str, distribution: Distribution, n: int, risk: float, repeats: int) -> int:
    """How many of ``repeats`` bounds, each on its own n samples, are on the wrong side of the mean."""
    random = np.random.default_rng([n, repeats, int(1e6 * risk)])
    wrong = 0
    batch = max(1, 2_000_000 // n)
    for first in range(0, repeats, batch):
        size = min(batch, repeats - first)
        bounds = bound(distribution.draw(random, (size, n)), risk)
        # Rounding in the last digit of a mean is not a false bound.
        wrong += int(
            (bounds > distribution.mean + 1e-12 if side == "lower" else bounds < distribution.mean - 1e-12).sum()
        )
    return wrong
