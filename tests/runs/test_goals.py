"""Runs whose sampling stops at a goal: rows, resume, shards, kept scores of unequal number, and what is shown."""

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lvmrs import Choice, Cohen, Deterministic, Duels, Terms, Votes, analysis, runs
from lvmrs.analysis.report.settings import guarantee, kinds_of_rows, settings_shown
from lvmrs.analysis.tables import summary_table
from lvmrs.errors import DataError, InvalidArgumentError, ProofError, RunError
from lvmrs.kernel.anytime import sample_sizes
from lvmrs.kernel.maps import Duel
from lvmrs.kernel.method import Goal, InterimResult, verdict
from lvmrs.record import Manifest, Run, Selection
from lvmrs.runs import dispatch as spreading
from lvmrs.runs.verify import inconsistency
from lvmrs.runs.workers import Here, Processes
from lvmrs.runs.workers.base import Each, Task
from tests.runs.helpers import INPUTS, fill, job_of, lines
from tests.tiny_models import RowByRow

GOAL = Goal((0.1, 0.3), beta=0.02)
SOME = Selection(INPUTS, max=6)
SETTINGS: dict[str, Any] = {"planner": Duels(), "n": 700, "goal": GOAL}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return fill(tmp_path_factory.mktemp("runs") / "whole", keep=True, **SETTINGS)


def test_rows_say_how_many_samples_were_used_and_what_more_could_certify(whole: Run) -> None:
    rows = whole.rows()
    assert len({row.samples for row in rows}) > 1
    for row in rows:
        assert row.samples in list(sample_sizes(700))
        answers = [verdict(row.radius, row.limit or float("inf"), target) for target in GOAL.targets]
        assert "undecided" not in answers or row.samples == 700
        assert row.bound == "beta_mixture"
        assert inconsistency(row, whole.manifest.terms) is None
    assert whole.manifest.terms.goal == GOAL
    assert Manifest.parse(whole.manifest.to_json(), "it") == whole.manifest


def test_runs_without_a_goal_have_none_of_its_columns(tmp_path: Path) -> None:
    made = fill(tmp_path / "a", selection=SOME)
    assert made.columns[-1] == "rounding"
    assert {(row.samples, row.limit) for row in made.rows()} == {(None, None)}
    assert analysis.spending(analysis.results_of(made)) is None


def test_rows_do_not_depend_on_batches_or_on_a_stop(whole: Run, tmp_path: Path) -> None:
    assert lines(fill(tmp_path / "other", batch=7, keep=True, **SETTINGS)) == lines(whole)
    torn = tmp_path / "torn"
    shutil.copytree(whole.directory, torn)
    text = (torn / "certificates.tsv").read_text().split("\n")
    (torn / "certificates.tsv").write_text("\n".join(text[:4]) + "\n")
    assert lines(fill(torn, resume=True, keep=True, **SETTINGS)) == lines(whole)
    with pytest.raises(RunError, match="goal targets"):
        fill(torn, resume=True, keep=True, **{**SETTINGS, "goal": Goal((0.1,), beta=0.02)})
    with pytest.raises(RunError, match="cannot be resumed: goal:"):
        fill(torn, resume=True, keep=True, **{**SETTINGS, "goal": None})


def same(one: Run, other: Run) -> None:
    """The same rows, in any order, and the same scores."""
    assert sorted(lines(one)) == sorted(lines(other))
    for stage in ("selection", "certification"):
        name = f"scores-{stage}.npy"
        assert (one.directory / name).read_bytes() == (other.directory / name).read_bytes()


def test_two_processes_make_the_rows_and_scores_of_one(
    whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spreading, "_SHARES", 2)
    job = job_of(Duels(), keep=True, n=700, goal=GOAL)
    same(runs.certify(job, tmp_path / "a", command="test", workers=Processes(2)), whole)


class Elsewhere(Here):
    """Workers that compute here, and say that they do not."""

    elsewhere = True

    def __init__(self) -> None:
        self.asked: list[int] = []

    @contextmanager
    def doing(self, task: Task, *, most: int | None = None, files: Iterable[Path] = ()) -> Iterator[Each]:
        def each(questions: Iterable[Any]) -> Iterator[list[Any]]:
            for question in questions:
                self.asked.append(len(question.args[1]))
                yield [task(question)]

        yield each


def test_a_worker_has_several_inputs_on_their_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workers, job = Elsewhere(), job_of(Duels(), n=700, goal=GOAL)
    runs.certify(job, tmp_path / "a", workers=workers)
    assert workers.asked[1:] == [3, 3, 3, 3]  # the first question is how to run the model
    workers = Elsewhere()
    runs.certify(job_of(Duels(), n=700), tmp_path / "b", workers=workers)
    assert workers.asked[1:] == [1] * INPUTS
    monkeypatch.setattr(spreading, "_IN_MEMORY", 2 * 4 * 3 * 750)
    workers = Elsewhere()
    runs.certify(job_of(Duels(), n=700, goal=GOAL, keep=True), tmp_path / "c", workers=workers)
    assert workers.asked[1:] == [2] * 6


def test_rows_before_an_input_that_fails_are_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = runs.Job.input

    def fails(job: runs.Job, index: int) -> Any:
        if index == 4:
            raise DataError("input 4 cannot be read")
        return read(job, index)

    monkeypatch.setattr(runs.Job, "input", fails)
    with pytest.raises(DataError, match="input 4 cannot be read"):
        runs.certify(job_of(Duels(), n=700, goal=GOAL), tmp_path / "a", workers=Elsewhere())
    assert [row.idx for row in Run(tmp_path / "a").rows()] == [0, 1, 2, 3]


def test_scores_of_unequal_number_are_kept_checked_and_merged(whole: Run, tmp_path: Path) -> None:
    shards = [
        fill(tmp_path / str(k), selection=Selection(INPUTS, shard=k, shards=2), keep=True, **SETTINGS) for k in (1, 2)
    ]
    merged = runs.merge(shards, tmp_path / "merged")
    assert sorted(lines(merged)) == sorted(lines(whole))
    for source in (whole, merged):
        again = runs.recertify(source, tmp_path / f"again-{source.directory.name}")
        plain = {"time": 0, "scores": "-", "rounding": None}
        assert [replace(row, **plain) for row in again.rows()] == [replace(row, **plain) for row in source.rows()]  # type: ignore[arg-type]
    file = merged.directory / "scores-certification.npy"
    assert file.exists()
    content = bytearray(file.read_bytes())
    content[200] ^= 1
    file.write_bytes(content)
    with pytest.raises(RunError, match="do not fit their checksum"):
        runs.recertify(Run(merged.directory), tmp_path / "damaged")


def test_scores_that_a_goal_stopped_are_proved_with_bounds_that_hold_at_any_time(whole: Run, tmp_path: Path) -> None:
    for planner in (Cohen(), Votes(), Duels(0.5)):
        name = type(planner).__name__ + str(getattr(planner, "width", ""))
        made = runs.recertify(whole, tmp_path / name, planner)
        assert {row.bound for row in made.rows()} <= {"beta_mixture", "betting_mixture"}
        assert all(new.samples <= old.samples for new, old in zip(made.rows(), whole.rows(), strict=True))  # type: ignore[operator]


class Breaks(Duel):
    """A map of the user's own that fails on certification samples."""

    def columns(self, logits: Tensor, top: int, alone: Tensor, pooled: Tensor) -> Tensor:
        if len(logits) < 50:
            raise KeyError("mine")
        return super().columns(logits, top, alone, pooled)


class Broken(Duels):
    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        return replace(super().choose(logits, terms), map=Breaks())


def test_a_part_of_the_users_own_that_fails_is_one_sentence(whole: Run, tmp_path: Path) -> None:
    with pytest.raises(ProofError, match=r"the proof of a plan by .* fails \(KeyError"):
        runs.recertify(whole, tmp_path / "broken", Broken())


def test_kept_scores_of_one_number_can_be_asked_with_a_goal(tmp_path: Path) -> None:
    source = fill(tmp_path / "a", planner=Duels(), n=700, keep=True, selection=SOME)
    asked = runs.recertify(source, tmp_path / "b", Duels(), goal=GOAL)
    assert lines(asked) == lines(fill(tmp_path / "c", selection=SOME, **SETTINGS))
    looser = runs.recertify(source, tmp_path / "d", Duels(), goal=Goal(tolerance=0.3))
    assert sum(row.samples or 0 for row in looser.rows()) < 700 * 6


def test_a_run_gives_its_job_back_with_its_goal(whole: Run) -> None:
    job = job_of(Duels(), keep=True, n=700, goal=GOAL)
    again = runs.job_of_run(whole, model=job.model, data=job.data)
    assert again.sampling.goal == GOAL
    first = whole.rows()[0]
    assert replace(again.row(0), time=0) == replace(first, time=0, scores="-", rounding=None)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"samples": 701}, "it is from 701 samples, and the run took from 1 to 700"),
        ({"samples": None}, "it is from None samples"),
        ({"bound": "clopper_pearson"}, "its bound is clopper_pearson, which does not hold where sampling stops early"),
    ],
)
def test_rows_that_cannot_be_are_found(whole: Run, changed: dict[str, Any], sentence: str) -> None:
    row = replace(whole.rows()[0], **changed)
    assert sentence in (inconsistency(row, whole.manifest.terms) or "")


def test_what_is_shown(whole: Run) -> None:
    results = analysis.results_of(whole)
    spent = analysis.spending(results)
    assert spent is not None
    samples = [row.samples or 0 for row in whole.rows()]
    assert (spent.total, spent.mean, spent.most) == (sum(samples), sum(samples) / INPUTS, 700)
    assert [each.certified + each.impossible + each.undecided for each in spent.targets] == [INPUTS, INPUTS]
    assert [each.certified for each in spent.targets] == [
        sum(row.radius >= t for row in whole.rows()) for t in (0.1, 0.3)
    ]
    summary = analysis.summarise(results, [0.0, 0.1])
    table = summary_table([summary])
    head, line, *notes = table.splitlines()
    assert len(line) <= len(head)  # notes do not widen the first column
    assert notes[1] == f"{results.name}: {spent.targets[0].words}"
    right = sum(bool(row.correct) for row in whole.rows() if row.radius >= 0.1)
    assert spent.targets[0].correct == right < spent.targets[0].certified
    assert spent.targets[0].words == f"0.1: {spent.targets[0].certified} certified ({right} of them correctly), " + (
        f"{spent.targets[0].impossible} cannot be certified, {spent.targets[0].undecided} undecided"
    )
    assert notes[-1].startswith(f"{results.name}: sampling stopped when it was decided whether 0.1 and 0.3 can be")
    (found,) = json.loads(summary_table([summary], "json"))
    assert found["samples"]["total"] == spent.total
    assert "mean samples" in summary_table([summary], "csv")
    assert results.only(results.idx[:3]).samples is not None
    words = guarantee(whole.manifest, kinds_of_rows(whole))
    assert "at most 700 others" in words
    assert "Sampling for an input stopped when it is decided whether 0.1 and 0.3 can be certified" in words
    assert settings_shown(whole.manifest)["sampling stops"] == GOAL.words


def test_what_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="a goal has no effect, since Deterministic takes no samples"):
        job_of(Deterministic(), goal=GOAL)
    with pytest.raises(InvalidArgumentError, match="goal must be a goal"):
        runs.Sampling(goal=0.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="a budget for all inputs is spent by one process"):
        runs.certify(job_of(Duels(), goal=Goal(budget=10**5)), "nowhere", workers=Processes(2))


class RoundedByBatch(RowByRow):
    """Another rounding in each batch size, so large that samples near a tie may change sides."""

    def __call__(self, x: Tensor) -> Tensor:
        exact = super().__call__(x)
        noise = torch.sin(1e6 * exact + len(x))
        rounded = exact + 200 * 2.0**-24 * exact.abs().amax(dim=1, keepdim=True) * noise
        return exact if x.dtype == torch.float64 else rounded.float()


def reached_late(goal: Goal, now: InterimResult) -> bool:
    return now.n >= 200 and _REACHED(goal, now)


_REACHED = Goal.reached


@pytest.mark.usefixtures("no_measuring")
def test_other_roundings_may_move_the_stop_and_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    goal = Goal(tolerance=0.25)
    made = job_of(Duels(0.5), SOME, model=RoundedByBatch(), keep=True, n=700, goal=goal)
    run = runs.certify(made, tmp_path / "a")
    found = runs.verify(run, runs.job_of_run(run, data=made.data, model=made.model, batch=32), rows=None)
    assert {row.verdict for row in found.rows} <= {"equal", "rounding"}, [(row.idx, row.why) for row in found.rows]
    assert found.count("rounding") > 0
    first = run.rows()[0]
    assert first.limit is not None
    head, line, *rest = run.file.read_text().split("\n")
    for changed in ({"limit": first.limit + 0.1}, {"samples": 32}):
        run.file.write_text("\n".join([head, replace(first, **changed).text(run.columns), *rest]))
        again = runs.job_of_run(Run(run.directory), data=made.data, model=made.model, batch=32)
        (verdict_,) = [row for row in runs.verify(Run(run.directory), again, rows=None).rows if row.idx == 0]
        assert verdict_.verdict == "different", changed
    run.file.write_text("\n".join([head, replace(first, limit=None).text(run.columns), *rest]))
    assert Run(run.directory).rows()[0].limit is None  # more samples may certify any radius
    run.file.write_text("\n".join([head, replace(first, limit=-1.0).text(run.columns), *rest]))
    with pytest.raises(RunError, match="limit of input 0 is -1, and must be a finite number from 0"):
        Run(run.directory).rows()
    run.file.write_text("\n".join([head, line, *rest]))
    # A sampling that stops later now is compared with the scores that were kept, and not with what lies behind them.
    monkeypatch.setattr(Goal, "reached", reached_late)
    late = runs.verify(Run(run.directory), again, rows=None)
    assert all((row.logits or 0) < 1e-3 for row in late.rows)


def test_what_a_budget_leaves_is_told(tmp_path: Path) -> None:
    run = fill(tmp_path / "a", planner=Duels(), n=300, goal=Goal(budget=10**6))
    rows, spent = run.rows(), analysis.spending(analysis.results_of(run))
    assert spent is not None
    wrong = [row for row in rows if row.top != row.label]
    assert spent.left == len(wrong)
    assert {row.samples for row in wrong} <= {32}
    assert spent.unspent == 10**6 - sum((row.samples or 0) + 50 for row in rows)
    told = analysis.spending_words(spent)
    assert told[-1] == f"{spent.unspent} samples of the budget not drawn: no input that counts could use them"
    assert "fewer than" not in told[0]
    words = guarantee(run.manifest, kinds_of_rows(run))
    assert "divides 1000000 samples among all inputs to make the average radius of right answers largest" in words
    assert "limit" not in words
    assert settings_shown(run.manifest).get("beta") is None
