"""Exact noise by torch's operations: the numbers of NumPy's generator, bit for bit, and no wait for the device."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from lvmrs.kernel import noise as noises
from lvmrs.kernel import philox
from lvmrs.kernel.exact_noise import ExactGaussian
from lvmrs.kernel.noise import Draws, Gaussian, Noise, Stream
from lvmrs.kernel.sampler import Answered, Request, Sampler

SIGMAS, LEVELS = (0.001, 0.12, 0.25, 0.5, 1.0, 3.0), (1, 16, 255, 2047)
SHAPES = ((3, 32, 32), (1, 8, 8), (7,), (1,), (3, 150, 151))
STREAM = Stream(2**62 + 5, 7, "certification")


@pytest.mark.parametrize("seed", range(20))
def test_words_are_those_of_numpy(seed: int) -> None:
    random = np.random.default_rng(seed)
    key, block, stage = random.integers(0, 2**63, 2), int(random.integers(0, 2**40)), int(random.integers(0, 6))
    expected = np.random.Philox(key=key, counter=[0, 0, block, stage]).random_raw(1024).view(np.int64)
    found = philox.words(int(key[0]), int(key[1]), stage, torch.tensor(block), torch.arange(256))
    assert np.array_equal(found.flatten().numpy(), expected)


def test_large_keys_and_all_blocks_at_once() -> None:
    blocks = torch.tensor([0, 1, 2**20])
    found = philox.words(2**63 - 1, 0, 1, blocks[:, None], torch.arange(5)).flatten(1)
    for block, words in zip(blocks.tolist(), found, strict=True):
        expected = np.random.Philox(key=[2**63 - 1, 0], counter=[0, 0, block, 1]).random_raw(20)
        assert np.array_equal(words.numpy().view(np.uint64), expected)


def drawn(noise: Noise, sigma: float, shape: tuple[int, ...], first: int, count: int) -> torch.Tensor:
    settings: dict[str, Any] = {"device": torch.device("cpu"), "dtype": torch.float32}
    with Draws(noise, sigma, STREAM, torch.Size(shape), **settings) as draws:
        return draws.of(first, count)


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Draw on the CPU as on other devices, from now on."""
    return lambda: monkeypatch.setattr(noises, "_drawn_on_device", lambda noise, device: noise.drawn_on_device)


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("sigma", SIGMAS)
def test_noise_is_that_of_numpy(there: Any, sigma: float, levels: int) -> None:
    """Of first and later blocks, whole and in parts, and of odd counts."""
    cases = [(shape, first, count) for shape in SHAPES for first, count in ((0, 3), (37, 64), (1001, 1))]
    expected = [drawn(ExactGaussian(levels), sigma, *case) for case in cases]
    there()
    for case, numbers in zip(cases, expected, strict=True):
        found = drawn(ExactGaussian(levels), sigma, *case)
        assert found.dtype == numbers.dtype
        assert torch.equal(found, numbers)


@pytest.mark.slow
def test_a_hundred_million_numbers_are_those_of_numpy(there: Any) -> None:
    cases = [(sigma, first) for sigma in (0.12, 0.25, 0.5, 1.0) for first in range(0, 8192, 1024)]
    expected = [drawn(ExactGaussian(), sigma, (3, 32, 32), first, 1024) for sigma, first in cases]
    assert sum(numbers.numel() for numbers in expected) >= 10**8
    there()
    for (sigma, first), numbers in zip(cases, expected, strict=True):
        assert torch.equal(drawn(ExactGaussian(), sigma, (3, 32, 32), first, 1024), numbers)


def test_gaussian_noise_of_a_device_is_a_function_of_the_sample_number(there: Any) -> None:
    there()
    whole = drawn(Gaussian(), 1.0, (1, 8, 8), 0, 100_000)
    assert torch.equal(drawn(Gaussian(), 1.0, (1, 8, 8), 65_500, 100), whole[65_500:65_600])
    assert abs(float(whole.std()) - 1) < 0.001


class _Copies(TorchDispatchMode):
    """Counts operations that read memory of the CPU and write to the device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = [each for each in args if isinstance(each, torch.Tensor)]
        there = isinstance(result, torch.Tensor) and result.device.type == "meta"
        self.found += there and any(each.device.type == "cpu" for each in given)
        return result


@pytest.mark.parametrize("noise", [ExactGaussian(), Gaussian()])
def test_a_piece_neither_waits_for_the_device_nor_copies_to_it(noise: Noise, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device is torch's "meta", which holds no values: whatever reads one raises. The logits are moved once."""
    moved = []

    def of(logits: torch.Tensor, compare: Any, rows: int) -> Answered:
        moved.append(logits)
        return Answered(torch.zeros(logits.shape), compare, rows)

    def shape_only(logits: torch.Tensor, count: int, classes: int, *, finite: bool = True) -> None:
        assert not finite  # values are checked when the logits have arrived

    monkeypatch.setattr(Answered, "of", of)
    monkeypatch.setattr("lvmrs.kernel.sampler.check_logits", shape_only)
    monkeypatch.setattr(
        Gaussian,
        "draw_on_device",
        lambda self, stream, samples, shape, sigma, like: like.new_empty(len(samples), *shape),
    )
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 10))
    sampler = Sampler(network.eval().to("meta"), 0.25, 64, noise=noise, piece=256)
    x = torch.zeros(3, 32, 32, device="meta")
    monkeypatch.setattr(type(noise), "base", lambda self, x: x)  # once for each input, not for each piece
    pieces = list(sampler.pieces(Request(sampler, x, STREAM, 2048)))
    pieces[0]()  # tables are copied once
    counting = _Copies()
    with counting:
        for compute in pieces[1:3]:
            compute()
    assert counting.found == 0
    assert [tuple(logits.shape) for logits in moved] == [(256, 10)] * 3
    assert all(logits.device.type == "meta" for logits in moved)
