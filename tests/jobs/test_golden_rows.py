"""Golden rows: the same job gives the same bytes, for any batch size, order of inputs and number of shards.

``LVMRS_GOLDEN=write`` writes them again. If rows change on purpose, raise ``ROWS_OF`` and say why in CHANGELOG.md.
"""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lvmrs import Deterministic, Duels, Fixed, jobs
from lvmrs.method import Method
from lvmrs.noise import ExactGaussian, Gaussian, Noise
from lvmrs.planners import LVM, Cohen
from lvmrs.runs import Row, Run, Selection
from lvmrs.runs.manifest import ROWS_OF
from lvmrs.runs.result_file import UNKNOWN
from tests.jobs.helpers import INPUTS, LEVELS, fill, lines

GOLDEN = Path(__file__).parent.parent / "golden" / f"rows-{ROWS_OF}"
STAGES = ("selection", "certification")
CASES: dict[str, tuple[Method, Noise]] = {
    "cohen": (Cohen(), Gaussian()),
    "cohen-exact": (Cohen(), ExactGaussian(LEVELS)),
    "duels-exact": (Duels(), ExactGaussian(LEVELS)),
    "lvm": (LVM(), Gaussian()),
    "duels-chosen": (Duels("chosen"), Gaussian()),
    "fixed": (Fixed("softmax", 0.5, form="r2"), Gaussian()),
    "deterministic": (Deterministic(), Gaussian()),
}


def made(out: Path, case: str, batch: int = 64, selection: Selection | None = None, *, resume: bool = False) -> Run:
    method, noise = CASES[case]
    sizes: dict[str, Any] = {"n": 200, "n0": 40} if method.samples else {}
    return fill(
        out, planner=method, noise=noise, keep=method.samples, batch=batch, selection=selection, resume=resume, **sizes
    )


@pytest.fixture(params=list(CASES))
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Run]:
    case: str = request.param
    if os.environ.get("LVMRS_GOLDEN") == "write":
        shutil.rmtree(GOLDEN / case, ignore_errors=True)
        made(GOLDEN / case, case)
    return case, Run(GOLDEN / case)


def same(found: Run, golden: Run) -> bool:
    scores = [f"scores-{stage}.npy" for stage in STAGES] if golden.manifest.keeps_scores else []
    return lines(found) == lines(golden) and all(
        (found.directory / name).read_bytes() == (golden.directory / name).read_bytes() for name in scores
    )


def test_rows_are_the_same_for_any_batch_size(golden: tuple[str, Run], tmp_path: Path) -> None:
    case, run = golden
    for batch in (1, 7, 1000) if case.startswith("cohen") else (7, 1000):
        found = made(tmp_path / str(batch), case, batch)
        assert same(found, run)
        assert not run.manifest.difference(found.manifest)


def test_rows_are_the_same_in_shards_and_when_resumed(golden: tuple[str, Run], tmp_path: Path) -> None:
    case, run = golden
    parts = [made(tmp_path / str(k), case, 64, Selection(INPUTS, shard=k, shards=3)) for k in (3, 1, 2)]
    assert lines(jobs.merge(parts, tmp_path / "merged")) == lines(run)
    shutil.copytree(run.directory, torn := tmp_path / "torn")
    (torn / "certificates.tsv").write_bytes((torn / "certificates.tsv").read_bytes()[:-300])
    assert same(made(torn, case, resume=True), run)
    assert (torn / "manifest.json").read_bytes() == (run.directory / "manifest.json").read_bytes()


def test_rows_are_the_same_from_kept_scores(golden: tuple[str, Run], tmp_path: Path) -> None:
    case, run = golden
    method, _ = CASES[case]
    if run.manifest.keeps_scores:
        again = jobs.recertify(run, tmp_path / "again", method)
        assert without_scores(again) == without_scores(run)
        assert all(new.rounding in (None, old.rounding) for new, old in zip(again.rows(), run.rows(), strict=True))


def without_scores(run: Run) -> list[Row]:
    """Rows without what they have for kept scores alone."""
    return [replace(row, time=0.0, scores=UNKNOWN, rounding=None) for row in run.rows()]
