import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import maps as sweeping
from lvmrs.kernel.bounds import bernstein, betting
from lvmrs.planners import simplex
from tests.oracles import random_logits, softmax_by_definition, sparsemax_by_bisection

MAPS = {"hardmax": simplex.hardmax, "softmax": simplex.softmax, "sparsemax": simplex.sparsemax}
NAMES: list[str] = ["hardmax", "softmax", "sparsemax"]

logits = arrays(np.float64, st.integers(1, 12), elements=st.floats(-50, 50, width=32)).map(torch.from_numpy)
temperatures = st.floats(0.01, 50)
masses = st.floats(0.05, 20)


@given(logits, temperatures, masses)
def test_sparsemax_is_the_projection_found_by_bisection(z: torch.Tensor, t: float, r: float) -> None:
    expected = [float(p) for p in sparsemax_by_bisection(z.tolist(), t, r)]
    np.testing.assert_allclose(simplex.sparsemax(z, temperature=t, mass=r), expected, rtol=1e-9, atol=1e-10 * r / t)


@given(logits, temperatures, masses)
def test_softmax_is_its_definition(z: torch.Tensor, t: float, r: float) -> None:
    expected = [float(p) for p in softmax_by_definition(z.tolist(), t, r)]
    np.testing.assert_allclose(simplex.softmax(z, temperature=t, mass=r), expected, rtol=1e-9, atol=1e-30)


@given(logits, masses)
def test_hardmax_puts_all_mass_on_the_first_largest(z: torch.Tensor, r: float) -> None:
    p = simplex.hardmax(z, mass=r)
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
    scaled = r * simplex.sparsemax(z / r, temperature=t)
    np.testing.assert_allclose(simplex.sparsemax(z, temperature=t, mass=r), scaled, rtol=1e-8, atol=1e-9 * r)


@given(data=st.data(), t=temperatures, r=masses)
def test_maps_are_as_lipschitz_as_said(data: st.DataObject, t: float, r: float) -> None:
    pair = data.draw(arrays(np.float64, (2, data.draw(st.integers(2, 8))), elements=st.floats(-20, 20)))
    a, b = torch.from_numpy(pair)
    distance = float((a - b).norm())
    soft = simplex.softmax(a, temperature=t, mass=r) - simplex.softmax(b, temperature=t, mass=r)
    sparse = simplex.sparsemax(a, temperature=t, mass=r) - simplex.sparsemax(b, temperature=t, mass=r)
    slack = 1 + 1e-9, 1e-12 * r + 1e-10 / t
    assert float(sparse.norm()) <= distance / t * slack[0] + slack[1]
    assert float(soft.norm()) <= 0.5 * r * distance / t * slack[0] + slack[1]
    assert float(soft.abs().max()) <= math.sqrt(2) / 4 * r * distance / t * slack[0] + slack[1]


def test_small_temperature_is_hardmax_and_large_temperature_is_uniform_or_affine() -> None:
    z = random_logits(20, 7)
    for name in ("softmax", "sparsemax"):
        np.testing.assert_allclose(MAPS[name](z, temperature=1e-6), simplex.hardmax(z), atol=1e-12)
    np.testing.assert_allclose(simplex.softmax(z, temperature=1e9), torch.full_like(z, 1 / 7), atol=1e-8)
    affine = z / 1e3 - (z / 1e3).mean(dim=-1, keepdim=True) + 1 / 7
    np.testing.assert_allclose(simplex.sparsemax(z, temperature=1e3), affine, atol=1e-12)


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
    p = simplex.sparsemax(z)
    assert p.dtype == torch.float32
    assert torch.equal(p, simplex.sparsemax(z.float()))


def test_gradients_flow_through_the_soft_maps() -> None:
    z = random_logits(3, 6).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: simplex.softmax(x, temperature=0.8), (z,))
    assert torch.autograd.gradcheck(lambda x: simplex.sparsemax(x, temperature=2.0), (z,))


GRID = np.geomspace(0.01, 50, 50)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize(("n", "c"), [(400, 10), (30, 1000), (2, 2), (1, 5)])
def test_sweep_is_one_map_after_another(name: str, dtype: torch.dtype, tolerance: float, n: int, c: int) -> None:
    z = random_logits(n, c, dtype=dtype)
    moments = simplex.sweep(z, GRID, map=name, mass=1.5)
    assert moments.count == n
    assert moments.mean.dtype == moments.squares.dtype == torch.float64
    assert moments.mean.shape == (50, c)
    for i, t in enumerate(GRID):
        p = MAPS[name](z, temperature=float(t), mass=1.5).double()
        np.testing.assert_allclose(moments.mean[i], p.mean(dim=0), rtol=0, atol=tolerance)
        squares = (p - p.mean(dim=0)).square().sum(dim=0)
        np.testing.assert_allclose(moments.squares[i], squares, rtol=0, atol=tolerance * n)


@settings(max_examples=30)
@given(data=st.data(), name=st.sampled_from(NAMES))
def test_sweep_of_any_logits_and_temperatures(data: st.DataObject, name: str) -> None:
    shape = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 6)))
    z = torch.from_numpy(data.draw(arrays(np.float64, shape, elements=st.floats(-1e3, 1e3))))
    ts = data.draw(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=4))
    moments = simplex.sweep(z, ts, map=name)
    for i, t in enumerate(ts):
        p = MAPS[name](z, temperature=t)
        np.testing.assert_allclose(moments.mean[i], p.mean(dim=0), atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_sweeps_of_parts_add_up_whatever_the_chunks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    z = random_logits(500, 10)
    whole = simplex.sweep(z, GRID, map=name)
    parts = simplex.sweep(z[:123], GRID, map=name) + simplex.sweep(z[123:], GRID, map=name)
    monkeypatch.setattr(sweeping, "_CHUNK", 170)
    chunked = simplex.sweep(z, GRID, map=name)
    for other in (parts, chunked):
        np.testing.assert_allclose(other.mean, whole.mean, rtol=0, atol=1e-14)
        np.testing.assert_allclose(other.variance, whole.variance, rtol=0, atol=1e-14)


def test_sweep_takes_leading_dimensions() -> None:
    z = random_logits(60, 4).reshape(2, 3, 10, 4)
    moments = simplex.sweep(z, GRID, map="sparsemax")
    assert moments.mean.shape == (2, 3, 50, 4)
    alone = simplex.sweep(z[1, 2], GRID, map="sparsemax")
    np.testing.assert_allclose(moments.mean[1, 2], alone.mean, atol=1e-15)
    np.testing.assert_allclose(moments.variance[1, 2], alone.variance, atol=1e-15)


SIZES = [2, 10, 1000]
NUMBERS = 1_000_000
# Each sweep in a fork, whose peak begins with what it has then; so torch is imported once.
PEAKS = f"""
import os, re, torch, numpy as np
from pathlib import Path
torch.set_num_threads(1)
from lvmrs.planners import simplex
def peak():  # not getrusage, which begins with the memory of the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
for c in {SIZES}:
    for name in {NAMES}:
        if not os.fork():
            z = torch.randn({NUMBERS} // c, c)
            simplex.sweep(z[:100], [1.0, 2.0], map=name)
            before = peak()
            simplex.sweep(z, np.geomspace(0.01, 50, 100), map=name)
            print(name, c, peak() - before, flush=True)
            os._exit(0)
        assert os.wait()[1] == 0
"""


def test_sweep_does_not_hold_all_temperatures_at_once() -> None:
    """The memory of a process that sweeps 100 temperatures grows by a part of T × n × c numbers."""
    done = subprocess.run([sys.executable, "-c", PEAKS], capture_output=True, text=True, check=True)  # noqa: S603
    kilobytes = {tuple(line.split()[:2]): int(line.split()[2]) for line in done.stdout.splitlines()}
    assert kilobytes.keys() == {(name, str(c)) for name in NAMES for c in SIZES}
    everything = 100 * NUMBERS * 4 / 1024
    assert max(kilobytes.values()) < everything / 4, kilobytes


def test_map_results_go_straight_into_the_bounds() -> None:
    """Rounding may carry a score an ulp above its mass; the bounds take that."""
    z = random_logits(200, 5, scale=20.0, dtype=torch.float32)
    for mass in (0.7, 1.0, 1.5):
        moments = simplex.sweep(z, GRID, map="sparsemax", mass=mass)
        assert (bernstein.lower(moments.mean, moments.variance, 200, 0.01, mass=mass) <= mass).all()
        scores = simplex.sparsemax(z, temperature=0.3, mass=mass)
        assert (betting.lower(scores.T, 0.01, mass=mass) <= mass).all()


@pytest.mark.parametrize("name", NAMES)
def test_tensors_are_made_on_the_device_of_the_logits(name: str) -> None:
    """With another default device, anything made without saying where would clash with the logits."""
    z = random_logits(8, 3)
    torch.set_default_device("meta")
    try:
        assert MAPS[name](z).device.type == "cpu"
        assert simplex.sweep(z, [0.1, 1.0], map=name).mean.device.type == "cpu"
    finally:
        torch.set_default_device(None)


def test_unknown_map_is_named() -> None:
    with pytest.raises(InvalidArgumentError, match=r"map must be one of hardmax, .*, got 'maxout'"):
        simplex.sweep(random_logits(3, 3), [1.0], map="maxout")
