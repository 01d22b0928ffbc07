"""Choices by trials: a busy moment does not spoil them."""

import time
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from lvmrs.engine.execution import fast_version
from lvmrs.engine.tuning import best, chosen_batch, chosen_way, costs
from lvmrs.engine.way import Way


class Clock:
    """Shows the time that trials are said to take; busy moments add to it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_busy_moment_does_not_spoil_the_choice() -> None:
    clock, rounds = Clock(), dict.fromkeys((8, 32, 128), 0)

    def run(size: int) -> None:
        rounds[size] += 1
        disturbed = 1.2 if rounds[size] == 2 and size == 32 else 1.0  # when it is first measured
        clock.now += disturbed * size * {8: 1.5, 32: 1.0, 128: 1.1}[size]

    trials: dict[Way, tuple[Callable[[], object], int]] = {Way(size): (partial(run, size), size) for size in rounds}
    found = costs(trials, clock=clock, seconds=1e9)
    assert found == pytest.approx({Way(32): 1.0, Way(128): 1.1})
    assert rounds[8] == 2  # hopeless, and not tried again
    assert best(found) == Way(32)
    assert best({Way(8): 0.98, Way(32): 1.0, Way(128): 0.98}) == Way(32)  # about as good, and more usual
    assert best({Way(32): 1.0, Way(128): 0.9}) == Way(128)


def test_processor_time_counts_and_waiting_does_not() -> None:
    """As when other programs have the cores: small batches wait, and are as cheap as others all the same."""

    def model(x: Tensor) -> Tensor:
        if len(x) <= 16:
            time.sleep(0.004)
        return torch.zeros(len(x), 2)

    choice = chosen_batch(model, torch.rand(3), threads=1)
    assert choice.cost < 0.004 / 16
    assert choice.way.batch >= 16  # one row at a time cannot be cheapest, since every call costs something


def test_large_networks_are_not_tried_in_large_batches() -> None:
    sizes = []

    def model(x: Tensor) -> Tensor:
        sizes.append(len(x))
        end = time.thread_time() + 0.04 * len(x)
        while time.thread_time() < end:
            pass
        return torch.zeros(len(x), 2)

    choice = chosen_batch(model, torch.rand(3), threads=2)
    assert max(sizes) == 4
    assert choice.way == Way(8)
    assert 0.04 <= choice.cost < 0.06


def test_a_given_batch_size_is_kept() -> None:
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 3)).eval()
    fast = fast_version(network, torch.randn(8, 3, 8, 8))
    assert fast is not None
    choice = chosen_way(fast, torch.rand(3, 8, 8), 24, threads=1)
    assert (choice.way.batch, choice.way.folded, choice.workers) == (24, True, 1)
    assert 0 < choice.cost < 1


def test_larger_batches_are_tried_where_they_cost_little_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call takes 20 ms whatever it is called with: four rows look dear, and a thousand are not."""
    clock, sizes = Clock(), set[int]()
    monkeypatch.setattr(time, "thread_time", clock)

    def model(x: Tensor) -> Tensor:
        clock.now += 0.02
        sizes.add(len(x))
        return torch.zeros(len(x), 2)

    chosen_batch(model, torch.rand(3), threads=1)
    assert max(sizes) == 1024
