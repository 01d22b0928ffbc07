"""Samples of several inputs in one batch: each input gets what it would get alone, and batches are full."""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lvmrs import Certificate, Choice, Cohen, Deterministic, Duels, Fixed, SmoothedClassifier, Terms
from lvmrs.engine import pipeline
from lvmrs.engine.batching import Batched, BatchStatistics
from lvmrs.engine.pipeline import Procedure
from lvmrs.engine.sources import Input
from lvmrs.engine.threads import ThreadPool
from lvmrs.errors import InvalidArgumentError, LvmrsError, ModelError, ProofError
from lvmrs.kernel.anytime import AnytimeProof, sample_sizes
from lvmrs.kernel.bounds.beta_mixture import BetaMixture
from lvmrs.kernel.maps import Duel
from lvmrs.kernel.method import Goal
from lvmrs.kernel.noise import Stage
from lvmrs.kernel.sampler import Answered, Compare, Sampler
from lvmrs.planners import Anytime


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.quick import without_trials

    without_trials(monkeypatch)


INPUTS = [torch.tensor([1.0 - 0.2 * k, 0.1 * k, 0.0]) for k in range(8)]
GOAL = Goal((0.3, 0.6))


def classifier(batch: int = 100, **settings: object) -> SmoothedClassifier:
    return SmoothedClassifier(nn.Identity(), 0.5, batch=batch, **settings)  # type: ignore[arg-type]


def sampled(smoothed: SmoothedClassifier, sampler: Sampler, inputs: list[Tensor], source: Batched) -> list[Certificate]:
    terms = partial(smoothed.terms, 0.01, 600, method=Duels())
    items = [Input(k, None, partial(terms, x), x, sampler) for k, x in enumerate(inputs)]
    return [certificate for _, certificate in pipeline.certify(items, source, Procedure(Duels(), 32, GOAL), 600)]


@pytest.mark.parametrize("planner", [Duels(), Cohen(), Fixed("softmax", 0.3)], ids=repr)
def test_each_input_gets_what_it_would_get_alone_in_any_batch(planner: Duels) -> None:
    settings: dict[str, Any] = {"n0": 40, "n": 800, "goal": GOAL, "seed": 3}
    whole = classifier().certify_batch(INPUTS, planner, **settings)
    for batch in (7, 512):
        assert classifier(batch).certify_batch(INPUTS, planner, **settings) == whole
    assert [classifier().certify(x, planner, index=k, **settings) for k, x in enumerate(INPUTS)] == whole
    backwards = list(classifier().certificates(list(enumerate(INPUTS))[::-1], planner, **settings))
    assert backwards == whole[::-1]
    assert len({found.n for found in whole}) > 2
    assert all(found.n in sample_sizes(800) for found in whole)


def test_the_certificate_is_that_of_the_proof_on_the_scores_of_the_stream() -> None:
    smoothed, x = classifier(), INPUTS[2]
    terms = smoothed.terms(0.001, 5000, x, method=Duels())
    plan = Anytime(Duels()).plan(smoothed.scores(x, 64, index=2, stage="selection"), terms)
    proof = AnytimeProof(plan, terms, beta=GOAL.beta, stop=GOAL.reached)
    for portion in smoothed.scores(x, 5000, index=2):
        proof.add(portion)
    assert smoothed.certify(x, Duels(), n0=64, n=5000, index=2, goal=GOAL) == proof.certificate()


@pytest.mark.parametrize("workers", [1, 2])
def test_batches_are_full_with_any_number_of_threads(workers: int) -> None:
    smoothed, batch_statistics = classifier(64), BatchStatistics()
    sampler = replace(smoothed.sampler(INPUTS[0])[0], workers=workers)
    inputs = [torch.tensor([np.cos(k), np.sin(k), 0.1]).float() for k in range(60)]
    with ThreadPool(workers) as pool:
        found = sampled(smoothed, sampler, inputs, Batched(pool, 0, 600, batch_statistics=batch_statistics))
    assert found == smoothed.certify_batch(inputs, Duels(), n0=32, n=600, alpha=0.01, goal=GOAL)
    assert batch_statistics.rows == sum(each.n + 32 for each in found)
    assert batch_statistics.share > 0.9


def test_what_is_watched_is_what_was_used_in_the_order_of_the_inputs() -> None:
    seen: list[tuple[Stage, Tensor]] = []
    smoothed = classifier(48)
    found = smoothed.certificates(
        enumerate(INPUTS), Duels(), n0=40, n=2000, goal=GOAL, watch=lambda stage, logits: seen.append((stage, logits))
    )
    for index, certificate in enumerate(found):
        for stage, count in (("selection", 40), ("certification", certificate.n)):
            logits = torch.cat([logits for each, logits in seen if each == stage])
            expected = torch.cat(
                list(smoothed.scores(INPUTS[index], count, index=index, stage=stage).logits())  # type: ignore[arg-type]
            )
            assert torch.equal(logits, expected)
        seen.clear()


class Transfer:
    """The transfer of logits from another device: until it is awaited, their memory holds other numbers."""

    def __init__(self, logits: Tensor) -> None:
        self.logits, self.there = logits, -logits.flip(1)

    def synchronize(self) -> None:
        """Wait for the logits."""
        self.there.copy_(self.logits)


@pytest.mark.parametrize("goal", [None, GOAL, Goal((), 0.05)], ids=["n", "targets", "tolerance"])
def test_logits_that_are_on_their_way_are_awaited(goal: Goal | None, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"n0": 40, "n": 800, "goal": goal, "seed": 3}
    expected = classifier(7).certify_batch(INPUTS, Duels(), **settings)
    begun = []

    def later(logits: Tensor, compare: Compare, rows: int) -> Answered:
        begun.append(transfer := Transfer(logits))
        return Answered(transfer.there, compare, rows, transfer)  # type: ignore[arg-type]

    monkeypatch.setattr(Answered, "of", later)
    assert classifier(7).certify_batch(INPUTS, Duels(), **settings) == expected
    assert len(begun) > 8


class Fails(nn.Module):
    """Is not finite, or fails, where the first number is large."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "raises" and bool((x[:, 0] > 50).any()):
            raise RuntimeError("too large")
        return torch.where(x[:, :1] > 50, torch.full_like(x, float("nan")), x)


@pytest.mark.parametrize("how", ["nan", "raises"])
def test_what_is_wrong_with_an_input_is_raised_when_its_turn_comes(how: str) -> None:
    smoothed = SmoothedClassifier(Fails(how), 0.5, batch=16, fast=False)
    inputs = [INPUTS[0], INPUTS[7], torch.tensor([100.0, 0.0, 0.0]), INPUTS[1]]
    found = smoothed.certificates(enumerate(inputs), Duels(), n0=40, n=500, goal=GOAL)
    assert [next(found).top for _ in range(2)] == [0, 1]  # only the input that is wrong fails, in a batch with others
    with pytest.raises(ModelError, match=r"NaN|too large"):
        list(found)


def test_inputs_that_cannot_be_read_are_raised_when_their_turn_comes() -> None:
    def inputs() -> Iterator[tuple[int, Tensor]]:
        yield 0, INPUTS[0]
        raise InvalidArgumentError("no such input")

    found = classifier().certificates(inputs(), Duels(), n0=40, n=500, goal=GOAL)
    assert next(found).top == 0
    with pytest.raises(LvmrsError, match="no such input"):
        next(found)
    with pytest.raises(InvalidArgumentError, match="goal must be a goal"):
        classifier().certify(INPUTS[0], goal=0.5)  # type: ignore[arg-type]


def test_inputs_of_several_shapes() -> None:
    mixed = [
        torch.rand(3, generator=torch.Generator().manual_seed(k)).reshape((3,) if k % 2 else (1, 3)) for k in range(6)
    ]
    smoothed = SmoothedClassifier(nn.Flatten(), 0.5, batch=32)
    found = smoothed.certify_batch(mixed, Duels(), n0=32, n=600, goal=GOAL)
    alone = [smoothed.certify(x, Duels(), n0=32, n=600, goal=GOAL, index=k) for k, x in enumerate(mixed)]
    assert found == alone


class LooksAround(nn.Module):
    """In batches that are larger than those of the first check, it answers all rows with their mean."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=0, keepdim=True).expand_as(x).clone() if len(x) > self.rows else x.clone()


def test_rows_of_every_input_are_compared_also_if_it_stops_at_once() -> None:
    inputs = [torch.tensor([9.0 + k, 0.0, 0.0]) for k in range(12)]
    settings: dict[str, Any] = {"n0": 8, "n": 800, "goal": Goal((0.1,))}
    honest = SmoothedClassifier(nn.Identity(), 0.5, batch=128, fast=False).certify_batch(inputs, Duels(), **settings)
    assert max(each.n for each in honest) < 100
    with pytest.raises(ModelError, match="depends on the other inputs in its batch"):
        SmoothedClassifier(LooksAround(64), 0.5, batch=128, fast=False).certify_batch(inputs, Duels(), **settings)


def test_the_model_itself_runs_in_the_thread_of_the_caller_alone() -> None:
    threads = set()

    def model(x: Tensor) -> Tensor:
        threads.add(threading.get_ident())
        return x.clone()

    smoothed = SmoothedClassifier(model, 0.5, batch=32, fast=False)
    sampler = replace(smoothed.sampler(INPUTS[0])[0], runner=torch.clone, workers=2)
    threads.clear()
    with ThreadPool(2) as pool:
        assert len(sampled(smoothed, sampler, INPUTS, Batched(pool, 0, 600))) == len(INPUTS)
    assert threads == {threading.get_ident()}


@dataclass(frozen=True)
class Breaks(Duel):
    """A map of the user's own that fails on certification samples."""

    def columns(self, logits: Tensor, top: int, alone: Tensor, pooled: Tensor) -> Tensor:
        if len(logits) != 40:
            raise KeyError("mine")
        return super().columns(logits, top, alone, pooled)


class Broken(Duels):
    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        return replace(super().choose(logits, terms), map=Breaks())


def test_a_part_of_the_users_own_that_fails_is_one_sentence() -> None:
    with pytest.raises(ProofError, match=r"the proof of a plan by .* fails"):
        classifier(16).certify(INPUTS[0], Broken(), n0=40, n=500, goal=GOAL)


def test_a_goal_is_checked_whatever_the_method() -> None:
    constant = SmoothedClassifier(nn.Identity(), 0.5, 1.0)
    with pytest.raises(InvalidArgumentError, match="goal must be a goal"):
        constant.certify(INPUTS[0], Deterministic(), goal="rubbish")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="a goal has no effect"):
        constant.certify(INPUTS[0], Deterministic(), goal=GOAL)


@dataclass(frozen=True)
class HugePrior(Duels):
    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        choice = super().choose(logits, terms)
        return replace(choice, bound=BetaMixture((1e300,) * 2, (1e300,) * 2))


def test_a_planner_cannot_make_the_prior_so_large_that_every_class_wins() -> None:
    with pytest.raises(InvalidArgumentError, match="wins must lie between"):
        HugePrior().plan(classifier().scores(INPUTS[0], 40, stage="selection"), classifier().terms(0.01, 500))
