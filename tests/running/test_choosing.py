"""Choices by trials: a busy moment does not spoil them, and they are remembered."""

import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from lvmrs import SmoothedClassifier
from lvmrs.running.choosing import Choice, best, chosen_batch, chosen_way, costs
from lvmrs.running.fast import fast_version
from lvmrs.running.remembered import key_of, recall, remember
from lvmrs.running.way import Way
from tests.hostile.commands import limited


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


def test_choices_are_remembered_for_the_network_and_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    network, x = nn.Sequential(nn.Flatten(), nn.Linear(192, 3)), torch.rand(3, 8, 8)
    key = key_of(network, x, None)
    assert key is not None
    assert key != key_of(network, x.double(), None)
    assert key != key_of(network, x, 32)
    assert key != key_of(nn.Sequential(nn.Flatten(), nn.Linear(192, 4)), x, None)
    assert key == key_of(nn.Sequential(nn.Flatten(), nn.Linear(192, 3)), x, None)  # other weights do not matter
    assert key_of(lambda x: x, x) is None
    assert recall(key) is None
    remember(key, Choice(Way(64, folded=True), 0.5))
    assert recall(key) == Choice(Way(64, folded=True), 0.5, 1)
    (file,) = tmp_path.rglob("*.json")
    good: dict[str, object] = {"way": {"batch": 8}, "cost": 1.0, "workers": 1, "rate": 2.0}
    odd: list[dict[str, object]] = [
        {"way": {}}, {"way": {"batch": 0}}, {"way": {"batch": 8, "evil": 1}}, {"way": {"batch": 8, "folded": 1}},
        {"way": 3}, {"cost": -1.0}, {"cost": "x"}, {"cost": None}, {"workers": 0}, {"workers": 10**9}, {"workers": []},
        {"rate": -1.0}, {"rate": float("nan")}, {"rate": None}, {"rate": 1e300},
    ]  # fmt: skip
    file.write_text(json.dumps(good))
    assert recall(key) == Choice(Way(8), 1.0, 1, 2.0)
    for damaged in ("", "{", "[]", "null", "{}", "[" * 9000, *(json.dumps(good | part) for part in odd)):
        file.write_text(damaged)
        assert recall(key) is None, damaged
    file.unlink()
    os.mkfifo(file)
    with limited(20):
        assert recall(key) is None
        remember(key, Choice(Way(64), 0.5))
    assert file.is_fifo()


def test_a_second_classifier_takes_the_choice_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    network, x = nn.Sequential(nn.Flatten(), nn.Linear(192, 3)).eval(), torch.rand(3, 8, 8)
    SmoothedClassifier(network, 0.5).prepare(x)
    (file,) = tmp_path.rglob("*.json")
    stored = json.loads(file.read_text())
    stored["way"]["batch"], stored["cost"] = 48, 0.25
    file.write_text(json.dumps(stored))
    pace = SmoothedClassifier(network, 0.5).prepare(x)
    assert pace.batch == 48
    assert pace.rate == stored["rate"] > 4.0
    assert SmoothedClassifier(network, 0.5, batch=7).prepare(x).batch == 7


def test_a_cache_that_cannot_be_written_to_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    remember("0" * 32, Choice(Way(64), 0.5))
    assert recall("0" * 32) is None


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
