"""Runs of earlier versions are read and recertified; they are not continued, since noise has other streams now."""

import json
import shutil
from pathlib import Path

import pytest

from lvmrs import Deterministic, Duels, Fixed, Planner, analysis, jobs, method_settings
from lvmrs.errors import RunError
from lvmrs.method import Method
from lvmrs.planners import LVM, Cohen
from lvmrs.runs import Run
from tests.jobs.helpers import INPUTS, fill, lines

GOLDEN = Path(__file__).parent.parent / "golden"


def earlier(run: Run) -> list[str]:
    """Its lines with the columns that the first version wrote."""
    return ["\t".join(line.split("\t")[:-5]) for line in lines(run)]


def test_runs_of_the_first_version_are_read_and_recertified(tmp_path: Path) -> None:
    golden = Run(GOLDEN / "cohen-format-1")
    assert {(row.scope, row.clean) for row in golden.rows()} == {("-", None)}
    assert earlier(jobs.recertify(golden, tmp_path / "cohen", Cohen())) == lines(golden)
    assert len(jobs.recertify(golden, tmp_path / "duels", Duels()).rows()) == INPUTS
    assert "map the same for all inputs" in str(golden.manifest.method.classifier)
    chosen = Run(GOLDEN / "lvm-format-1")
    assert "map chosen for each input" in str(chosen.manifest.method.classifier)
    assert len(analysis.results_of(chosen)) == len(chosen.rows()) == 4
    certain = Run(GOLDEN / "deterministic-format-1")
    assert (certain.manifest.method.name, certain.manifest.method.settings) == ("Deterministic", {})
    assert certain.manifest.terms.alpha == 0


@pytest.mark.parametrize(
    ("name", "planner", "version"),
    [
        ("cohen-format-1", Cohen(), "0.1.0"),
        ("lvm-format-1", LVM(), "0.1.0"),
        ("deterministic-format-1", Deterministic(), "0.1.0"),
        ("lvm-0.2.0", LVM(), "0.2.0"),
        ("duels-0.2.0", Duels("chosen"), "0.2.0"),
        ("fixed-0.2.0", Fixed("softmax", 0.5, form="r2"), "0.2.0"),
    ],
)
def test_rows_of_earlier_versions_are_not_continued(tmp_path: Path, name: str, planner: Method, version: str) -> None:
    """Version 0.4.0 draws its noise from other streams, so a run must not have rows of both."""
    shutil.copytree(GOLDEN / name, tmp_path / "a")
    golden = Run(tmp_path / "a")
    keep, selection = golden.manifest.keeps_scores, golden.manifest.selection
    before = golden.file.read_bytes()
    with pytest.raises(RunError, match=rf'cannot be resumed: rows of: "{version}", now "0.4.0"'):
        fill(tmp_path / "a", planner=planner, keep=keep, n=200, n0=40, selection=selection, resume=True)
    assert golden.file.read_bytes() == before


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("python:evil.py:Evil", "is damaged: method must be an object, got 'python:evil.py:Evil'"),
        ({"map": "softmax"}, "method, name, is damaged: expected a text, got None"),
    ],
)
def test_an_old_manifest_that_does_not_name_its_method(tmp_path: Path, method: object, sentence: str) -> None:
    shutil.copytree(GOLDEN / "cohen-format-1", tmp_path / "a")
    file = tmp_path / "a" / "manifest.json"
    stored = json.loads(file.read_text())
    stored["settings"]["method"] = method
    file.write_text(json.dumps(stored))
    with pytest.raises(RunError, match=sentence):
        Run(tmp_path / "a")


@pytest.mark.parametrize(
    ("name", "planner"),
    [("lvm", LVM()), ("duels", Duels("chosen")), ("fixed", Fixed("softmax", 0.5, form="r2"))],
)
def test_runs_of_0_2_are_read_and_recertified_with_the_same_rows(tmp_path: Path, name: str, planner: Planner) -> None:
    """From kept scores, rows are those of 0.2.0, byte for byte but for their times, in the columns that it wrote."""
    golden = Run(GOLDEN / f"{name}-0.2.0")
    assert len(golden.rows()) == 4
    assert golden.manifest.method.scope == planner.scope
    assert golden.manifest.terms.dimensions is None
    again = method_settings.made_again(golden.manifest.method.name, golden.manifest.method.settings)
    assert again == planner
    if golden.manifest.keeps_scores:
        # It did not allow for rounding; whoever says that there is none gets the same.
        assert earlier(jobs.recertify(golden, tmp_path / "again", planner, rounding=0.0)) == lines(golden)
