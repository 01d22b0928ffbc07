"""What rows amount to, against plain counting, SciPy and simulation."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lvmrs import analysis
from lvmrs._util.text import outward, percent
from lvmrs.analysis import Results
from lvmrs.analysis.metrics import mean_interval, share_interval
from lvmrs.errors import InvalidArgumentError, LvmrsError, RunError
from tests.manifests import manifest

HEAD = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n"


def results(seed: int = 0, count: int = 50, name: str = "r", **made: Any) -> Results:
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, count)
    predict = np.where(rng.random(count) < 0.7, label, rng.integers(-1, 3, count))
    radius = np.where(predict == -1, 0.0, np.round(rng.random(count), 2))
    return Results(name, np.arange(count), label, predict, radius, manifest=manifest(**made) if made else None)


@given(st.integers(0, 1000), st.lists(st.floats(0, 1.2), min_size=1, max_size=5))
def test_shares_and_averages_are_what_counting_gives(seed: int, radii: list[float]) -> None:
    run = results(seed)
    assert run.label is not None
    rows = list(zip(run.label.tolist(), run.predict.tolist(), run.radius.tolist(), strict=True))
    for radius, share in zip(radii, analysis.certified_accuracy(run, radii), strict=True):
        assert share == sum(1 for y, p, r in rows if y == p and r >= radius) / 50
    assert analysis.average_certified_radius(run).value == pytest.approx(sum(r for y, p, r in rows if y == p) / 50)
    assert analysis.abstention(run).value == sum(1 for _, p, _ in rows if p == -1) / 50
    noiseless = np.random.default_rng(seed).permutation(run.label)
    clean = analysis.clean_accuracy(replace(run, clean=noiseless))
    assert clean is not None
    assert clean.value == sum(1 for (y, _, _), p in zip(rows, noiseless.tolist(), strict=True) if y == p) / 50
    assert (clean.low, clean.high) == share_interval(round(50 * clean.value), 50)[1:]
    assert analysis.clean_accuracy(run) is None  # not measured, and not guessed from the answers under noise


def test_a_radius_that_is_just_reached_counts() -> None:
    run = Results("r", np.arange(2), np.zeros(2, int), np.zeros(2, int), np.array([0.25, 0.5]))
    assert analysis.certified_accuracy(run, [0.25, 0.25000001, 0.5, 0.51]) == [1.0, 0.5, 0.5, 0.0]


@given(st.integers(1, 200), st.data(), st.floats(0.5, 0.999))
def test_intervals_of_shares_against_scipy(total: int, data: st.DataObject, confidence: float) -> None:
    count = data.draw(st.integers(0, total))
    expected = stats.binomtest(count, total).proportion_ci(confidence, method="exact")
    found = share_interval(count, total, confidence)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_intervals_of_means_against_scipy() -> None:
    values = np.random.default_rng(0).gamma(2.0, size=40)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    found = mean_interval(values, 0.9)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert mean_interval(values[:1]).low == -np.inf
    assert mean_interval(np.zeros(9)).high == np.inf
    equal = np.full(60, 0.9534)
    assert equal.std() > 0  # rounded
    assert mean_interval(equal).high == np.inf


def test_intervals_hold_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    repeats, n, p = 2000, 80, 0.3
    shares = [share_interval(int(k), n) for k in rng.binomial(n, p, repeats)]
    missed = sum(not share.low <= p <= share.high for share in shares)
    assert stats.binomtest(missed, repeats, 0.05, alternative="greater").pvalue > 1e-3
    # Radii: nothing for a third of the inputs, else spread evenly; the mean is a third.
    samples = np.where(rng.random((repeats, n)) < 1 / 3, 0.0, rng.random((repeats, n)))
    means = [mean_interval(row) for row in samples]
    missed = sum(not mean.low <= 1 / 3 <= mean.high for mean in means)
    # Student's interval is exact for normal values only: a quarter more is allowed for.
    assert stats.binomtest(missed, repeats, 0.0625, alternative="greater").pvalue > 1e-3
    assert missed > 0.02 * repeats  # nor is it idle


@pytest.mark.parametrize(("n", "share"), [(100, 0.02), (500, 0.01), (500, 0.02), (80, 0.6)])
def test_the_average_radius_of_few_certified_inputs(n: int, share: float) -> None:
    """Where few inputs have a radius, Student's interval alone would miss up to a quarter of the time."""
    rng = np.random.default_rng(2)
    repeats, missed = 1000, 0
    for _ in range(repeats):
        radius = np.where(rng.random(n) < share, rng.random(n), 0.0)
        run = Results("r", np.arange(n), np.zeros(n, int), np.where(radius > 0, 0, -1), radius)
        found = analysis.average_certified_radius(run)
        missed += not found.low <= share / 2 <= found.high
    assert stats.binomtest(missed, repeats, 0.0625, alternative="greater").pvalue > 1e-3


def test_the_best_over_runs_is_the_upper_envelope() -> None:
    low, high = results(1, name="low"), results(2, name="high")
    radii = [0.0, 0.3, 0.9]
    both = np.array([analysis.certified_accuracy(run, radii) for run in (low, high)])
    summaries = [analysis.summarise(run, radii) for run in (low, high)]
    best = analysis.best_over_runs(summaries)
    assert [share for share, _ in best] == both.max(axis=0).tolist()
    runs = {"low": low, "high": high}
    assert all(
        share == analysis.certified_accuracy(runs[run.name], [r])[0]
        for r, (share, run) in zip(radii, best, strict=True)
    )
    with pytest.raises(RunError, match="no runs were given"):
        analysis.best_over_runs([])
    with pytest.raises(RunError, match="summarised at different radii"):
        analysis.best_over_runs([summaries[0], analysis.summarise(high, [0.5])])


def test_the_paired_comparison_against_scipy() -> None:
    first, second = results(3, 200), results(3, 200)
    better = np.random.default_rng(5).random(200) < 0.1
    second = Results("s", second.idx, second.label, second.predict, second.radius + 0.2 * better)
    found = analysis.compare(first, second, [0.0, 0.5])
    for pair in found.pairs:
        one = first.correct & (first.radius >= pair.radius)
        other = second.correct & (second.radius >= pair.radius)
        assert pair.both + pair.only_first + pair.only_second + pair.neither == 200
        assert pair.only_second == int((other & ~one).sum())
        differ = pair.only_first + pair.only_second
        expected = stats.binomtest(pair.only_first, differ, 0.5).pvalue if differ else 1.0
        assert pair.p_value == pytest.approx(expected)
    a, b = (np.where(run.correct, run.radius, 0.0) for run in (first, second))
    expected_interval = stats.ttest_rel(b, a).confidence_interval(0.95)
    assert found.average_difference.low == pytest.approx(expected_interval.low)
    assert found.average_difference.high == pytest.approx(expected_interval.high)
    assert found.warnings == []


def test_only_common_inputs_are_compared_and_it_is_said() -> None:
    whole, part = results(3, 50, "whole"), results(3, 50)
    assert part.label is not None
    part = Results("part", part.idx[::2][::-1], part.label[::2][::-1], part.predict[::2][::-1], part.radius[::2][::-1])
    found = analysis.compare(whole, part, [0.0])
    assert found.inputs == 25
    assert found.pairs[0].only_first == found.pairs[0].only_second == 0
    assert found.warnings == ["the subsets differ: 50 and 25 inputs, 25 in common; those are compared"]


def test_why_two_runs_cannot_be_compared() -> None:
    first = results(3, name="a", alpha=0.001, sigma=0.5, n=1000, data_hash="x")
    assert analysis.differences(first, results(3, alpha=0.001, sigma=0.5, n=1000, data_hash="x")) == []
    other = results(3, name="b", alpha=0.01, sigma=0.25, n=10, data_hash="y")
    assert analysis.differences(first, other) == [
        "the hashes of their data differ: other data, or another split or size",
        "the risks α differ: 0.001 and 0.01",
        "the noises σ differ: 0.5 and 0.25",
        "the numbers of samples n differ: 1000 and 10",
    ]
    assert "the labels of the same inputs differ" in analysis.differences(first, results(9))[0]
    unfinished = Results("u", first.idx, first.label, first.predict, first.radius, missing=3)
    assert analysis.unfinished(first, unfinished) == ["u is not finished: 3 inputs are missing"]
    far = Results("far", first.idx + 1000, first.label, first.predict, first.radius)
    with pytest.raises(RunError, match="have no input in common"):
        analysis.compare(first, far, [0.0])


def test_a_comparison_shows_itself() -> None:
    shown = analysis.compare(results(1, name="<a>"), results(2, name="b"), [0.0])._repr_html_()
    assert "&lt;a&gt;" in shown
    assert "<b>Caution:</b> the labels" in shown


# ---- files of other projects


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    return path


@pytest.mark.parametrize(
    "rows",
    [
        "0\t3\t3\t0.953\t1\t0:00:14.473020\n20\t8\t1\t0.2\t0\t0:00:14.417257\n40\t0\t-1\t0.0\t0\t0:00:01.0\n",
        "0\t3\t3\t0.953\tTrue\t14.4\n20\t8\t1\t0.2\tFalse\t14.4\n40\t0\t-1\t0.0\tFalse\t1\n",
        "0\t3\t3\t0.953\t1\t14.4\n20\t8\t1\t0.2\t1\t14.4\n40\t0\t-1\t0.0\t1\t1\n",  # a running total
    ],
)
def test_their_quirks_are_known(tmp_path: Path, rows: str) -> None:
    found = analysis.read(write(tmp_path / "a.tsv", HEAD + rows))
    assert found.idx.tolist() == [0, 20, 40]
    assert found.correct.tolist() == [True, False, False]
    assert analysis.certified_accuracy(found, [0.0, 0.953, 0.954]) == [1 / 3, 1 / 3, 0.0]
    assert repr(found) == f"<Results {tmp_path / 'a.tsv'}: 3 inputs>"


def test_extra_columns_in_any_order(tmp_path: Path) -> None:
    text = "note\tradius\tpredict\tidx\tlabel\nfine\t0.5\t1\t7\t1\nodd\t0.1\t2\t8\t1\n"
    found = analysis.read(write(tmp_path / "a.tsv", text))
    assert found.idx.tolist() == [7, 8]
    assert found.correct.tolist() == [True, False]


def test_a_last_line_needs_no_end_in_files_of_others(tmp_path: Path) -> None:
    rows = "0\t1\t1\t0.5\t1\t1\n1\t1\t0\t0.7\t1\t1"
    for name, text in (("a.tsv", HEAD + rows), ("b.tsv", "\ufeff" + (HEAD + rows).replace("\n", "\r\n") + "\r\n\r\n")):
        assert analysis.read(write(tmp_path / name, text)).radius.tolist() == [0.5, 0.7]


def test_an_abstention_is_never_right(tmp_path: Path) -> None:
    found = analysis.read(write(tmp_path / "a.tsv", HEAD + "0\t-1\t-1\t0.0\t1\t1\n1\t1\t1\t0.7\t1\t1\n"))
    assert found.correct.tolist() == [False, True]


def test_the_published_accuracies_come_out_to_the_last_digit() -> None:
    assert [percent(share) for share in (0.5015, 0.2215, 0.9996, 1.0, 0.0)] == ["50.1", "22.2", "99.9", "100.0", "0.0"]
    assert outward(0.12341, 0.12341) == "0.1234–0.1235"


BAD = {
    "header only": (HEAD, "has no rows, only a header"),
    "no header": ("0\t1\t1\t0.5\t1\t1\n", "column idx is missing; the first line must name the columns"),
    "empty": ("", "is empty; expected a line with the names of the columns"),
    "header without end": (HEAD.strip(), "has no rows, only a header"),
    "infinite": (HEAD + "3\t1\t1\tinf\t1\t1\n", "the radius of input 3 is inf, and must be a finite number from 0"),
    "negative": (HEAD + "3\t1\t1\t-0.5\t1\t1\n", "the radius of input 3 is -0.5"),
    "infinite label": (HEAD + "3\tinf\t1\t0.5\t1\t1\n", "label is 'inf', and must be a whole number"),
    "index below 0": (HEAD + "-3\t1\t1\t0.5\t1\t1\n", "index -3 is below 0"),
    "missing column": ("idx\tlabel\tpredict\tcorrect\n0\t1\t1\t1\n", "column radius is missing"),
    "NaN": (HEAD + "3\t1\t1\tnan\t1\t1\n", "the radius of input 3 is nan"),
    "twice": (HEAD + "3\t1\t1\t0.5\t1\t1\n" * 2, "input 3 has two rows; remove one of them"),
    "mixed": ("sigma\t" + HEAD + "0.5\t1\t1\t1\t.1\t1\t1\n0.25\t2\t1\t1\t.1\t1\t1\n", "mixes sigma 0.25 and 0.5"),
    "words": (HEAD + "zero\t1\t1\t0.5\t1\t1\n", "line 2 is damaged: idx is 'zero', and must be a whole number"),
    "short": (HEAD + "0\t1\t1\t0.5\t1\t1\n\n1\t1\n", "line 4 has 2 columns instead of 6; it is damaged"),
    "no number": (HEAD + "0\t1\t1\t?\t1\t1\n", "line 2 is damaged: radius is '?', and must be a number"),
    "written as Python writes it": (HEAD + "0\t1\t1\t1_0\t1\t1\n", "is damaged: could not convert string '1_0'"),
    "not text further on": (HEAD + "0\t1\t1\t0.5\t1\t\udcff\n", "is not a text file: 'utf-8' codec can't decode"),
    "halves": (HEAD + "0.5\t1\t1\t0.5\t1\t1\n", "column idx must hold whole numbers"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_get_one_clear_sentence(tmp_path: Path, case: str) -> None:
    text, sentence = BAD[case]
    with pytest.raises(LvmrsError) as caught:
        analysis.read(write(tmp_path / "a.tsv", text))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_bad_input(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RunError, match="is not a text file"):
        analysis.read(tmp_path / "a.tsv")
    with pytest.raises(RunError, match="does not exist; give a run directory or a TSV file"):
        analysis.read(tmp_path / "nothing")
    with pytest.raises(InvalidArgumentError, match="confidence must lie strictly between 0 and 1"):
        analysis.abstention(results(), confidence=1.0)
