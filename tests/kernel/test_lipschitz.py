from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import lipschitz, maps
from tests.oracles import Floats

constants = st.floats(-3, 3).map(lambda x: 10**x)
kinds = st.sampled_from(["class", "vector"])


def steepest_slope(function: Callable[[Floats], Floats], sigma: float) -> float:
    """Largest slope of x ↦ E h(x + δ) on a line near 0: the noise summed on a dense grid, then differences."""
    noise = np.linspace(-8, 8, 4001)
    weights = stats.norm.pdf(noise) / stats.norm.pdf(noise).sum()
    at = np.linspace(-0.2, 0.2, 41) * sigma
    values = np.stack([function(x + sigma * noise) @ weights for x in at])
    return float(np.linalg.norm(np.diff(values, axis=0), axis=1).max() / (at[1] - at[0]))


@pytest.mark.parametrize(
    ("slope", "sigma", "mass"), [(1.0, 0.25, 1.0), (4.0, 0.5, 1.0), (2.0, 1.0, 3.0), (0.5, 0.1, 0.4)]
)
def test_smoothed_class_constant_is_the_slope_of_the_smoothed_ramp(slope: float, sigma: float, mass: float) -> None:
    """The bound is attained: the steepest smoothed score of that constant and range is a ramp through its middle."""
    half = mass / (2 * slope)
    attained = slope * integrate.quad(lambda x: stats.norm.pdf(x, scale=sigma), -half, half)[0]
    assert lipschitz.smoothed(slope, sigma=sigma, of="class", mass=mass) == pytest.approx(attained, rel=1e-9)


@pytest.mark.parametrize("slope", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("sigma", [0.3, 1.0])
def test_smoothed_vector_constant_bounds_two_opposed_ramps(slope: float, sigma: float) -> None:
    """h = (ramp, 1 − ramp) moves √2 times as fast as its parts; it attains the bound of the vector."""
    one = slope / np.sqrt(2)

    def pair(x: Floats) -> Floats:
        ramp = np.clip(0.5 + one * x, 0, 1)
        return np.stack([ramp, 1 - ramp])

    bound = float(lipschitz.smoothed(slope, sigma=sigma, of="vector"))
    assert 0.999 * bound <= steepest_slope(pair, sigma) <= bound * (1 + 1e-6)


@given(constants, constants, constants, kinds)
def test_erf_bounds_stay_below_their_simple_limits(slope: float, sigma: float, mass: float, of: lipschitz.Kind) -> None:
    sharp = lipschitz.smoothed(slope, sigma=sigma, of=of, mass=mass)
    assert 0 < sharp <= lipschitz.smoothed_limit(slope, sigma=sigma, of=of, mass=mass) * (1 + 1e-14)


@given(constants, constants, kinds)
def test_limits_of_no_noise_and_no_constant(sigma: float, mass: float, of: lipschitz.Kind) -> None:
    noise_alone = lipschitz.smoothed(np.inf, sigma=sigma, of=of, mass=mass)
    factor = np.sqrt(2 * np.pi) if of == "class" else np.sqrt(np.pi)
    assert noise_alone == pytest.approx(mass / (factor * sigma), rel=1e-12)
    assert lipschitz.smoothed(1e12, sigma=sigma, of=of, mass=mass) == pytest.approx(noise_alone, rel=1e-9)
    assert lipschitz.smoothed(1e-9, sigma=sigma, of=of, mass=mass) == pytest.approx(1e-9, rel=1e-9)


@given(constants, constants, kinds)
def test_optimal_sigma_is_where_both_limits_meet(slope: float, mass: float, of: lipschitz.Kind) -> None:
    sigma = lipschitz.optimal_sigma(slope, of=of, mass=mass)
    sharp = lipschitz.smoothed(slope, sigma=sigma, of=of, mass=mass)
    assert sharp == pytest.approx(special.erf(np.sqrt(np.pi) / 2) * slope, rel=1e-12)

    def gain(s: float) -> float:
        """How far the bound with both lies below the better of noise alone and constant alone."""
        limit = lipschitz.smoothed_limit(slope, sigma=s, of=of, mass=mass)
        return float(limit - lipschitz.smoothed(slope, sigma=s, of=of, mass=mass)) / slope

    assert gain(float(sigma)) >= max(gain(1.05 * float(sigma)), gain(0.95 * float(sigma)))


def test_vector_bound_has_the_factor_of_the_theorem() -> None:
    assert lipschitz.smoothed(2.0, sigma=0.5, of="vector") == pytest.approx(2 * special.erf(1 / 2.0))
    assert lipschitz.smoothed(2.0, sigma=0.5, of="class") == pytest.approx(2 * special.erf(1 / (2 * np.sqrt(2))))


def test_constants_of_the_maps() -> None:
    assert maps.Softmax.constants(3.0, temperature=2.0, mass=5.0).vector == pytest.approx(0.5 * 5 * 3 / 2)
    assert maps.Softmax.constants(3.0).one == pytest.approx(3 * np.sqrt(2) / 4)
    assert maps.Sparsemax.constants(3.0, temperature=0.5, mass=5.0).one == 6
    assert maps.Sparsemax.constants(3.0, temperature=0.5).vector == 6
    assert maps.Hardmax.constants(3.0).vector == np.inf


@given(st.floats(0.01, 0.99), st.floats(0.05, 5), st.floats(0, 2), st.floats(0.1, 2), st.floats(0.01, 2))
def test_local_quantile_is_the_largest_over_the_interval(
    share: float, mass: float, epsilon: float, sigma: float, slope: float
) -> None:
    p = share * mass
    bound = float(lipschitz.local_quantile(p, epsilon=epsilon, sigma=sigma, lipschitz=slope, mass=mass))
    low, high = max(p - epsilon * slope, 1e-9 * mass), min(p + epsilon * slope, mass)
    q = np.linspace(low, min(high, mass * (1 - 1e-12)), 400)
    q = q[(q > 0) & (q < 1)]
    if len(q) == 0 or (mass > 1 and high >= 1):
        assert bound == np.inf
        return
    slow = mass / sigma * np.exp(-0.5 * (special.ndtri(q / mass) ** 2 - special.ndtri(q) ** 2))
    assert bound >= slow.max() * (1 - 1e-9)
    if low > 1e-9 * mass and high < mass:
        assert bound == pytest.approx(slow.max(), rel=1e-9)


def test_local_quantile_of_unit_mass_is_one_over_sigma() -> None:
    assert lipschitz.local_quantile([0.1, 0.5, 1.0], epsilon=3.0, sigma=0.25, lipschitz=np.inf).tolist() == [4, 4, 4]


def test_local_quantile_bounds_a_smoothed_step_of_smaller_mass() -> None:
    """r·1[x > 0] smoothed has Φ⁻¹ slopes that the bound at the same point, on a tiny ball, attains."""
    sigma, mass, x = 0.5, 0.6, 0.2
    p = mass * stats.norm.cdf(x / sigma)
    slope = mass * stats.norm.pdf(x, scale=sigma) / stats.norm.pdf(special.ndtri(p))
    bound = lipschitz.local_quantile(p, epsilon=1e-9, sigma=sigma, lipschitz=1.0, mass=mass)
    assert bound == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("of", ["component", None])
def test_unknown_kind_is_named(of: object) -> None:
    with pytest.raises(InvalidArgumentError, match="of must be one of class, vector, got"):
        lipschitz.smoothed(1.0, sigma=1.0, of=of)  # type: ignore[arg-type]
