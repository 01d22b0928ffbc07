from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from lvmrs.kernel.bounds import bernstein, betting, clopper_pearson
from lvmrs.kernel.bounds.betting import Block
from tests.oracles import Floats

samples_in_unit = arrays(np.float64, st.integers(1, 60), elements=st.floats(0, 1))


DRAWS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "beta": lambda random, n: random.beta(60, 2, n),
    "bernoulli": lambda random, n: (random.random(n) < 0.9).astype(float),
    "ones": lambda random, n: np.ones(n),
    "spread": lambda random, n: random.random(n),
}


def plain_growth(block: Block, points: Floats, stakes: Floats) -> Floats:
    """One logarithm for each sample and candidate mean."""
    total: Floats = np.log1p(stakes[..., None] * (block.values[:, None, :] - points[..., None])).sum(axis=-1)
    return total


@pytest.mark.parametrize("n", [1, 8, 40, 3000])
@pytest.mark.parametrize("draw", DRAWS)
def test_fast_game_is_the_plain_one(n: int, draw: str, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = DRAWS[draw](np.random.default_rng(n), n)
    fast = betting.lower(samples, 0.05)
    monkeypatch.setattr(Block, "growth", plain_growth)
    assert fast == pytest.approx(float(betting.lower(samples, 0.05)), rel=1e-12)


@pytest.mark.parametrize("draw", DRAWS)
def test_stakes_know_nothing_of_the_samples_they_are_placed_on(draw: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two samples that part at some block have had the same stakes up to and with that block, all within [0, 1/m)."""
    n, random = 500, np.random.default_rng(9)
    ends = betting.blocks(n)
    samples = DRAWS[draw](random, n)
    played: list[tuple[Floats, Floats]] = []

    def record(block: Block, points: Floats, stakes: Floats) -> Floats:
        assert (stakes >= 0).all()
        assert (stakes * points < 1).all()
        played.append((points, stakes))
        return plain_growth(block, points, stakes)

    monkeypatch.setattr(Block, "growth", record)

    def stakes_of(values: Floats) -> list[tuple[Floats, Floats]]:
        played.clear()
        betting.lower(values, 0.05)
        return list(played)

    reference = stakes_of(samples)
    assert len(reference) == len(ends) - 1
    for part in (len(ends) // 2, len(ends) - 20, len(ends) - 3):
        other = samples.copy()
        other[ends[part] :] = random.random(n - ends[part])
        changed = stakes_of(other)
        for (points, stakes), (other_points, other_stakes) in zip(reference[: part + 1], changed, strict=False):
            np.testing.assert_array_equal(points, other_points)
            np.testing.assert_array_equal(stakes, other_stakes)


@settings(max_examples=200, deadline=None)
@given(arrays(np.float64, (2, 17), elements=st.floats(0, 1)), st.data())
def test_growth_never_overstates_the_sum_of_logarithms(values: Floats, data: st.DataObject) -> None:
    points = data.draw(arrays(np.float64, (2, 5), elements=st.floats(1e-12, 1)))
    shares = data.draw(arrays(np.float64, (2, 5), elements=st.floats(0, 0.99)))
    stakes = shares / points
    growth = Block.of(values).growth(points, stakes)
    plain = plain_growth(Block.of(values), points, stakes)
    assert (growth <= plain + 1e-9).all()
    np.testing.assert_allclose(growth, plain, rtol=0, atol=1e-3)


@settings(deadline=None)
@given(samples_in_unit, st.floats(0.001, 0.5), st.floats(0.1, 10))
def test_bounds_lie_around_the_mean_and_in_range(samples: Floats, risk: float, mass: float) -> None:
    low, high = betting.lower(samples * mass, risk, mass=mass), betting.upper(samples * mass, risk, mass=mass)
    mean = samples.mean() * mass
    assert 0 <= low <= mass
    assert 0 <= high <= mass
    assert low <= mean + 1e-9 * mass
    assert high >= mean - 1e-9 * mass


@settings(deadline=None)
@given(samples_in_unit, st.floats(0.001, 0.5), st.floats(0.1, 10))
def test_mass_scales_and_upper_mirrors(samples: Floats, risk: float, mass: float) -> None:
    low = betting.lower(samples, risk)
    assert betting.lower(samples * mass, risk, mass=mass) == pytest.approx(low * mass, rel=1e-6, abs=1e-9 * mass)
    assert betting.upper(1 - samples, risk) == pytest.approx(1 - low, abs=1e-6)


@pytest.mark.parametrize("n", [100, 3000])
@pytest.mark.parametrize("draw", ["beta", "bernoulli"])
def test_more_risk_gives_tighter_bounds(n: int, draw: str) -> None:
    """Up to the resolution of the grid, which is laid again for each risk."""
    random = np.random.default_rng(1)
    samples = random.beta(8, 2, n) if draw == "beta" else (random.random(n) < 0.8).astype(float)
    bounds = [float(betting.lower(samples, risk)) for risk in (1e-6, 1e-4, 1e-2, 0.1, 0.3)]
    resolution = 0.1 * samples.std() / np.sqrt(n)
    assert all(small <= large + resolution for small, large in pairwise(bounds))
    assert bounds[-1] > bounds[0] + resolution


def test_larger_samples_give_larger_bounds() -> None:
    random = np.random.default_rng(2)
    samples = random.beta(8, 2, (50, 400))
    assert (betting.lower(0.9 * samples, 0.01) < betting.lower(samples, 0.01)).all()
    assert (betting.upper(0.9 * samples, 0.01) < betting.upper(samples, 0.01)).all()


def test_rows_are_independent_games() -> None:
    random = np.random.default_rng(3)
    samples = random.random((2, 300, 40))
    bounds = betting.lower(samples, 0.05)
    assert bounds.shape == (2, 300)
    assert bounds[1, 270] == betting.lower(samples[1, 270], 0.05)


def test_each_row_may_have_its_own_risk() -> None:
    samples = np.random.default_rng(3).random((3, 200))
    bounds = betting.lower(samples, [0.1, 0.01, 0.2])
    assert bounds.tolist() == [
        float(betting.lower(row, risk)) for row, risk in zip(samples, [0.1, 0.01, 0.2], strict=True)
    ]
    assert betting.lower(samples[0], [[0.1], [0.01]]).shape == (2, 1)


@pytest.mark.parametrize("n", [1, 7, 1000])
def test_portions_do_not_matter(n: int) -> None:
    random = np.random.default_rng(n)
    samples, risks = random.beta(9, 1, (2, n)), np.array([0.05, 0.1])
    whole = betting.WealthProcess(n, risks)
    whole.add(samples)
    for size in (1, 3, 128, 2000):
        portions = betting.WealthProcess(n, risks)
        for first in range(0, n, size):
            portions.add(samples[:, first : first + size])
        np.testing.assert_array_equal(portions.bound(), whole.bound())


def test_nothing_beats_the_ceiling_of_all_ones() -> None:
    for n in (1, 10, 1000, 10**4):
        bound = float(betting.lower(np.ones(n), 0.001))
        assert bound <= 0.001 ** (1 / n)
    assert stats.norm.ppf(bound) > 0.99 * stats.norm.ppf(0.001 ** (1 / n))


def test_blocks_cover_the_sample_and_shrink_towards_its_end() -> None:
    for n in (1, 2, 10, 1000, 10**6):
        sizes = np.diff(betting.blocks(n))
        assert sizes.sum() == n
        assert (sizes >= 1).all()
    assert sizes[-1] == 1
    assert len(sizes) < 300


def test_betting_comes_close_to_clopper_pearson_and_beats_bernstein() -> None:
    """The full table is made by ``make bounds``; this keeps its two headlines."""
    random = np.random.default_rng(8)
    ones = (random.random((10, 10_000)) < 0.99).astype(float)
    exact = stats.norm.ppf(clopper_pearson.lower(ones.sum(axis=1), 10_000, 0.001)).mean()
    assert stats.norm.ppf(betting.lower(ones, 0.001)).mean() > 0.99 * exact
    soft = random.beta(60, 2, (10, 10_000))
    limit = stats.norm.ppf(soft.mean(axis=1) - 3.0902 * soft.std(axis=1) / 100).mean()
    ours = stats.norm.ppf(betting.lower(soft, 0.001)).mean()
    theirs = stats.norm.ppf(bernstein.lower(soft.mean(axis=1), soft.var(axis=1, ddof=1), 10_000, 0.001)).mean()
    assert 0.99 * limit < ours < limit
    assert ours > theirs
