"""Figures: that they show what they should, in every format."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lvmrs import analysis
from lvmrs.analysis import plots
from lvmrs.errors import RunError
from lvmrs.planners import Cohen
from lvmrs.record import Run
from lvmrs.record.scores import score_statistics
from tests.runs.helpers import INPUTS, fill


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return fill(tmp_path_factory.mktemp("plots") / "run", keep=True)


def test_curves_go_through_the_certified_accuracy(run: Run) -> None:
    result = analysis.results_of(run)
    axes: Any = plots.curves([result, result]).axes[0]
    _, y = axes.lines[0].get_data()
    assert len(axes.lines) == 2
    assert y[0] == pytest.approx(100 * analysis.certified_accuracy(result, [0.0])[0])
    assert list(y) == sorted(y, reverse=True)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [f" {result.name}"] * 2


def test_forecasts_have_a_line_and_a_band_for_each_name() -> None:
    radius, share = np.linspace(0, 2, 5), np.linspace(0.9, 0.1, 5)
    found = {f"sigma {k}": analysis.Curve(radius, share / k, share / k - 0.05, share / k + 0.05) for k in (1, 2)}
    axes: Any = plots.forecasts(found, "certified accuracy").axes[0]
    assert axes.get_ylabel() == "forecast of certified accuracy (%)"
    assert [line.get_ydata()[0] for line in axes.lines] == pytest.approx([90.0, 45.0])
    assert len(axes.collections) == 2
    assert axes.get_xlim() == (0, 2)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [" sigma 1", " sigma 2"]


def test_histograms_count_right_answers(run: Run) -> None:
    result = analysis.results_of(run)
    axes: Any = plots.radii([result]).axes[0]
    assert axes.get_legend() is not None
    assert max(axes.patches[0].get_xy()[:, 1]) <= result.correct.sum()


def test_choices_and_variance_have_a_point_for_each_input(run: Run) -> None:
    for figure in (plots.choices(run), plots.variance(run)):
        axes: Any = figure.axes[0]
        points = sum(np.shape(part.get_offsets())[0] for part in axes.collections)
        assert points == INPUTS
    for _, margin, spread in score_statistics(run):
        assert -1 <= margin <= 1
        assert 0 <= spread <= 0.25 * 300 / 299 + 1e-12


def test_choices_of_a_map_that_is_not_in_the_registry(run: Run, tmp_path: Path) -> None:
    """A run with a map of the user's own, read by a process that does not know it."""
    shutil.copytree(run.directory, tmp_path / "own")
    file = tmp_path / "own" / "certificates.tsv"
    head, *lines = file.read_text().splitlines(keepends=True)
    place = head.rstrip("\n").split("\t").index("map")
    ours = lines[0].split("\t")[place]
    cells = [line.split("\t") for line in lines]
    file.write_text(head + "".join("\t".join([*row[:place], "mi$ne", *row[place + 1 :]]) for row in cells[1:]))
    with file.open("a") as end:
        end.write("\t".join(cells[0]))
    axes: Any = plots.choices(Run(tmp_path / "own")).axes[0]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == [f" {ours} (1)", rf" mi\$ne ({INPUTS - 1})"]
    assert sum(np.shape(part.get_offsets())[0] for part in axes.collections) == INPUTS


def test_choices_read_the_rows_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    read, reads = Run.read, []

    def counted(self: Run, *names: str, **settings: Any) -> Any:
        reads.append(names)
        return read(self, *names, **settings)

    monkeypatch.setattr(Run, "read", counted)
    plots.choices(run)
    assert reads == [("idx", "radius", "map", "temperature")]


def test_the_margin_and_variance_of_votes(tmp_path: Path) -> None:
    votes = fill(tmp_path / "a", keep=True, planner=Cohen())
    for name, margin, spread in score_statistics(votes):
        assert name == "hardmax"
        top = (1 + margin) / 2  # at least, with two classes or more
        assert spread <= 0.25 * 300 / 299 + 1e-12
        assert 0 <= top <= 1


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_every_format_is_written(run: Run, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a.{suffix}"
    plots.curves([analysis.results_of(run)]).savefig(file)
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix]
    assert file.read_bytes().startswith(start)
    if suffix == "png":
        assert len(Image.open(file).convert("L").getcolors(1 << 16) or []) > 10


def test_variance_needs_scores(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"has no scores-selection\.npy or scores-certification\.npy"):
        plots.variance(fill(tmp_path / "a"))
