"""What a budget bought against the same samples spread evenly: the estimate is close to what they do give."""

from pathlib import Path
from typing import Any

import pytest

from lvmrs import Cohen, Duels, Fixed, Votes, jobs
from lvmrs.goals import Goal
from lvmrs.method import Method
from lvmrs.runs import Run
from tests.jobs.helpers import INPUTS, fill
from tests.quick import without_trials

BUDGET = Goal((0.1, 0.3), budget=INPUTS * 400)
PLANNED = Goal(budget=INPUTS * 400)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    without_trials(monkeypatch)


def average(run: Run, least: float = 0.0) -> float:
    rows = [row for row in run.rows() if row.correct and row.radius >= least]
    return sum(row.radius if not least else 1 for row in rows) / run.count


@pytest.mark.parametrize("planner", [Duels(), Votes(), Cohen()], ids=repr)
def test_it_is_close_to_what_the_same_number_for_each_gives(planner: Method, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"planner": planner, "n": 1500}
    budget = fill(tmp_path / "a", goal=BUDGET, **settings)
    found = jobs.spread_evenly(budget)
    assert found is not None
    assert found.n == sum(row.samples or 0 for row in budget.rows()) // INPUTS
    even = fill(tmp_path / "b", planner=planner, n=found.n)
    assert found.average == pytest.approx(average(even), abs=0.02)
    assert [found.targets[target] for target in BUDGET.targets] == pytest.approx(
        [average(even, target) for target in BUDGET.targets], abs=1.5 / INPUTS
    )
    assert found.words.startswith(f"the same samples spread evenly, {found.n} an input, would give about 0.")
    assert found.words.endswith("(an estimate)")
    assert found.object["targets"][1] == {"target": 0.3, "certified accuracy": found.targets[0.3]}


@pytest.mark.parametrize("planner", [Duels(), Votes(), Cohen()], ids=repr)
def test_it_is_close_for_numbers_that_were_planned(planner: Method, tmp_path: Path) -> None:
    found = jobs.spread_evenly(fill(tmp_path / "a", planner=planner, n=1500, goal=PLANNED))
    assert found is not None
    assert found.average == pytest.approx(average(fill(tmp_path / "b", planner=planner, n=found.n)), abs=0.02)


def test_there_is_none_without_a_budget_or_for_soft_scores(tmp_path: Path) -> None:
    assert jobs.spread_evenly(fill(tmp_path / "a", planner=Duels(), goal=Goal((0.3,)))) is None
    assert jobs.spread_evenly(fill(tmp_path / "b", planner=Duels())) is None
    soft = fill(tmp_path / "c", planner=Fixed("softmax", 0.3), goal=Goal(budget=INPUTS * 100))
    assert jobs.spread_evenly(soft) is None


def test_there_is_none_for_parts_that_are_not_known(tmp_path: Path) -> None:
    run = fill(tmp_path / "a", planner=Duels(), goal=Goal(budget=INPUTS * 200))
    assert jobs.spread_evenly(run) is not None
    run.file.write_text(run.file.read_text().replace("\tduel\t", "\tmy-duel\t"))
    assert jobs.spread_evenly(Run(tmp_path / "a")) is None
