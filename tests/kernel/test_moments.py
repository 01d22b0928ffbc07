from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel.scores import Moments


def scores(n: int, seed: int = 0, *shape: int) -> torch.Tensor:
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(st.integers(0, 1000), st.lists(st.integers(0, 60), max_size=6), st.randoms(use_true_random=False))
def test_any_split_and_any_order_of_merging_agree(seed: int, cuts: list[int], random: Random) -> None:
    samples = scores(60, seed, 3)
    parts = [Moments.of(part) for part in torch.tensor_split(samples, sorted(cuts)) if len(part)]
    while len(parts) > 1:
        first = parts.pop(random.randrange(len(parts)))
        second = parts.pop(random.randrange(len(parts)))
        parts.append(first + second)
    whole = Moments.of(samples)
    assert parts[0].count == 60
    np.testing.assert_allclose(parts[0].mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(parts[0].variance, whole.variance, rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_moments_are_those_of_numpy_in_double(dtype: torch.dtype) -> None:
    samples = scores(1000, 1, 2, 4).to(dtype)
    moments = Moments.of(samples)
    exact = samples.double().numpy()
    np.testing.assert_allclose(moments.mean, exact.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(moments.variance, exact.var(axis=0, ddof=1), rtol=1e-12)
    assert moments.mean.dtype == torch.float64


def test_tiny_variance_on_a_large_offset_survives() -> None:
    samples = 0.9999 + 1e-7 * scores(5000, 2)
    total = Moments.empty()
    for part in samples.split(37):  # type: ignore[no-untyped-call]
        total = total + Moments.of(part)
    assert float(total.variance) == pytest.approx(samples.numpy().var(ddof=1), rel=1e-6)


def test_empty_is_neutral() -> None:
    moments = Moments.of(scores(5, 3, 2))
    assert moments + Moments.empty((2,)) is moments
    assert Moments.empty((2,)) + moments is moments


def test_one_sample_has_no_variance() -> None:
    with pytest.raises(InvalidArgumentError, match="variance needs at least 2 samples, got 1"):
        _ = Moments.of(scores(1)).variance


def test_shapes_must_match() -> None:
    with pytest.raises(InvalidArgumentError, match=r"different shapes cannot be merged: \(2,\) and \(3,\)"):
        _ = Moments.of(scores(4, 0, 2)) + Moments.of(scores(4, 0, 3))


def test_not_the_mean_of_batch_variances() -> None:
    """Two constant batches have no variance each; together they have."""
    merged = Moments.of(torch.zeros(10)) + Moments.of(torch.ones(10))
    assert float(merged.variance) == pytest.approx(10 * 0.5 * 0.5 * 2 / 19)
