"""Several inputs on their way at once: each gets what it would get alone, and batches are full."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lvmrs import Cohen, Duels, Fixed, SmoothedClassifier
from lvmrs.adaptive import Batches, Traffic, adaptively
from lvmrs.anytime import AnytimeProof, looks
from lvmrs.errors import InvalidArgumentError, LvmrsError, ModelError
from lvmrs.flights import Arrival, Asking
from lvmrs.goals import Goal
from lvmrs.noise import Stage
from lvmrs.planners import Anytime


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.quick import without_trials

    without_trials(monkeypatch)


INPUTS = [torch.tensor([1.0 - 0.2 * k, 0.1 * k, 0.0]) for k in range(8)]
GOAL = Goal((0.3, 0.6))


def classifier(batch: int = 100, **settings: object) -> SmoothedClassifier:
    return SmoothedClassifier(nn.Identity(), 0.5, batch=batch, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("planner", [Duels(), Cohen(), Fixed("softmax", 0.3)], ids=repr)
def test_each_input_gets_what_it_would_get_alone_in_any_batch(planner: Duels) -> None:
    settings: dict[str, object] = {"n0": 40, "n": 800, "goal": GOAL, "seed": 3}
    whole = classifier().certify_batch(INPUTS, planner, **settings)
    for batch in (7, 512):
        assert classifier(batch).certify_batch(INPUTS, planner, **settings) == whole
    assert [classifier().certify(x, planner, index=k, **settings) for k, x in enumerate(INPUTS)] == whole  # type: ignore[arg-type]
    backwards = list(classifier().certificates(list(enumerate(INPUTS))[::-1], planner, **settings))  # type: ignore[arg-type]
    assert backwards == whole[::-1]
    assert len({found.n for found in whole}) > 2
    assert all(found.n in looks(800) for found in whole)


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
    from dataclasses import replace

    from lvmrs.running.crew import Crew

    smoothed, traffic = classifier(64), Traffic()
    sampler = replace(smoothed.sampler(INPUTS[0])[0], workers=workers)
    inputs = [torch.tensor([np.cos(k), np.sin(k), 0.1]).float() for k in range(60)]
    arrivals = (Arrival(sampler, x, k) for k, x in enumerate(inputs))
    asking = Asking(Anytime(Duels()), lambda x: smoothed.terms(0.01, 600, x, method=Duels()), GOAL, 0, 32)
    with Crew(workers) as crew:
        found = list(adaptively(arrivals, Batches(crew, traffic), asking))
    assert found == smoothed.certify_batch(inputs, Duels(), n0=32, n=600, alpha=0.01, goal=GOAL)
    assert traffic.rows == sum(each.n + 32 for each in found)
    assert traffic.filled > 0.9


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
    if how == "nan":  # only the input that is wrong fails; it is in a batch with others
        assert [next(found).top for _ in range(2)] == [0, 1]
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
