"""Every bound holds as often as it says, and the harness would notice one that does not."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from lvmrs.kernel.bounds import betting
from lvmrs.testing import too_many
from tests.oracles import Floats
from tests.statistical.coverage import BOUNDS, DISTRIBUTIONS, Bound, bernoulli, false_bounds

REPEATS = {10: 1000, 100: 300, 1000: 150, 10_000: 40, 100_000: 60}


def combinations() -> list[tuple[str, str]]:
    return [
        (bound, name)
        for bound in BOUNDS
        for name, distribution in DISTRIBUTIONS.items()
        if distribution.binary or bound != "Clopper–Pearson"
    ]


@pytest.mark.parametrize(("bound", "distribution"), combinations())
@pytest.mark.parametrize("n", [*list(REPEATS)[:-1], pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("risk", [0.05, 0.01])
def test_false_bounds_are_no_more_frequent_than_the_risk(bound: str, distribution: str, n: int, risk: float) -> None:
    repeats = REPEATS[n]
    for side, function in zip(("lower", "upper"), BOUNDS[bound], strict=True):
        wrong = false_bounds(function, side, DISTRIBUTIONS[distribution], n, risk, repeats)
        assert not too_many(wrong, repeats, risk), f"{wrong} of {repeats} {side} bounds are false at risk {risk}"


@pytest.mark.slow
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("n", [300, 3000, 30_000])
@pytest.mark.parametrize("risk", [0.05, 0.01, 0.001])
def test_betting_over_many_repeats(distribution: str, n: int, risk: float) -> None:
    repeats = 6_000_000 // n
    for side, function in zip(("lower", "upper"), BOUNDS["betting"], strict=True):
        wrong = false_bounds(function, side, DISTRIBUTIONS[distribution], n, risk, repeats)
        assert not too_many(wrong, repeats, risk), f"{wrong} of {repeats} {side} bounds are false at risk {risk}"


def normal_approximation(z: Floats, risk: float) -> Floats:
    bound: Floats = z.mean(axis=-1) + special.ndtri(risk) * z.std(axis=-1, ddof=1) / np.sqrt(z.shape[-1])
    return bound


def bernstein_without_its_range_term(z: Floats, risk: float) -> Floats:
    bound: Floats = z.mean(axis=-1) - np.sqrt(2 * z.var(axis=-1, ddof=1) * np.log(2 / risk) / z.shape[-1])
    return bound


@pytest.mark.parametrize("mutant", [normal_approximation, bernstein_without_its_range_term])
def test_the_harness_catches_bounds_that_do_not_hold(mutant: Bound) -> None:
    wrong = false_bounds(mutant, "lower", bernoulli(0.99), 100, 0.05, 1500)
    assert too_many(wrong, 1500, 0.05)


def test_bisection_on_a_wealth_that_is_not_monotone_steps_over_the_mean() -> None:
    """Why candidate means are tested upwards, stopping at the first that is not rejected.

    Each candidate bets on samples of its own, so the wealths are fair one by one but go up and down in m. Asking
    them in the order of a bisection meets several false ones, each with its own chance to be rejected; asking them
    upwards meets one.
    """
    risk, mean, repeats, n = 0.05, 0.4, 4000, 40
    points = np.linspace(0.401, 0.43, 31)
    samples = (np.random.default_rng(0).random((repeats, len(points), n)) < mean).astype(float)
    wealth = np.cumsum(np.log1p(0.6 / points[:, None] * (samples - points[:, None])), axis=-1).max(axis=-1)
    rejected = wealth >= np.log(1 / risk)
    upwards = betting.unbroken(np.broadcast_to(points, rejected.shape), rejected)
    bisected = np.array([bisect(points, row) for row in rejected])
    assert not too_many(int((upwards > mean).sum()), repeats, risk)
    assert too_many(int((bisected > mean).sum()), repeats, risk)


def bisect(points: Floats, rejected: NDArray[np.bool_]) -> float:
    low, high = -1, len(points)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if rejected[middle] else (low, middle)
    return float(points[low]) if low >= 0 else 0.0
