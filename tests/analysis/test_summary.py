"""One summary for all formats, and one curve for figures and pages."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest

from lvmrs import analysis
from lvmrs.analysis import Results, Summary
from lvmrs.analysis.metrics import largest_radius
from lvmrs.analysis.tables import summary_table


def results(count: int = 40, name: str = "r") -> Results:
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, count)
    predict = np.where(rng.random(count) < 0.7, label, rng.integers(-1, 3, count))
    return Results(name, np.arange(count), label, predict, np.where(predict == -1, 0.0, rng.random(count)))


def both() -> list[Summary]:
    """One run with the answers without noise, and one that has none."""
    plain = results(name="plain")
    assert plain.label is not None
    measured = replace(plain, name="measured", clean=np.where(plain.idx < 10, 2 - plain.label, plain.label))
    return [analysis.summarise(run, [0.0, 0.5]) for run in (measured, plain)]


def test_a_summary_has_the_measures_of_its_run() -> None:
    run = replace(results(), missing=3)
    found = analysis.summarise(run, [0.0, 0.5], confidence=0.9)
    assert (found.name, found.inputs, found.missing, found.confidence, found.radii) == ("r", 40, 3, 0.9, (0.0, 0.5))
    assert list(found.certified_accuracy) == analysis.certified_accuracy_intervals(run, [0.0, 0.5], confidence=0.9)
    assert found.average_certified_radius == analysis.average_certified_radius(run, confidence=0.9)
    assert found.abstention == analysis.abstention(run, confidence=0.9)
    assert found.clean_accuracy is None


@pytest.mark.parametrize("form", ["table", "markdown", "latex"])
def test_clean_accuracy_has_a_column_where_a_run_has_measured_it(form: str) -> None:
    measured, plain = both()
    assert measured.clean_accuracy is not None
    assert "clean" not in summary_table([plain], form)
    words = summary_table([measured, plain], form, envelope=True).replace("&", "|").splitlines()
    head, first, second, best = (
        [cell for cell in next(line for line in words if name in line).replace("|", " ").split() if cell != "\\\\"]
        for name in ("inputs", "measured", "plain", "best")
    )
    assert [head[2], first[2], second[2]] == ["clean", f"{100 * measured.clean_accuracy.value:.1f}", "-"]
    assert len(head) == len(first) == len(second)
    assert best[:4] == ["best", "at", "each", "radius"]
    assert best[4:] == first[3:5]  # nothing for inputs and clean


def test_clean_accuracy_for_programs() -> None:
    measured, plain = both()
    assert measured.clean_accuracy is not None
    rows = list(csv.DictReader(io.StringIO(summary_table([measured, plain], "csv"))))
    (row,) = (row for row in rows if row["measure"] == "clean accuracy")
    assert (row["run"], float(row["value"])) == ("measured", measured.clean_accuracy.value)
    first, second = json.loads(summary_table([measured, plain], "json"))
    assert first["clean accuracy"] == measured.clean_accuracy.value
    assert first["clean accuracy interval"] == pytest.approx(measured.clean_accuracy[1:])
    assert second["clean accuracy"] is second["clean accuracy interval"] is None


def test_the_curve_is_the_certified_accuracy_at_each_of_its_steps() -> None:
    run = results()
    found = analysis.curve(run)
    assert found.radius[0] == 0
    assert set(run.radius[run.correct].tolist()) <= set(found.radius.tolist())
    assert found.share.tolist() == analysis.certified_accuracy(run, found.radius.tolist())
    between = (found.radius[1:] + found.radius[:-1]) / 2
    assert analysis.certified_accuracy(run, between.tolist()) == found.share[1:].tolist()  # it holds back to the last
    assert (found.low <= found.share).all()
    assert (found.share <= found.high).all()
    assert found.share[-1] == 0
    assert analysis.curve(run, end=7.0).radius[-1] == 7.0


def test_a_curve_of_very_many_steps_is_never_too_high() -> None:
    run = results(5000)
    found = analysis.curve(run)
    assert len(found.radius) <= 501
    inside = np.random.default_rng(1).random(1000) * largest_radius(run)
    shown = found.share[np.searchsorted(found.radius, inside)]
    true = np.array(analysis.certified_accuracy(run, inside.tolist()))
    assert (shown <= true).all()
    assert (true - shown).max() < 0.01


def test_a_curve_where_nothing_is_certified() -> None:
    nothing = Results("r", np.arange(3), np.zeros(3, int), np.full(3, -1), np.zeros(3))
    found = analysis.curve(nothing)
    assert found.radius.tolist() == [0.0, 1.03]
    assert found.share.tolist() == [0.0, 0.0]
    assert found.high[0] < 1
