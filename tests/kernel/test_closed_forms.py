"""Clopper–Pearson, Hoeffding and empirical Bernstein against SciPy and plain formulas, and their properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel.bounds import bernstein, clopper_pearson, hoeffding
from lvmrs.kernel.scores import Moments
from tests.oracles import random_logits

risks = st.floats(-8, -0.01).map(lambda x: 10**x)
sizes = st.integers(2, 10**6)
masses = st.floats(0.1, 10)


@given(st.data(), sizes, risks)
def test_clopper_pearson_is_the_beta_quantile_of_scipy(data: st.DataObject, n: int, risk: float) -> None:
    k = data.draw(st.integers(0, n))
    low, high = clopper_pearson.lower(k, n, risk), clopper_pearson.upper(k, n, risk)
    assert low == pytest.approx(stats.beta.ppf(risk, k, n - k + 1) if k else 0.0, rel=1e-9)
    assert high == pytest.approx(stats.beta.isf(risk, k + 1, n - k) if k < n else 1.0, rel=1e-9)
    assert 0 <= low <= k / n <= high <= 1 or risk > 0.4


@pytest.mark.parametrize(("k", "n"), [(1, 10), (7, 10), (10, 10), (990, 1000), (3, 5000)])
def test_clopper_pearson_solves_its_defining_equation(k: int, n: int) -> None:
    """The lower bound is the p at which k or more successes have probability ``risk``, found here by bisection."""
    slow = optimize.brentq(lambda p: stats.binom.sf(k - 1, n, p) - 0.001, 1e-12, 1 - 1e-15, xtol=1e-14)
    assert clopper_pearson.lower(k, n, 0.001) == pytest.approx(slow, rel=1e-9)
    assert clopper_pearson.upper(n - k, n, 0.001) == pytest.approx(1 - slow, rel=1e-9, abs=1e-13)


def test_clopper_pearson_of_all_successes_is_the_ceiling() -> None:
    assert clopper_pearson.lower(10**5, 10**5, 0.001) == pytest.approx(0.001 ** (1 / 10**5), rel=1e-12)
    assert stats.norm.ppf(clopper_pearson.lower(10**5, 10**5, 0.001)) == pytest.approx(3.812, abs=1e-3)


@given(st.floats(0, 1), sizes, risks, masses)
def test_hoeffding_is_its_formula(share: float, n: int, risk: float, mass: float) -> None:
    mean = share * mass
    width = mass * np.sqrt(np.log(1 / risk) / (2 * n))
    assert hoeffding.lower(mean, n, risk, mass=mass) == pytest.approx(max(mean - width, 0))
    assert hoeffding.upper(mean, n, risk, mass=mass) == pytest.approx(min(mean + width, mass))


@given(st.lists(st.floats(0, 1), min_size=2, max_size=50), risks, masses)
def test_bernstein_is_its_formula_on_samples(values: list[float], risk: float, mass: float) -> None:
    samples = mass * np.array(values)
    n, mean = len(samples), samples.mean()
    pairs = sum((a - b) ** 2 for i, a in enumerate(samples) for b in samples[:i]) / (n * (n - 1))
    width = np.sqrt(2 * pairs * np.log(2 / risk) / n) + mass * 7 * np.log(2 / risk) / (3 * (n - 1))
    low = bernstein.lower(min(mean, mass), samples.var(ddof=1), n, risk, mass=mass)
    assert low == pytest.approx(max(mean - width, 0), abs=1e-12)
    high = bernstein.upper(min(mean, mass), samples.var(ddof=1), n, risk, mass=mass)
    assert high == pytest.approx(min(mean + width, mass), abs=1e-12)


@given(st.data(), sizes, risks, risks)
def test_more_risk_gives_tighter_bounds(data: st.DataObject, n: int, one: float, other: float) -> None:
    small, large = sorted((one, other))
    k = data.draw(st.integers(0, n))
    mean, variance = k / n, k * (n - k) / (n * (n - 1))
    assert clopper_pearson.lower(k, n, small) <= clopper_pearson.lower(k, n, large) + 1e-12
    assert clopper_pearson.upper(k, n, small) >= clopper_pearson.upper(k, n, large) - 1e-12
    assert hoeffding.lower(mean, n, small) <= hoeffding.lower(mean, n, large)
    assert hoeffding.upper(mean, n, small) >= hoeffding.upper(mean, n, large)
    assert bernstein.lower(mean, variance, n, small) <= bernstein.lower(mean, variance, n, large)
    assert bernstein.upper(mean, variance, n, small) >= bernstein.upper(mean, variance, n, large)


@given(st.data(), st.integers(3, 10**5), risks)
def test_larger_data_give_larger_bounds(data: st.DataObject, n: int, risk: float) -> None:
    less, more = sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n))))
    for side in ("lower", "upper"):
        assert getattr(clopper_pearson, side)(less, n, risk) <= getattr(clopper_pearson, side)(more, n, risk) + 1e-12
        assert getattr(hoeffding, side)(less / n, n, risk) <= getattr(hoeffding, side)(more / n, n, risk)
        at = [getattr(bernstein, side)(k / n, 0.0, n, risk) for k in (less, more)]
        assert at[0] <= at[1]


@given(st.data(), st.integers(2, 10**5), risks, masses)
def test_upper_is_the_mirror_of_lower(data: st.DataObject, n: int, risk: float, mass: float) -> None:
    k = data.draw(st.integers(0, n))
    mean = k / n * mass
    variance = mean * (mass - mean) * n / (n - 1)
    mirror = mass - mean
    assert clopper_pearson.upper(k, n, risk, mass=mass) == pytest.approx(
        mass - clopper_pearson.lower(n - k, n, risk, mass=mass), rel=1e-9, abs=1e-9
    )
    assert hoeffding.upper(mean, n, risk, mass=mass) == pytest.approx(
        mass - hoeffding.lower(mirror, n, risk, mass=mass)
    )
    assert bernstein.upper(mean, variance, n, risk, mass=mass) == pytest.approx(
        mass - bernstein.lower(mirror, variance, n, risk, mass=mass), abs=1e-9
    )


def test_statistics_come_straight_from_moments() -> None:
    scores = random_logits(500, 7).sigmoid()
    moments = Moments.of(scores)
    bounds = bernstein.lower(moments.mean, moments.variance, moments.count, 0.01)
    assert bounds.shape == (7,)
    assert (bounds < scores.mean(dim=0).numpy()).all()


def test_bounds_broadcast() -> None:
    assert clopper_pearson.lower([5, 9], 10, [[0.1], [0.01]]).shape == (2, 2)
    assert hoeffding.upper([0.1, 0.2], 10, [[0.1], [0.01]]).shape == (2, 2)
    assert bernstein.upper([0.1, 0.2], 0.01, 10, [[0.1], [0.01]]).shape == (2, 2)


def test_variance_that_the_mean_forbids_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="variance must be that of samples in"):
        bernstein.lower(0.99, 0.25, 100, 0.01)
