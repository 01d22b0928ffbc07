"""Moments of the scores at many temperatures from one pass over the logits."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import maps
from lvmrs.kernel.bounds import bernstein, betting
from lvmrs.planners import search
from lvmrs.registry import simplex_map
from tests.oracles import random_logits

MAPS = {"hardmax": maps.hardmax, "softmax": maps.softmax, "sparsemax": maps.sparsemax}
NAMES: list[str] = ["hardmax", "softmax", "sparsemax"]

GRID = np.geomspace(0.01, 50, 50)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize(("n", "c"), [(400, 10), (30, 1000), (2, 2), (1, 5)])
def test_sweep_is_one_map_after_another(name: str, dtype: torch.dtype, tolerance: float, n: int, c: int) -> None:
    z = random_logits(n, c, dtype=dtype)
    moments = search.sweep(simplex_map(name), z, GRID, mass=1.5)
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
    moments = search.sweep(simplex_map(name), z, ts)
    for i, t in enumerate(ts):
        p = MAPS[name](z, temperature=t)
        np.testing.assert_allclose(moments.mean[i], p.mean(dim=0), atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_sweeps_of_parts_add_up_whatever_the_chunks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    z = random_logits(500, 10)
    whole = search.sweep(simplex_map(name), z, GRID)
    parts = search.sweep(simplex_map(name), z[:123], GRID) + search.sweep(simplex_map(name), z[123:], GRID)
    monkeypatch.setattr(search, "_CHUNK", 170)
    chunked = search.sweep(simplex_map(name), z, GRID)
    for other in (parts, chunked):
        np.testing.assert_allclose(other.mean, whole.mean, rtol=0, atol=1e-14)
        np.testing.assert_allclose(other.variance, whole.variance, rtol=0, atol=1e-14)


def test_sweep_takes_leading_dimensions() -> None:
    z = random_logits(60, 4).reshape(2, 3, 10, 4)
    moments = search.sweep(simplex_map("sparsemax"), z, GRID)
    assert moments.mean.shape == (2, 3, 50, 4)
    alone = search.sweep(simplex_map("sparsemax"), z[1, 2], GRID)
    np.testing.assert_allclose(moments.mean[1, 2], alone.mean, atol=1e-15)
    np.testing.assert_allclose(moments.variance[1, 2], alone.variance, atol=1e-15)


SIZES = [2, 10, 1000]
NUMBERS = 1_000_000
# Each sweep in a fork, whose peak begins with what it has then; so torch is imported once.
PEAKS = f"""
import os, re, torch, numpy as np
from pathlib import Path
torch.set_num_threads(1)
from lvmrs.planners import search
from lvmrs.registry import simplex_map
def peak():  # not getrusage, which begins with the memory of the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
for c in {SIZES}:
    for name in {NAMES}:
        if not os.fork():
            z = torch.randn({NUMBERS} // c, c)
            search.sweep(simplex_map(name), z[:100], [1.0, 2.0])
            before = peak()
            search.sweep(simplex_map(name), z, np.geomspace(0.01, 50, 100))
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
        moments = search.sweep(simplex_map("sparsemax"), z, GRID, mass=mass)
        assert (bernstein.lower(moments.mean, moments.variance, 200, 0.01, mass=mass) <= mass).all()
        scores = maps.sparsemax(z, temperature=0.3, mass=mass)
        assert (betting.lower(scores.T, 0.01, mass=mass) <= mass).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_sweep_is_on_the_device_of_the_logits(name: str) -> None:
    """With another default device, anything made without saying where would clash with the logits."""
    z = random_logits(8, 3)
    torch.set_default_device("meta")
    try:
        assert search.sweep(simplex_map(name), z, [0.1, 1.0]).mean.device.type == "cpu"
    finally:
        torch.set_default_device(None)


def test_unknown_map_is_named() -> None:
    with pytest.raises(InvalidArgumentError, match=r"map must be one of hardmax, .*, got 'maxout'"):
        search.sweep(simplex_map("maxout"), random_logits(3, 3), [1.0])
