"""Results that are easily misread say how to read them: goals, averages, names, and which inputs are safe."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lvmrs import analysis
from lvmrs.analysis import plots
from lvmrs.analysis.metrics import QUANTILES, p_lower_quantiles
from lvmrs.analysis.tables import quantile_table, summary_table
from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel.method import Goal
from lvmrs.record import Row, Run, RunWriter
from lvmrs.record.attacks import AttackRecord, AttackRow, AttackWriter
from tests.cli.helpers import run as lvmrs
from tests.manifests import manifest

ROWS = [(0, 0, 0, 0.2, 0.7), (1, 1, 0, 0.3, 0.9), (2, 1, -1, 0.0, 0.4), (3, 2, 2, 0.5, 0.95), (4, 1, 1, 0.6, 0.99)]
"""Index, label, prediction, radius and p_lower: right, wrong, an abstention, right, right."""
TARGETS = "sampling stopped when it was decided whether 0.25 and 0.5 can be certified: compare certified accuracy only"


def made(place: Path, rows: list[tuple[int, int, int, float, float]] = ROWS, **terms: Any) -> Run:
    """A run of these rows; the names of the inputs are those of files, but for the last."""
    goal = terms.get("goal") is not None
    with RunWriter(place, manifest(5, **terms)) as writer:
        for idx, label, predict, radius, p_lower in rows:
            parts: dict[str, Any] = {"map": "duel", "temperature": 1.0, "mass": 1.0, "bound": "clopper_pearson"}
            risks: dict[str, Any] = {"form": "r3", "risk_top": 0.0, "groups": "each", "risk_groups": "0.001"}
            writer.append(
                Row(
                    idx, label, predict, radius, int(predict == label), 0.1, p_lower, 1 - p_lower, max(predict, 0),
                    **parts, **risks, name=None if idx == 4 else f"dir/=img {idx}.png",
                    samples=64 if goal else None, limit=0.7 if goal else None,
                )
            )  # fmt: skip
        return writer.run


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- p_lower beside the average radius


def test_the_distribution_of_p_lower_counts_other_classes_as_0(place: Path) -> None:
    """Input 1 was planned for another class; the abstention too, since its top class is 0."""
    results = analysis.results_of(made(Path("a")))
    assert results.maps == ("duel",)
    assert p_lower_quantiles(results) == (0.0, 0.0, 0.7, 0.95, 0.95)
    summary = analysis.summarise(results, [0.0])
    table = quantile_table([summary])
    assert table is not None
    head, row, note = table.splitlines()
    assert head.split() == ["p_lower", "scores", "10", "%", "25", "%", "50", "%", "75", "%", "90", "%"]
    assert row.split() == ["a", "duel", "0.0000", "0.0000", "0.6999", "0.9499", "0.9499"]
    assert note.startswith("p_lower: lower bound on the mean score of the label under noise, 0 where another class")
    both = quantile_table([summary, replace(summary, name="b", maps=("softmax",))]) or ""
    assert both.splitlines()[-1] == "the scores of different maps do not compare with one another"
    (shown,) = json.loads(summary_table([summary], "json"))
    assert shown["p_lower quantiles"] == {"0.1": 0.0, "0.25": 0.0, "0.5": 0.7, "0.75": 0.95, "0.9": 0.95}
    cells = list(csv.DictReader(io.StringIO(summary_table([summary], "csv"))))
    assert [row["value"] for row in cells if row["measure"] == "p_lower, 50 % quantile"] == ["0.7"]


def test_at_least_the_stated_share_of_inputs_has_the_value_of_a_quantile() -> None:
    for n in (1, 2, 7, 10, 99, 100, 101):
        bounds, classes = np.random.default_rng(n).random(n), np.zeros(n, int)
        run = analysis.Results("a", np.arange(n), classes, classes, np.ones(n), top=classes, p_lower=bounds)
        found = p_lower_quantiles(run)
        assert found is not None
        for share, value in zip(QUANTILES, found, strict=True):
            assert (bounds >= value).mean() >= 1 - share
            assert value in bounds


def test_without_noise_or_bounds_there_is_no_distribution(place: Path) -> None:
    bounds: dict[str, Any] = {"sigma": None, "alpha": 0.0, "n0": 0, "n": 0, "lipschitz": 1.0}
    results = analysis.results_of(made(Path("a"), **bounds))  # p_lower is a logit there
    assert p_lower_quantiles(results) is None
    assert quantile_table([analysis.summarise(results, [0.0])]) is None


def test_analyze_shows_it_below_the_table(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(Path("a"))
    for form, between in (("table", "\n\np_lower "), ("markdown", "\n\n| p_lower "), ("latex", "\n\n\\begin{tabular}")):
        code, out, _ = lvmrs(f"analyze a --format {form}", capsys)
        assert (code, out.count(between)) == (0, 1)
    for form in ("csv", "json"):
        assert "\n\n" not in lvmrs(f"analyze a --format {form}", capsys)[1]


# ---- goals


def test_a_goal_is_told_wherever_its_radii_are_shown(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = made(Path("plain"))
    goals = {
        "targets": (Goal(targets=(0.25, 0.5)), f"targets: {TARGETS}", "targets 0.25, 0.5"),
        "near": (Goal(tolerance=0.05), "near: sampling stopped within a tolerance: each radius may be up to 0.05 below",
                 "tolerance 0.05"),
        "budget": (Goal(budget=5000), "budget: its budget of 5000 samples was allocated to raise the average radius of",
                   "budget 5000"),
    }  # fmt: skip
    for name, (goal, sentence, words) in goals.items():
        run = made(Path(name), goal=goal)
        results = first, second = analysis.results_of(plain), analysis.results_of(run)
        (said,) = analysis.stopped_early(*results)
        assert said.startswith(sentence)
        assert f"\n{said}" in summary_table([analysis.summarise(result, [0.5]) for result in results])
        assert f"\n% {said}" in summary_table([analysis.summarise(second, [0.5])], "latex")
        assert analysis.compare(first, second, [0.5]).warnings == [said]
        for figure in (plots.curves(results), plots.radii(results)):
            texts = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]  # type: ignore[union-attr]
            assert texts == [" plain", f" {name} (sampling: {words})"]
        code, _, err = lvmrs(f"plot plain {name} -o {name}.svg", capsys)
        assert (code, err) == (0, f"caution: {said}\nwrote {name}.svg\n")


def test_average_radii_are_not_compared_where_targets_cut_them(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, goal in (("a", None), ("near", Goal(tolerance=0.05)), ("t", Goal(targets=(0.25, 0.5)))):
        made(Path(name), goal=goal)
    assert lvmrs("compare a near", capsys)[1].splitlines()[-1].startswith("5 inputs; ACR 0.2599 and")
    code, out, err = lvmrs("compare a t", capsys)
    assert code == 0
    assert out.splitlines()[-1] == ("5 inputs; average radii are not compared, since sampling stopped at target radii")
    assert err.startswith(f"caution: t: {TARGETS}")


def test_a_target_says_how_many_of_its_answers_are_right(place: Path) -> None:
    made(Path("t"), goal=Goal(targets=(0.25,)))
    spent = analysis.spending(analysis.read("t"))
    assert spent is not None
    (target,) = spent.targets
    assert target.words == "0.25: 3 certified (2 of them correctly), 0 cannot be certified, 2 undecided"


def test_without_labels_a_target_and_the_quantiles_count_every_answer(place: Path) -> None:
    results = replace(analysis.results_of(made(Path("t"), goal=Goal(targets=(0.25,)))), label=None)
    spent = analysis.spending(results)
    assert spent is not None
    assert spent.targets[0].words == "0.25: 3 certified, 0 cannot be certified, 2 undecided"
    assert p_lower_quantiles(results) == (0.4, 0.7, 0.9, 0.95, 0.95)
    assert "certified correctly" not in summary_table([analysis.summarise(results, [0.0])], "csv")


# ---- names of runs


def test_runs_can_be_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        made(Path(name))
    with RunWriter("empty", manifest(5)):
        pass
    code, out, err = lvmrs("analyze a empty b --names Cohen,nothing,LVM$", capsys)
    assert (code, err) == (3, "left out: empty has no rows yet; there is nothing to analyse\n")
    assert [line.split()[0] for line in out.splitlines()[:3]] == ["run", "Cohen", "LVM$"]
    _, out, _ = lvmrs("compare a b --names Cohen,LVM$ --radii 0.25", capsys)
    assert out.split("\n")[0].split()[:3] == ["radius", "Cohen", "LVM$"]
    assert lvmrs("plot a b --names first,second -o a.svg", capsys)[0] == 0
    for line in ("analyze a b --names one", "analyze a b --names one,one", "compare a b --names one,"):
        code, out, err = lvmrs(line, capsys)
        assert (code, out) == (2, "")
        assert "names must be 2 different names, one for each run, got 'one'" in err
    code, _, err = lvmrs("plot a --kind choices --names one -o b.svg", capsys)
    assert code == 2
    assert "names has no effect: kind choices shows no names of runs" in err
    with pytest.raises(InvalidArgumentError, match="names must be 1 different names"):
        analysis.named([analysis.read("a")], ["x", "y"])
    assert [result.name for result in analysis.named([analysis.read("a")], None)] == ["a"]


# ---- which inputs are safe


def test_the_safe_inputs_of_a_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made(Path("a"), ROWS[::-1])
    assert [row.idx for row in analysis.safe_inputs(run, 0.3)] == [1, 3, 4]  # a radius that is just reached counts
    assert [row.idx for row in analysis.safe_inputs(run, 0.0)] == [0, 1, 3, 4]  # an abstention never does
    assert [row.idx for row in analysis.safe_inputs(run, 0.3, correct=True)] == [3, 4]
    code, out, err = lvmrs("safe a --radius 0.3", capsys)
    assert (code, err) == (0, "3 of 5 inputs are certified at 0.3; 1 of these for a wrong class\n")
    assert [line.split(maxsplit=4) for line in out.splitlines()] == [
        ["idx", "class", "radius", "correct", "name"],
        ["1", "0", "0.2999", "0", "dir/=img 1.png"],
        ["3", "2", "0.5000", "1", "dir/=img 3.png"],
        ["4", "1", "0.5999", "1", "-"],
    ]
    code, out, err = lvmrs("safe a --radius 0.3 --correct --format csv -o safe.csv", capsys)
    assert (code, out) == (0, "")
    assert err == "2 of 5 inputs are certified at 0.3; wrong answers are left out\n"
    assert Path("safe.csv").read_text() == "idx,class,radius,correct,name\n3,2,0.5,1,dir/=img 3.png\n4,1,0.6,1,-\n"
    found = json.loads(lvmrs("safe a --radius 0.55 --format json", capsys)[1])
    assert found == [{"idx": 4, "class": 1, "radius": 0.6, "correct": 1, "name": None}]
    assert lvmrs("safe a --radius 9", capsys)[1] == "idx  class  radius  correct  name\n"


def test_without_labels_all_certified_inputs_are_listed(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [replace(row, correct=None) for row in made(Path("a")).rows()]
    monkeypatch.setattr(Run, "rows", lambda run: rows)
    code, out, err = lvmrs("safe a --radius 0.55", capsys)
    assert (code, out.splitlines()[1].split()) == (0, ["4", "1", "0.5999", "-", "-"])
    assert err == "1 of 5 inputs are certified at 0.55; without labels, wrong answers among these are unknown\n"
    code, _, err = lvmrs("safe a --radius 0.55 --correct", capsys)
    assert (code, err) == (
        1, "lvmrs: a has no labels, so that wrong answers are unknown; list all certified inputs\n",
    )  # fmt: skip


def test_a_broken_certificate_is_not_safe(place: Path) -> None:
    run = made(Path("a"))
    record = AttackRecord(steps=1, restarts=1, samples=1, n=100, beta=0.001, seed=0, farthest=None, clip=False)
    with AttackWriter(run, run.directory, record) as writer:
        writer.append(AttackRow.of(run.rows()[4], 0.55, 0, 1, 1.0), np.zeros(3))
        writer.append(AttackRow.of(run.rows()[3], 0.55, 0, 1, 1.0), None)
    assert [row.idx for row in analysis.safe_inputs(run, 0.4)] == [3]


def test_unfinished_runs_and_goals_are_told_and_mistakes_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(Path("a"), ROWS[:3], goal=Goal(targets=(0.25, 0.5)))
    code, out, err = lvmrs("safe a --radius 0.1", capsys)
    assert (code, len(out.splitlines())) == (3, 3)
    assert f"\ncaution: a: {TARGETS}" in err
    assert err.endswith("a is not finished: 2 inputs are missing\n")
    for line, sentence in (
        ("safe a --radius -1", "radius must be"),
        ("safe a --radius nan", "radius must not be NaN"),
        ("safe a --radius 0.1 --format xml", "format must be one of list, csv, json, got 'xml'"),
        ("safe a", "Missing option '--radius'"),
    ):
        code, out, err = lvmrs(line, capsys)
        assert (code, out) == (2, "")
        assert sentence in err
    assert "nowhere is not a run" in lvmrs("safe nowhere --radius 0.1", capsys)[2]
