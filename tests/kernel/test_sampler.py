import itertools
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel.noise import Draws, Gaussian, Stage, Stream
from lvmrs.kernel.sampler import Sampler, evaluating
from lvmrs.kernel.scores import in_portions
from tests.tiny_models import RowByRow, WithDropout

SHAPE = torch.Size((3, 5, 5))
CPU = torch.device("cpu")


def noise(stream: Stream, n: int, portion: int, shape: torch.Size = SHAPE, first: int = 0) -> torch.Tensor:
    threads = torch.get_num_threads()
    with Draws(Gaussian(), 1.0, stream, shape, device=CPU, dtype=torch.float32, threads=threads) as source:
        return torch.cat([source.of(first + start, min(portion, n - start)) for start in range(0, n, portion)])


@pytest.mark.parametrize("shape", [(3, 5, 5), (), (2,), (3, 64, 64), (1, 300, 300)])
def test_noise_is_the_same_bit_for_bit_in_any_portions(shape: tuple[int, ...]) -> None:
    size = torch.Size(shape)
    n = 1100 if size.numel() < 100 else 40
    whole = noise(Stream(1, 2, "selection"), n, n, size)
    for portion in (1, 7, 128, 1000):
        assert torch.equal(noise(Stream(1, 2, "selection"), n, portion, size), whole)
    assert torch.equal(noise(Stream(1, 2, "selection"), n, 11, size), whole)
    for first in (1, 13, n // 2):
        assert torch.equal(noise(Stream(1, 2, "selection"), n - first, 9, size, first), whole[first:])


def test_noise_depends_on_seed_index_and_stage() -> None:
    streams = [Stream(0, 0, "selection"), Stream(1, 0, "selection"), Stream(0, 1, "selection")]
    streams += [Stream(0, 0, stage) for stage in ("certification", "prediction", "calibration")]
    drawn = torch.stack([noise(stream, 200, 200).flatten() for stream in streams])
    correlation = np.corrcoef(drawn.numpy()) - np.eye(len(streams))
    assert np.abs(correlation).max() < 5 / np.sqrt(drawn.shape[1])


def test_a_generator_that_is_used_again_gives_the_numbers_of_a_new_one() -> None:
    stream = Stream(5, 7, "certification")
    again = stream.generators()
    for block in (0, 3, 3, 1, 1 << 40):
        generator = again(block)
        expected = stream.generator(block)
        assert np.array_equal(generator.bit_generator.random_raw(5), expected.bit_generator.random_raw(5))
        assert np.array_equal(generator.standard_normal(3, np.float32), expected.standard_normal(3, np.float32))


def test_no_two_blocks_of_any_inputs_share_a_generator() -> None:
    """Philox encrypts a counter with a key: blocks differ in the key, or in parts of the counter that do not count."""
    stages: list[Stage] = ["selection", "certification", "prediction", "calibration"]
    large = (1 << 63) - 1
    found = set()
    for seed, index, stage, block in itertools.product((0, 1, large), (0, 1, large), stages, (0, 1, 10**9)):
        state: Any = Stream(seed, index, stage).generator(block).bit_generator.state
        key, counter = (tuple(map(int, state["state"][name])) for name in ("key", "counter"))
        assert key == (seed, index)
        assert counter == (0, 0, block, stages.index(stage))
        found.add((key, counter[2:]))
    assert len(found) == 3 * 3 * 4 * 3


@pytest.mark.slow
def test_float_noise_has_the_tails_of_a_normal() -> None:
    """Uniform numbers of 24 bits, as Box and Muller's formula has them in torch, would end at 5.768."""
    out, beyond, blocks = np.empty(1 << 22, np.float32), 0, 240
    for block in range(blocks):
        Gaussian().fill(out, Stream(0, 0, "certification").generator(block), 1.0)
        beyond += int((np.abs(out) > 5.768).sum())
    assert stats.poisson(blocks * out.size * 2 * stats.norm.sf(5.768)).interval(0.999)[0] <= beyond
    assert beyond <= stats.poisson(blocks * out.size * 2 * stats.norm.sf(5.768)).interval(0.999)[1]


def test_threads_do_not_change_the_noise() -> None:
    alone = noise(Stream(1, 2, "selection"), 3000, 1500)
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        together = noise(Stream(1, 2, "selection"), 3000, 1500)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(alone, together)


def test_noise_is_standard_normal_within_and_across_blocks() -> None:
    drawn = noise(Stream(7, 0, "certification"), 4000, 512).double().numpy()
    assert stats.kstest(drawn.ravel()[::3], "norm").pvalue > 1e-3
    firsts = noise(Stream(7, 0, "certification"), 60_000, 60_000, torch.Size((1000,)))[::64, 0].double().numpy()
    assert stats.kstest(firsts, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(firsts[:-1], firsts[1:])[0, 1]) < 5 / np.sqrt(len(firsts))


@pytest.mark.parametrize(("seed", "index"), [(-1, 0), (0, -1), (1.5, 0), (0, True), (1 << 63, 0)])
def test_bad_streams_are_refused(seed: int, index: int) -> None:
    with pytest.raises(InvalidArgumentError, match="must be a whole number from 0"):
        Stream(seed, index, "selection")


def test_unknown_stage_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="stage must be one of selection, certification"):
        Stream(0, 0, "test")  # type: ignore[arg-type]


def test_logits_are_those_of_the_noisy_copies() -> None:
    model, x, stream = RowByRow(75), torch.rand(SHAPE), Stream(0, 5, "certification")
    logits = torch.cat(list(Sampler(model, 0.3, 64).logits(x, stream, 300)))
    expected = model(x + 0.3 * noise(stream, 300, 300))
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)
    assert max(model.sizes[:5]) == 64
    part = torch.cat(list(Sampler(model, 0.3, 10).logits(x, stream, 50, first=100)))
    torch.testing.assert_close(part, expected[100:150], rtol=0, atol=1e-5)


def test_memory_layout_does_not_change_the_samples() -> None:
    x, stream = torch.rand(3, 8, 8), Stream(0, 0, "selection")
    model = RowByRow(192)
    plain = torch.cat(list(Sampler(model, 0.5, 32).logits(x, stream, 100)))
    last = torch.cat(list(Sampler(model, 0.5, 32, memory_format=torch.channels_last).logits(x, stream, 100)))
    assert torch.equal(plain, last)


def test_modules_are_evaluated_and_left_as_found() -> None:
    model = WithDropout().train()
    model.norm.eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with evaluating(model):
        assert not any(module.training for module in model.modules())
        assert not model(torch.rand(4, 12)).requires_grad
    modes = {name: module.training for name, module in model.named_modules()}
    assert modes == {"": True, "first": True, "norm": False, "drop": True, "last": True}
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_modules_are_left_as_found_when_something_fails() -> None:
    model = WithDropout().train()
    with pytest.raises(RuntimeError, match="on purpose"), evaluating(model):
        raise RuntimeError("on purpose")
    assert model.drop.training


def test_autocast_runs_the_model_in_that_precision() -> None:
    seen = []

    def model(x: torch.Tensor) -> torch.Tensor:
        seen.append(torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None)
        return x[:, :3]

    for precision in (torch.bfloat16, None):
        list(Sampler(model, 0.1, 8, autocast=precision).logits(torch.rand(12), Stream(0, 0, "selection"), 8))
    assert seen == [torch.bfloat16, None]


@pytest.mark.parametrize("sizes", [[10], [1] * 10, [3, 3, 4], [4, 6], [9, 1], [2, 0, 8]])
def test_portions_are_of_one_size_whatever_comes(sizes: list[int]) -> None:
    rows = torch.arange(20.0).reshape(10, 2)
    portions = list(in_portions(torch.split(rows, sizes), 4))
    assert [len(portion) for portion in portions] == [4, 4, 2]
    assert torch.equal(torch.cat(portions), rows)


def test_batches_beyond_the_memory_get_one_sentence() -> None:
    sampler = Sampler(lambda x: x[:, :2], 0.5, 2**53 - 1)
    sentence = r"a batch of 9007199254740991 noisy copies does not fit into memory: choose a smaller batch size"
    with pytest.raises(InvalidArgumentError, match=sentence):
        next(sampler.logits(torch.rand(3), Stream(0, 0, "selection"), 2**53 - 1))
    assert len(next(sampler.logits(torch.rand(3), Stream(0, 0, "selection"), 5))) == 5  # no more than is asked for
