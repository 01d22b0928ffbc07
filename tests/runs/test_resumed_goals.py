"""A run with a goal that is stopped or killed loses inputs that are being certified, no row, and ends the same."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lvmrs import Duels, Fixed, Plan, Terms
from lvmrs.engine import batching, pipeline
from lvmrs.engine.batching import Piece, answered
from lvmrs.errors import RunError
from lvmrs.kernel.method import Goal, Method
from lvmrs.kernel.proof import Proof
from lvmrs.kernel.sampler import Sampler
from lvmrs.planners import Anytime
from lvmrs.record import Row, Run, Selection
from tests.runs.helpers import INPUTS, fill, in_child, lines

TOLERANCE = Goal(tolerance=0.2)
SETTINGS: dict[str, Any] = {"planner": Duels(), "n": 900, "goal": TOLERANCE, "selection": Selection(INPUTS, max=6)}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.quick import without_trials

    without_trials(monkeypatch)


class Counter:
    """Counts samples, and does something once this many were answered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: float = float("inf")) -> None:
        self.samples, self.after = 0, after
        self.then: Callable[[], None] = _interrupt
        monkeypatch.setattr(batching, "answered", self)

    def __call__(self, sampler: Sampler, pieces: list[Piece]) -> list[Any]:
        if self.samples >= self.after:
            self.then()
        self.samples += sum(len(piece.samples) for piece in pieces)
        return answered(sampler, pieces)


def _interrupt() -> None:
    raise KeyboardInterrupt


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    "planner", [Duels(), Fixed("softmax", 0.3), Anytime(Duels(), staged=True)], ids=["duels", "soft", "staged"]
)
def test_a_run_that_is_stopped_has_the_same_rows_when_it_is_resumed(
    planner: Method, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {**SETTINGS, "planner": planner}
    counter = Counter(monkeypatch)
    whole = lines(fill(tmp_path / "whole", **settings))
    Counter(monkeypatch, after=0.9 * counter.samples)
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "a", **settings)
    written = lines(Run(tmp_path / "a"))
    assert 1 < len(written[:-1]) < len(whole[:-1])
    with pytest.raises(RunError, match="holds a run already; resume it"):
        fill(tmp_path / "a", **settings)
    Counter(monkeypatch)
    resumed = lines(fill(tmp_path / "a", resume=True, **settings))
    assert resumed[: len(written) - 1] == written[:-1]
    assert resumed == whole


@pytest.mark.parametrize("goal", [TOLERANCE, Goal((0.2, 0.4))], ids=["tolerance", "targets"])
def test_a_kill_loses_no_row(goal: Goal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {**SETTINGS, "goal": goal}
    counter = Counter(monkeypatch)
    whole = lines(fill(tmp_path / "whole", **settings))
    Counter(monkeypatch, after=0.9 * counter.samples).then = _kill
    out = tmp_path / "a"
    assert in_child(lambda: fill(out, **settings)) == -signal.SIGKILL
    written = lines(Run(out))
    assert 1 < len(written[:-1]) < len(whole[:-1])
    Counter(monkeypatch)
    resumed = lines(fill(out, resume=True, **settings))
    assert resumed[: len(written) - 1] == written[:-1]
    assert resumed == whole
    assert sorted(path.name for path in out.iterdir()) == ["certificates.tsv", "manifest.json"]


def test_a_budget_goes_on_with_the_inputs_that_have_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {**SETTINGS, "goal": Goal(budget=6 * 400)}
    whole = lines(fill(tmp_path / "whole", **settings))
    written: list[int] = []

    def interrupt(row: Row) -> None:
        written.append(row.idx)
        if len(written) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "a", on_row=interrupt, **settings)
    proved: list[int] = []

    class Noted(Proof):
        def __init__(self, plan: Plan, terms: Terms) -> None:
            proved.append(plan.origin.index)
            super().__init__(plan, terms)

    monkeypatch.setattr(pipeline, "Proof", Noted)
    assert lines(fill(tmp_path / "a", resume=True, **settings)) == whole
    assert (len(written), len(proved)) == (2, 4)
    assert not set(written) & set(proved)


def test_an_error_before_the_first_row_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Counter(monkeypatch, after=400)

    def fail() -> None:
        raise RunError("the disk is gone")

    failing.then = fail
    with pytest.raises(RunError, match="the disk is gone"):
        fill(tmp_path / "a", **{**SETTINGS, "goal": Goal(tolerance=1e-9)})
    assert not (tmp_path / "a").exists()
