"""Runs of earlier versions are read, resumed, recertified and merged; their rows are those of today."""

import json
import shutil
from pathlib import Path

import pytest

from lvmrs import Deterministic, Duels, Fixed, Planner, analysis, jobs, method_settings
from lvmrs.errors import RunError
from lvmrs.planners import LVM, Cohen
from lvmrs.runs import COLUMNS, Run, Selection
from tests.jobs.helpers import INPUTS, fill, lines

GOLDEN = Path(__file__).parent.parent / "golden"


def earlier(run: Run) -> list[str]:
    """Its lines with the columns that the first version wrote."""
    return ["\t".join(line.split("\t")[:-4]) for line in lines(run)]


@pytest.mark.parametrize("batch", [1, 7, 64, 1000])
def test_rows_of_cohen_are_those_of_the_first_version(tmp_path: Path, batch: int) -> None:
    """Byte for byte but for the time that each took, for any batch size and order of inputs."""
    golden = Run(GOLDEN / "cohen-format-1")
    made = fill(tmp_path / "a", planner=Cohen(), keep=True, n=200, n0=40, batch=batch)
    assert earlier(made) == lines(golden)
    for stage in ("selection", "certification"):
        name = f"scores-{stage}.npy"
        assert (made.directory / name).read_bytes() == (golden.directory / name).read_bytes()
    parts = [
        fill(
            tmp_path / str(k), planner=Cohen(), keep=True, n=200, n0=40, selection=Selection(INPUTS, shard=k, shards=3)
        )
        for k in (3, 1, 2)
    ]
    assert earlier(jobs.merge(parts, tmp_path / "merged")) == lines(golden)


def test_runs_of_the_first_version_are_read_resumed_and_recertified(tmp_path: Path) -> None:
    golden = Run(GOLDEN / "cohen-format-1")
    assert {(row.scope, row.clean) for row in golden.rows()} == {("-", None)}
    assert earlier(jobs.recertify(golden, tmp_path / "cohen", Cohen())) == lines(golden)
    duels = jobs.recertify(golden, tmp_path / "duels", Duels())
    assert earlier(duels) == earlier(fill(tmp_path / "fresh", planner=Duels(), n=200, n0=40))
    assert "map the same for all inputs" in str(golden.manifest.method.classifier)
    torn = tmp_path / "torn"
    shutil.copytree(golden.directory, torn)
    (torn / "certificates.tsv").write_bytes((torn / "certificates.tsv").read_bytes()[:-300])
    resumed = fill(torn, planner=Cohen(), keep=True, n=200, n0=40, resume=True)
    assert lines(resumed) == lines(golden)
    assert resumed.columns == COLUMNS[:-4]
    shutil.copytree(GOLDEN / "lvm-format-1", tmp_path / "lvm")
    with pytest.raises(RunError, match=r'cannot be resumed: rows of: "0.1.0", now "0.2.0"'):
        fill(tmp_path / "lvm", planner=LVM(), n=200, n0=40, selection=Selection(INPUTS, max=4), resume=True)
    chosen = Run(GOLDEN / "lvm-format-1")
    assert "map chosen for each input" in str(chosen.manifest.method.classifier)
    assert len(analysis.results_of(chosen)) == len(chosen.rows()) == 4
    certain = Run(GOLDEN / "deterministic-format-1")
    assert (certain.manifest.method.name, certain.manifest.method.settings) == ("Deterministic", {})
    assert certain.manifest.terms.alpha == 0
    again = fill(tmp_path / "certain", planner=Deterministic(), selection=Selection(INPUTS, max=4))
    for now, then in zip(again.rows(), certain.rows(), strict=True):  # rounding is allowed for since 0.4
        assert now.predict == then.predict
        assert (1 - 1e-4) * then.radius <= now.radius <= then.radius
    assert not again.manifest.difference(certain.manifest)


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


def test_runs_of_0_2_are_resumed_with_the_same_rows(tmp_path: Path) -> None:
    """Where no constant is used: rows of 0.2.0, byte for byte but for their times, in the columns that it wrote."""
    golden, four = Run(GOLDEN / "fixed-0.2.0"), Selection(INPUTS, max=4)
    keep, planner = golden.manifest.keeps_scores, Fixed("softmax", 0.5, form="r2")
    fresh = fill(tmp_path / "fresh", planner=planner, keep=keep, n=200, n0=40, selection=four)
    assert earlier(fresh) == lines(golden)
    assert not golden.manifest.difference(fresh.manifest)
    torn = tmp_path / "torn"
    shutil.copytree(golden.directory, torn)
    (torn / "certificates.tsv").write_bytes((torn / "certificates.tsv").read_bytes()[:-300])
    resumed = fill(torn, planner=planner, keep=keep, n=200, n0=40, selection=four, resume=True)
    assert lines(resumed) == lines(golden)
    assert (torn / "manifest.json").read_bytes() == (golden.directory / "manifest.json").read_bytes()
    assert golden.manifest.method.scope == planner.scope
    again = method_settings.made_again(golden.manifest.method.name, golden.manifest.method.settings)
    assert again == planner


@pytest.mark.parametrize(("name", "planner"), [("lvm", LVM()), ("duels", Duels("chosen"))])
def test_rows_of_0_2_that_rely_on_a_constant_allow_for_rounding_now(
    tmp_path: Path, name: str, planner: Planner
) -> None:
    golden = Run(GOLDEN / f"{name}-0.2.0")
    keep = golden.manifest.keeps_scores
    fresh = fill(tmp_path / "fresh", planner=planner, keep=keep, n=200, n0=40, selection=Selection(INPUTS, max=4))
    less = []
    for now, then in zip(fresh.rows(), golden.rows(), strict=True):
        assert (now.map, now.form, now.predict) == (then.map, then.form, then.predict)
        assert now.radius == pytest.approx(then.radius, rel=1e-3)
        less.append(then.radius - now.radius)
    assert min(less) >= 0
    assert max(less) > 0
    assert not golden.manifest.difference(fresh.manifest)
    assert golden.manifest.method.scope == planner.scope
    assert method_settings.made_again(golden.manifest.method.name, golden.manifest.method.settings) == planner
    if keep:  # its scores say nothing of rounding, and the user is told
        notes: list[str] = []
        again = jobs.recertify(golden, tmp_path / "again", planner, on_note=notes.append)
        assert earlier(again) == lines(golden)
        assert any("did not measure rounding" in note for note in notes)
