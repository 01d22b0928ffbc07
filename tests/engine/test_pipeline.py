"""The loop: plans and proofs are made at one place, in the right order, and memory does not grow with the inputs."""

import ast
import weakref
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lvmrs
from lvmrs import Duels, Planner, SmoothedClassifier, Terms
from lvmrs.engine import pipeline, samplers
from lvmrs.engine.pipeline import Item, Need, Procedure
from lvmrs.engine.sources import GivenScores
from lvmrs.engine.tuning import Tuned
from lvmrs.errors import InvalidArgumentError, ModelError
from lvmrs.kernel.method import Goal
from lvmrs.kernel.noise import Stage, Stream
from lvmrs.kernel.sampler import Answered, Request, Sampler
from lvmrs.kernel.scores import Scores
from lvmrs.testing import made_up_scores
from tests.quick import without_trials

SOURCE = Path(lvmrs.__file__).parent
INPUTS = [torch.tensor([1.0, 0.1 * k, 0.0]) for k in range(9)]
TERMS: dict[str, Any] = {"n0": 60, "n": 700, "alpha": 0.01}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    without_trials(monkeypatch)


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Threads that sample, whatever machine this is."""
    count: int = request.param
    monkeypatch.setattr(samplers, "cores", lambda: count)
    monkeypatch.setattr(
        samplers, "chosen_way", lambda fast, x, batch, cores: Tuned(fast.way(batch), 0.001, workers=count)
    )
    return count


def calls(file: Path) -> set[str]:
    """The names of what makes plans and proofs, as far as a file calls it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            found |= {name} & {"plan", "prove", "Proof", "AnytimeProof"}
    return found


def test_plans_and_proofs_are_made_at_one_place() -> None:
    files = {str(file.relative_to(SOURCE)): calls(file) for file in SOURCE.rglob("*.py")}
    kernel = {"kernel/proof.py", "testing.py"}  # ``prove`` itself, and the harness for authors of planners
    makers = {name for name, found in files.items() if found and name not in kernel}
    assert makers == {"engine/pipeline.py"}
    assert files["engine/pipeline.py"] == {"plan", "Proof", "AnytimeProof"}


class Noting(Planner):
    """Plans as duels do, and notes when."""

    def __init__(self, events: list[tuple[str, int]]) -> None:
        self.events = events

    def choose(self, logits: Any, terms: Terms) -> lvmrs.Choice:
        shown = list(logits)
        self.events.append(("planned", sum(event == "planned" for event, _ in self.events)))
        return Duels().choose(shown, terms)


def test_samples_to_prove_on_are_asked_for_when_the_plan_exists_and_the_next_input_is_sampled(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[tuple[str, int]] = []
    pieces = Sampler.pieces

    def noted(self: Sampler, request: Request) -> Iterator[Callable[[], Answered]]:
        events.append((request.stream.stage, request.stream.index))
        return pieces(self, request)

    monkeypatch.setattr(Sampler, "pieces", noted)
    smoothed = SmoothedClassifier(nn.Linear(3, 3), 0.5, batch=32)
    assert smoothed.sampler(INPUTS[0])[0].workers == threads
    events.clear()
    planner = Noting(events)
    assert len(smoothed.certify_batch(INPUTS, planner, **TERMS)) == len(INPUTS)
    for index in range(len(INPUTS)):
        assert events.index(("planned", index)) < events.index(("certification", index))
    for index in range(len(INPUTS) - 1):  # threads have work while this input is planned
        before = events[: events.index(("planned", index))]
        assert ("selection", index + 1) in before or ("certification", index - 1) in before
    assert events.index(("selection", 8)) > events.index(("planned", 8 - 2 * threads))  # but not too far ahead


@pytest.mark.usefixtures("threads")
def test_logits_are_watched_in_the_order_of_the_inputs() -> None:
    seen: list[tuple[Stage, Tensor]] = []
    smoothed = SmoothedClassifier(nn.Linear(3, 3), 0.5, batch=32)
    found = smoothed.certificates(
        enumerate(INPUTS), Duels(), **TERMS, watch=lambda stage, logits: seen.append((stage, logits.clone()))
    )
    for index, _ in enumerate(found):
        assert [stage for stage, _ in seen] == sorted((stage for stage, _ in seen), reverse=True)
        for stage, count in (("selection", 60), ("certification", 700)):
            logits = torch.cat([logits for each, logits in seen if each == stage])
            expected = smoothed.scores(INPUTS[index], count, index=index, stage=stage)  # type: ignore[arg-type]
            assert torch.equal(logits, torch.cat(list(expected.logits())))
        seen.clear()


@dataclass
class Lazy(Collection[tuple[int, Tensor, int]]):
    """Inputs that are made when they are read."""

    count: int
    reads: int = 0

    def __len__(self) -> int:
        return self.count

    def __contains__(self, given: object) -> bool:
        return False

    def __iter__(self) -> Iterator[tuple[int, Tensor, int]]:
        for index in range(self.count):
            x = torch.tensor([1.0, 0.01 * index, 0.0])
            self.reads += 1
            yield index, x, 0


@pytest.mark.usefixtures("threads")
def test_a_budget_holds_plans_and_not_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[weakref.ref[Any]] = []
    most = 0
    made = Request.__init__

    def noted(self: Request, *given: Any) -> None:
        nonlocal most
        made(self, *given)
        alive.append(weakref.ref(self.x))
        most = max(most, len({id(x) for each in alive if (x := each()) is not None}))

    monkeypatch.setattr(Request, "__init__", noted)
    smoothed, inputs = SmoothedClassifier(nn.Linear(3, 3), 0.5, batch=32), Lazy(60)
    found = list(smoothed.certificates(inputs, Duels(), n0=32, n=500, goal=Goal(budget=60 * 150)))
    assert len(found) == 60
    assert inputs.reads == 120  # once to plan, and once to prove
    assert most < 20
    once = iter(Lazy(60))
    assert found == list(smoothed.certificates(once, Duels(), n0=32, n=500, goal=Goal(budget=60 * 150)))


def test_inputs_outside_of_the_budget_are_refused() -> None:
    terms = Terms(0.5, 0.01, 200)

    def scores(item: Item, need: Need) -> Scores:
        return made_up_scores(torch.eye(3)[:1].repeat(need.n, 1), Stream(0, item.index, need.stage))

    items = [Item(index, None, lambda: terms) for index in range(3)]
    procedure = Procedure(Duels(), 32, Goal(budget=300))
    found = pipeline.certify(items, GivenScores(scores), procedure, 200, sharing=items[:2])
    assert [next(found)[0].index for _ in range(2)] == [0, 1]
    with pytest.raises(InvalidArgumentError, match="input 2 does not share the budget"):
        next(found)


@pytest.mark.usefixtures("threads")
def test_a_failure_is_raised_in_turn_and_names_the_input() -> None:
    class Fails(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.where(x[:, :1] > 50, x * float("nan"), x)

    inputs = [*INPUTS[:4], torch.tensor([100.0, 0.0, 0.0]), *INPUTS[4:]]
    for fast in (True, False):
        found = SmoothedClassifier(Fails(), 0.5, batch=32, fast=fast).certificates(enumerate(inputs), Duels(), **TERMS)
        assert [next(found).top for _ in range(4)] == [0] * 4
        with pytest.raises(ModelError, match=r"input 4: .*NaN"):
            next(found)
