"""A run that is killed in the middle of inputs goes on there: the same rows, and no sample before a look twice."""

import itertools
import json
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

import lvmrs.adaptive
import lvmrs.certifying
import lvmrs.midway
from lvmrs import Certificate, Choice, Duels, Fixed, Plan, Terms
from lvmrs.errors import RunError
from lvmrs.flights import Answer, Piece, answered
from lvmrs.goals import Goal
from lvmrs.maps.duel import Duel
from lvmrs.method import Method
from lvmrs.planners import Anytime
from lvmrs.prove import prove
from lvmrs.runs import Row, Run, Selection
from lvmrs.sampling import Sampler
from lvmrs.scores import Scores
from tests.jobs.helpers import INPUTS, fill, in_child, lines

TOLERANCE = Goal(tolerance=0.2)
SETTINGS: dict[str, Any] = {"planner": Duels(), "n": 900, "goal": TOLERANCE, "selection": Selection(INPUTS, max=6)}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.quick import without_trials

    without_trials(monkeypatch)


class Counter:
    """Counts samples, and does something once so many were answered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: float = float("inf")) -> None:
        self.samples, self.after = 0, after
        self.then: Callable[[], None] = _interrupt
        self.seen: set[tuple[object, int]] = set()
        monkeypatch.setattr(lvmrs.adaptive, "answered", self)

    def __call__(self, sampler: Sampler, pieces: list[Piece]) -> list[Answer | Any]:
        if self.samples >= self.after:
            self.then()
        for piece in pieces:
            self.samples += len(piece.samples)
            self.seen |= {(piece.stream, number) for number in piece.samples}
        return answered(sampler, pieces)


def _interrupt() -> None:
    raise KeyboardInterrupt


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def always_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lvmrs.midway, "_EVERY", 0.0)
    monkeypatch.setattr(lvmrs.midway, "_TIMES", 0.0)


@pytest.mark.parametrize(
    ("planner", "goal"),
    [
        (Duels(), TOLERANCE),
        (Fixed("softmax", 0.3), TOLERANCE),
        (Anytime(Duels(), staged=True), TOLERANCE),
    ],
    ids=["duels", "soft", "staged"],
)
def test_a_run_that_is_stopped_goes_on_in_the_middle_of_its_inputs(
    planner: Method, goal: Goal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {**SETTINGS, "planner": planner, "goal": goal}
    counter = Counter(monkeypatch)
    whole = fill(tmp_path / "whole", **settings)
    assert not (whole.directory / "midway.json").exists()
    all_of_them = counter.samples
    always_written(monkeypatch)
    stopped = Counter(monkeypatch, after=all_of_them // 2)
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "a", **settings)
    known = json.loads((tmp_path / "a" / "midway.json").read_text())["content"]["inputs"]
    assert known
    with pytest.raises(RunError, match="holds a run already; resume it"):
        fill(tmp_path / "a", **settings)
    rest = Counter(monkeypatch)
    assert lines(fill(tmp_path / "a", resume=True, **settings)) == lines(whole)
    assert not (tmp_path / "a" / "midway.json").exists()
    assert stopped.seen | rest.seen == counter.seen
    for stream, number in stopped.seen & rest.seen:  # drawn twice: what came after the last look of an input
        looked = next((each["n"] for each in known if each["index"] == stream.index), 0)  # type: ignore[attr-defined]
        assert looked == 0 or (stream.stage == "certification" and number >= looked)  # type: ignore[attr-defined]
    assert len(stopped.seen & rest.seen) < all_of_them / 5


@pytest.mark.parametrize(
    ("goal", "share"),
    [(TOLERANCE, 0.5), (Goal((0.2, 0.4)), 0.3)],
    ids=["tolerance", "targets"],
)
def test_a_kill_loses_no_sample_before_the_last_look(
    goal: Goal, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {**SETTINGS, "goal": goal}
    counter = Counter(monkeypatch)
    whole = lines(fill(tmp_path / "whole", **settings))
    always_written(monkeypatch)
    Counter(monkeypatch, after=share * counter.samples).then = _kill
    out = tmp_path / "a"
    assert in_child(lambda: fill(out, **settings)) == -signal.SIGKILL
    assert (out / "midway.json").exists()
    rest = Counter(monkeypatch)
    assert lines(fill(out, resume=True, **settings)) == whole
    assert rest.samples < (1.25 - share) * counter.samples
    assert sorted(path.name for path in out.iterdir()) == ["certificates.tsv", "manifest.json"]


def test_a_planned_budget_goes_on_with_the_inputs_that_have_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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

    def prove_and_note(plan: Plan, terms: Terms, scores: Scores) -> Certificate:
        proved.append(scores.stream.index)
        return prove(plan, terms, scores)

    monkeypatch.setattr(lvmrs.certifying, "prove", prove_and_note)
    assert lines(fill(tmp_path / "a", resume=True, **settings)) == whole
    assert (len(written), len(proved)) == (2, 4)
    assert not set(written) & set(proved)


def test_an_error_before_the_first_row_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    always_written(monkeypatch)
    failing = Counter(monkeypatch, after=400)

    def fail() -> None:
        raise RunError("the disk is gone")

    failing.then = fail
    with pytest.raises(RunError, match="the disk is gone"):
        fill(tmp_path / "a", **{**SETTINGS, "goal": Goal(tolerance=1e-9)})
    assert not (tmp_path / "a").exists()


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run that was stopped in the middle of inputs."""
    Counter(monkeypatch, after=6 * 300)
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "left", **SETTINGS)
    Counter(monkeypatch)
    return Run(tmp_path / "left")


def resumed(run: Run) -> Run:
    return fill(run.directory, resume=True, **SETTINGS)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text[:-20], "it is not what lvmrs writes"),
        (lambda text: "[]", "it is not what lvmrs writes"),
        (lambda text: '{"checksum": "", "content": NaN}', "it is not what lvmrs writes"),
        (lambda text: text.replace('"n": ', '"n": 1', 1), "it does not fit its checksum"),
    ],
)
def test_a_file_that_is_damaged_is_refused_by_name(left: Run, change: Callable[[str], str], why: str) -> None:
    file = left.directory / "midway.json"
    file.write_text(change(file.read_text()))
    before = left.file.read_bytes()
    with pytest.raises(RunError, match=rf"midway\.json cannot be used, since {why}; put the right file"):
        resumed(left)
    assert left.file.read_bytes() == before
    file.unlink()
    assert resumed(left).complete


def test_a_file_of_another_run_is_refused(left: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Counter(monkeypatch, after=6 * 300)
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "other", **SETTINGS, seed=1)
    Counter(monkeypatch)
    (left.directory / "midway.json").write_bytes((tmp_path / "other" / "midway.json").read_bytes())
    with pytest.raises(RunError, match="belongs to a run with another manifest"):
        resumed(left)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda each: each.update(n=33), "cannot take up one that has 33"),
        (lambda each: each.update(n="1"), "index and n must be whole numbers"),
        (lambda each: each["best"].append(0.5), "not numbers of a proof of this plan"),
        (lambda each: each["proving"].__setitem__(0, 1e9), "not numbers of a proof of this plan"),
        (lambda each: each["plan"].update(origin={**each["plan"]["origin"], "seed": 9}), "was made on"),
        (lambda each: each.pop("worst"), "missing"),
    ],
)
def test_what_no_proof_can_have_is_refused(left: Run, change: Callable[[Any], object], why: str) -> None:
    from lvmrs.errors import LvmrsError
    from lvmrs.runs.midway_file import read_midway, write_midway

    known = read_midway(left)
    assert known is not None
    for each in known["inputs"]:
        change(each)
    write_midway(left, known)
    with pytest.raises(LvmrsError, match=why):
        resumed(left)


class Other(Duel):
    """A map of the user's own, with the name of another."""


class Own(Duels):
    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        return replace(super().choose(logits, terms), map=Other())


def test_plans_that_cannot_be_written_are_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {**SETTINGS, "planner": Own()}
    whole = lines(fill(tmp_path / "whole", **settings))
    Counter(monkeypatch, after=6 * 300)
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "a", **settings)
    assert json.loads((tmp_path / "a" / "midway.json").read_text())["content"]["inputs"] == []
    Counter(monkeypatch)
    assert lines(fill(tmp_path / "a", resume=True, **settings)) == whole


def test_it_is_written_at_intervals_that_cost_little() -> None:
    now, written = 0.0, []

    def write(known: dict[str, Any]) -> None:
        nonlocal now
        now += 2.0
        written.append(now)

    midway = lvmrs.midway.Midway(write, clock=lambda: now)
    for _ in range(1000):
        now += 1.0
        midway.note(list)
    assert written[0] == 12.0
    assert all(later - before >= 100 for before, later in itertools.pairwise(written))
    assert len(written) > 8
