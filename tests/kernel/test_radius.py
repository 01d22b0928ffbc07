from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from lvmrs.kernel import lipschitz, radius
from lvmrs.kernel import radius as gaussian_ramp
from lvmrs.kernel.radius import Level
from tests.oracles import exact_ramp_pairwise, exact_ramp_per_class

FAR_TAIL = 1e-10
probabilities = st.one_of(
    st.floats(FAR_TAIL, 1 - FAR_TAIL),
    st.floats(-10, -0.3).map(lambda x: 10**x),
    st.floats(-10, -0.3).map(lambda x: 1 - 10**x),
)
sigmas = st.floats(-2, 1).map(lambda x: 10**x)
slopes = st.floats(-3, 6).map(lambda x: 10**x)


@st.composite
def bound_pairs(draw: st.DrawFn) -> tuple[float, float]:
    """p_a > p_b within the range of the promise, often very close to each other."""
    p_a, p_b = draw(probabilities), draw(probabilities)
    if draw(st.booleans()):
        p_b = p_a * (1 - 10 ** draw(st.floats(-14, -0.5)))
    p_a, p_b = max(p_a, p_b), max(min(p_a, p_b), FAR_TAIL)
    return (p_a, p_b) if p_a > p_b else (0.75, 0.25)


def relative_error(value: float, exact: mpmath.mpf) -> float:
    return float(abs(mpmath.mpf(float(value)) / exact - 1))


@settings(max_examples=100, deadline=None)
@given(bound_pairs(), sigmas, slopes)
def test_both_ramp_radii_are_exact_to_1e8(pair: tuple[float, float], sigma: float, slope: float) -> None:
    per_class = radius.ramp_per_class(*pair, sigma=sigma, class_lipschitz=slope)
    assert relative_error(float(per_class), exact_ramp_per_class(*pair, sigma, slope)) < 1e-8
    pairwise = radius.ramp_pairwise(*pair, sigma=sigma, lipschitz=slope)
    assert relative_error(float(pairwise), exact_ramp_pairwise(*pair, sigma, slope)) < 1e-8


CORNERS = [FAR_TAIL, 0.02, 0.5 - 1e-9, 0.5, 0.5 + 1e-12, 0.9, 1 - FAR_TAIL]


@pytest.mark.parametrize("sigma", [0.01, 0.25, pytest.param(10.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("slope", [1e-3, 0.7, 1e2, 1e6, np.inf])
def test_ramp_radii_at_the_corners_of_the_range(sigma: float, slope: float) -> None:
    pairs = [(a, b) for a in CORNERS for b in CORNERS if a > b]
    p_a, p_b = np.array(pairs).T
    per_class = radius.ramp_per_class(p_a, p_b, sigma=sigma, class_lipschitz=slope)
    pairwise = radius.ramp_pairwise(p_a, p_b, sigma=sigma, lipschitz=slope)
    for i, (a, b) in enumerate(pairs):
        assert relative_error(per_class[i], exact_ramp_per_class(a, b, sigma, slope)) < 1e-8
        assert relative_error(pairwise[i], exact_ramp_pairwise(a, b, sigma, slope)) < 1e-8


@settings(max_examples=100, deadline=None)
@given(bound_pairs(), sigmas)
def test_r2_and_r3_are_exact_to_1e8(pair: tuple[float, float], sigma: float) -> None:
    assert relative_error(float(radius.r2(*pair, sigma=sigma)), exact_ramp_per_class(*pair, sigma, np.inf)) < 1e-8
    if pair[0] > 0.5:
        with mpmath.workdps(60):
            exact = mpmath.mpf(sigma) * mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(pair[0]) - 1)
        assert relative_error(float(radius.r3(pair[0], sigma=sigma)), exact) < 1e-8


@given(bound_pairs(), sigmas, slopes)
def test_ramp_dominates_every_other_radius(pair: tuple[float, float], sigma: float, slope: float) -> None:
    ramp = radius.ramp(*pair, sigma=sigma, lipschitz=slope)
    with_noise = lipschitz.smoothed(slope, sigma=sigma, of="vector")
    others = [
        radius.r1(*pair, lipschitz=with_noise),
        radius.r1(*pair, lipschitz=slope),
        radius.r2(*pair, sigma=sigma),
    ]
    assert ramp >= max(others) * (1 - 1e-9)
    if sum(pair) <= 1:
        assert ramp >= radius.r3(pair[0], sigma=sigma) * (1 - 1e-9)


def test_ramp_meets_the_others_in_the_limits() -> None:
    p_a, p_b = np.array([0.6, 0.99, 0.3]), np.array([0.3, 0.005, 0.29])
    noise = radius.r2(p_a, p_b, sigma=0.5)
    np.testing.assert_array_equal(radius.ramp(p_a, p_b, sigma=0.5, lipschitz=np.inf), noise)
    np.testing.assert_allclose(radius.ramp(p_a, p_b, sigma=0.5, lipschitz=1e5), noise, rtol=1e-8)
    deterministic = radius.r1(p_a, p_b, lipschitz=2.0)
    np.testing.assert_allclose(radius.ramp(p_a, p_b, sigma=1e-5, lipschitz=2.0), deterministic, rtol=1e-8)


def test_the_worked_example() -> None:
    pair = {"p_a": 0.99, "p_b": 0.005}
    assert radius.r1(**pair, lipschitz=1.0) == pytest.approx(0.697, abs=5e-4)
    assert radius.r1(**pair, lipschitz=lipschitz.smoothed(1.0, sigma=0.25, of="vector")) == pytest.approx(
        0.700, abs=5e-4
    )
    assert radius.r2(**pair, sigma=0.25) == pytest.approx(0.613, abs=5e-4)
    assert radius.ramp(**pair, sigma=0.25, lipschitz=1.0) == pytest.approx(1.040, abs=5e-4)


@settings(max_examples=40, deadline=None)
@given(bound_pairs(), sigmas, slopes, st.sampled_from([0.3, 0.5, 3.0, 7.7]))
def test_mass_divides_scores_and_constants(pair: tuple[float, float], sigma: float, slope: float, mass: float) -> None:
    p_a, p_b = pair[0] * mass, pair[1] * mass
    if p_a <= p_b:  # the product rounded the two together
        return
    per_class = radius.ramp_per_class(p_a, p_b, sigma=sigma, class_lipschitz=slope, mass=mass)
    assert relative_error(float(per_class), exact_ramp_per_class(p_a, p_b, sigma, slope, mass)) < 1e-8
    pairwise = radius.ramp_pairwise(p_a, p_b, sigma=sigma, lipschitz=slope, mass=mass)
    assert relative_error(float(pairwise), exact_ramp_pairwise(p_a, p_b, sigma, slope, mass)) < 1e-8
    assert radius.r1(p_a, p_b, lipschitz=slope, mass=mass) == pytest.approx((p_a - p_b) / np.sqrt(2) / slope, rel=1e-12)
    assert radius.r3(p_a, sigma=sigma, mass=mass) == pytest.approx(
        max(0.0, float(exact_ramp_per_class(p_a, mass / 2, sigma, np.inf, mass)) * 2), rel=1e-8, abs=1e-15
    )


@given(bound_pairs(), sigmas, slopes, st.floats(0.5, 1.0))
def test_a_smaller_class_constant_never_hurts(
    pair: tuple[float, float], sigma: float, slope: float, factor: float
) -> None:
    sharper = radius.ramp(*pair, sigma=sigma, lipschitz=slope, class_lipschitz=factor * slope)
    assert sharper >= radius.ramp(*pair, sigma=sigma, lipschitz=slope) * (1 - 1e-12)


@given(st.lists(probabilities, min_size=3, max_size=3), sigmas, slopes)
def test_radii_grow_with_p_a_and_fall_with_p_b(three: list[float], sigma: float, slope: float) -> None:
    low, middle, high = sorted(three)
    for name in ("ramp", "r2"):
        extra = {"lipschitz": slope} if name == "ramp" else {}
        measure = getattr(radius, name)
        assert measure(high, low, sigma=sigma, **extra) >= measure(middle, low, sigma=sigma, **extra) * (1 - 1e-12)
        assert measure(high, low, sigma=sigma, **extra) >= measure(high, middle, sigma=sigma, **extra) * (1 - 1e-12)


def test_nothing_is_certified_where_the_rival_leads() -> None:
    for p_a, p_b in ((0.3, 0.4), (0.5, 0.5), (0.0, 0.0), (1.0, 1.0), (0.0, 1.0)):
        assert radius.r1(p_a, p_b, lipschitz=1.0) == 0
        assert radius.r2(p_a, p_b, sigma=1.0) == 0
        assert radius.ramp(p_a, p_b, sigma=1.0, lipschitz=1.0) == 0
    assert radius.r3(0.5, sigma=1.0) == radius.r3(0.2, sigma=1.0) == 0


def test_certainty_is_an_infinite_radius() -> None:
    assert radius.r3(1.0, sigma=1.0) == radius.r2(1.0, 0.0, sigma=1.0) == np.inf
    assert radius.ramp(1.0, 0.0, sigma=1.0, lipschitz=3.0) == np.inf
    assert np.isfinite(radius.r1(1.0, 0.0, lipschitz=3.0))


def test_arguments_broadcast_and_scalars_stay_scalars() -> None:
    p_a, sigma = np.array([0.7, 0.8, 0.9]), np.array([[0.1], [0.5]])
    table = radius.ramp(p_a, 0.1, sigma=sigma, lipschitz=2.0)
    assert table.shape == (2, 3)
    assert table[1, 2] == radius.ramp(0.9, 0.1, sigma=0.5, lipschitz=2.0)
    assert np.ndim(radius.r2(0.9, 0.1, sigma=0.5)) == 0
    assert radius.r2(p_a, 0.1, sigma=sigma).shape == radius.r3(p_a, sigma=sigma).shape == (2, 3)


def test_tensors_of_either_precision_are_taken() -> None:
    p_a = torch.tensor([0.75, 0.9375], dtype=torch.float32, requires_grad=True)
    expected = radius.r2(np.array([0.75, 0.9375]), 0.125, sigma=0.5)
    np.testing.assert_array_equal(radius.r2(p_a, torch.tensor(0.125, dtype=torch.float64), sigma=0.5), expected)


@pytest.mark.parametrize(("sigma", "slope", "p"), [(0.5, 1.0, 0.8), (1.0, 4.0, 0.3), (0.25, 0.5, 0.95)])
@pytest.mark.parametrize("move", [0.1, 0.7])
def test_no_lipschitz_function_falls_faster_than_the_ramp(sigma: float, slope: float, p: float, move: float) -> None:
    """A linear program over all discretised 1-D functions finds the same worst case as the ramp does."""
    grid = np.linspace(-8 * sigma - 1, 8 * sigma + 1, 601)
    step = grid[1] - grid[0]
    here = stats.norm.pdf(grid, scale=sigma) * step
    there = stats.norm.pdf(grid, loc=-move, scale=sigma) * step
    steps = np.eye(601, k=1)[:-1] - np.eye(601)[:-1]
    worst = optimize.linprog(
        there / there.sum(),
        A_ub=np.vstack([steps, -steps]),
        b_ub=np.full(1200, slope * step),
        A_eq=(here / here.sum())[None],
        b_eq=[p],
        bounds=(0, 1),
    ).fun
    width = 1 / (slope * sigma)
    centre = gaussian_ramp.centre(Level(np.array(p), np.array(1 - p), np.array(0.5 - p)), np.array(width))
    tail = float(_mean_of_ramp(float(centre) + move / sigma, width))
    assert worst == pytest.approx(tail, abs=2e-4)


def _mean_of_ramp(centre: float, width: float) -> float:
    window = np.linspace(centre - width / 2, centre + width / 2, 20001)
    return float(np.trapezoid(stats.norm.sf(window), window) / width)


@pytest.mark.parametrize(("sigma", "slope"), [(0.5, 1.0), (0.25, 3.0), (1.0, 0.6)])
def test_the_bound_is_attained_by_a_ramp_classifier(sigma: float, slope: float) -> None:
    """Two classes on a line, scores a ramp and its mirror: the sampled answer turns exactly at the certified radius."""
    random = np.random.default_rng(7)
    noise = sigma * random.standard_normal(400_000)

    def scores(x: float) -> tuple[float, float]:
        ramp = np.clip(0.5 + slope * (x + noise), 0.0, 1.0)
        return float(ramp.mean()), float(1 - ramp.mean())

    at = 0.6 * sigma  # the smoothed classifier turns at 0, so the true radius is 0.6 σ
    p_a, p_b = scores(at)
    certified = float(radius.ramp(p_a, p_b, sigma=sigma, lipschitz=np.sqrt(2) * slope, class_lipschitz=slope))
    assert certified == pytest.approx(at, rel=0.01)
    a, b = scores(at - 0.97 * certified)
    assert a > b
    a, b = scores(at - 1.03 * certified)
    assert a < b


@given(st.floats(0, 1e6), st.integers(0, 8))
def test_printed_radii_are_never_rounded_up(value: float, digits: int) -> None:
    shown = radius.text(value, digits)
    assert Fraction(shown) <= Fraction(value) < Fraction(shown) + Fraction(1, 10**digits)
    assert len(shown.partition(".")[2]) == digits


def test_printed_radii_of_no_number() -> None:
    assert radius.text(np.inf) == "inf"
    assert radius.text(0.3811999) == "0.3811"
