import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lvmrs.kernel import maps
from tests.oracles import random_logits, softmax_by_definition, sparsemax_by_bisection

MAPS = {"hardmax": maps.hardmax, "softmax": maps.softmax, "sparsemax": maps.sparsemax}
NAMES: list[str] = ["hardmax", "softmax", "sparsemax"]

logits = arrays(np.float64, st.integers(1, 12), elements=st.floats(-50, 50, width=32)).map(torch.from_numpy)
temperatures = st.floats(0.01, 50)
masses = st.floats(0.05, 20)


@given(logits, temperatures, masses)
def test_sparsemax_is_the_projection_found_by_bisection(z: torch.Tensor, t: float, r: float) -> None:
    expected = [float(p) for p in sparsemax_by_bisection(z.tolist(), t, r)]
    np.testing.assert_allclose(maps.sparsemax(z, temperature=t, mass=r), expected, rtol=1e-9, atol=1e-10 * r / t)


@given(logits, temperatures, masses)
def test_softmax_is_its_definition(z: torch.Tensor, t: float, r: float) -> None:
    expected = [float(p) for p in softmax_by_definition(z.tolist(), t, r)]
    np.testing.assert_allclose(maps.softmax(z, temperature=t, mass=r), expected, rtol=1e-9, atol=1e-30)


@given(logits, masses)
def test_hardmax_puts_all_mass_on_the_first_largest(z: torch.Tensor, r: float) -> None:
    p = maps.hardmax(z, mass=r)
    assert p[z.tolist().index(max(z.tolist()))] == r
    assert (p != 0).sum() == 1


@pytest.mark.parametrize("name", NAMES)
@given(z=logits, t=temperatures, r=masses)
def test_results_lie_in_the_simplex(name: str, z: torch.Tensor, t: float, r: float) -> None:
    p = MAPS[name](z, temperature=t, mass=r)
    assert (p >= 0).all()
    assert float(p.sum()) == pytest.approx(r, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
@given(z=logits, t=temperatures, shift=st.floats(-100, 100))
def test_adding_a_constant_changes_nothing(name: str, z: torch.Tensor, t: float, shift: float) -> None:
    z = z.round(decimals=3)
    np.testing.assert_allclose(
        MAPS[name]((z + shift).round(decimals=3), temperature=t),
        MAPS[name]((z + shift).round(decimals=3) + 64.0, temperature=t),
        atol=1e-9,
    )


@given(z=logits, t=temperatures, r=masses)
def test_mass_is_temperature_in_other_clothes(z: torch.Tensor, t: float, r: float) -> None:
    scaled = r * maps.sparsemax(z / r, temperature=t)
    np.testing.assert_allclose(maps.sparsemax(z, temperature=t, mass=r), scaled, rtol=1e-8, atol=1e-9 * r)


@given(data=st.data(), t=temperatures, r=masses)
def test_maps_are_as_lipschitz_as_said(data: st.DataObject, t: float, r: float) -> None:
    pair = data.draw(arrays(np.float64, (2, data.draw(st.integers(2, 8))), elements=st.floats(-20, 20)))
    a, b = torch.from_numpy(pair)
    distance = float((a - b).norm())
    soft = maps.softmax(a, temperature=t, mass=r) - maps.softmax(b, temperature=t, mass=r)
    sparse = maps.sparsemax(a, temperature=t, mass=r) - maps.sparsemax(b, temperature=t, mass=r)
    slack = 1 + 1e-9, 1e-12 * r + 1e-10 / t
    assert float(sparse.norm()) <= distance / t * slack[0] + slack[1]
    assert float(soft.norm()) <= 0.5 * r * distance / t * slack[0] + slack[1]
    assert float(soft.abs().max()) <= math.sqrt(2) / 4 * r * distance / t * slack[0] + slack[1]


def test_small_temperature_is_hardmax_and_large_temperature_is_uniform_or_affine() -> None:
    z = random_logits(20, 7)
    for name in ("softmax", "sparsemax"):
        np.testing.assert_allclose(MAPS[name](z, temperature=1e-6), maps.hardmax(z), atol=1e-12)
    np.testing.assert_allclose(maps.softmax(z, temperature=1e9), torch.full_like(z, 1 / 7), atol=1e-8)
    affine = z / 1e3 - (z / 1e3).mean(dim=-1, keepdim=True) + 1 / 7
    np.testing.assert_allclose(maps.sparsemax(z, temperature=1e3), affine, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_precision_shape_and_input_are_kept(name: str, dtype: torch.dtype) -> None:
    z = random_logits(6, 5, dtype=dtype).reshape(2, 3, 5)
    before = z.clone()
    p = MAPS[name](z, temperature=0.7, mass=2.0)
    assert p.dtype == dtype
    assert p.shape == z.shape
    assert torch.equal(z, before)
    np.testing.assert_allclose(p[1, 2], MAPS[name](z[1, 2], temperature=0.7, mass=2.0), rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_extreme_logits_and_temperatures_stay_finite(name: str) -> None:
    z = torch.tensor([3e38, -3e38, 0.0, -3e38], dtype=torch.float32)
    for t in (1e-30, 1.0, 1e30):
        p = MAPS[name](z, temperature=t)
        assert torch.isfinite(p).all()
        assert float(p.sum()) == pytest.approx(1.0, rel=1e-5)


def test_half_precision_is_mapped_in_single() -> None:
    z = random_logits(4, 50, dtype=torch.float16)
    p = maps.sparsemax(z)
    assert p.dtype == torch.float32
    assert torch.equal(p, maps.sparsemax(z.float()))


def test_gradients_flow_through_the_soft_maps() -> None:
    z = random_logits(3, 6).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: maps.softmax(x, temperature=0.8), (z,))
    assert torch.autograd.gradcheck(lambda x: maps.sparsemax(x, temperature=2.0), (z,))


@pytest.mark.parametrize("name", NAMES)
def test_tensors_are_made_on_the_device_of_the_logits(name: str) -> None:
    """With another default device, anything made without saying where would clash with the logits."""
    z = random_logits(8, 3)
    torch.set_default_device("meta")
    try:
        assert MAPS[name](z).device.type == "cpu"
    finally:
        torch.set_default_device(None)
