"""A report reads the rows that it shows, and no others into memory."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lvmrs.analysis.report import write_report
from lvmrs.analysis.report.settings import guarantee, kinds_of_rows
from lvmrs.errors import RunError
from lvmrs.record import Row, Run, RunWriter
from lvmrs.record.result_file import Columns, rows_of
from tests.manifests import manifest

ROW = Row(
    0, 1, 1, 0.5, 1, 0.1, 0.9, 0.1, 1, "softmax", 0.5, 1.0, "betting", "r2", 0.0005, "each", "0.0005",
    scope="this input", clean=1,
)  # fmt: skip
MANY = 300


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of many rows in another order than that of its inputs; one row relies on a Lipschitz constant."""
    with RunWriter(tmp_path / "run", manifest(MANY, lipschitz=2.0, data=None)) as writer:
        for index in reversed(range(MANY)):
            writer.append(replace(ROW, idx=index, radius=index / MANY, form="ramp" if index == 7 else "r2"))
        return writer.run


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each reading of a run made."""
    counts: list[int] = []

    def counting(kind: type[Row], columns: Columns) -> list[Row]:
        rows = rows_of(kind, columns)
        counts.append(len(rows))
        return rows

    monkeypatch.setattr("lvmrs.record.directory.rows_of", counting)
    return counts


def test_only_the_rows_that_are_listed_are_made(run: Run, made: list[int], tmp_path: Path) -> None:
    write_report([run], tmp_path / "page.html", radii=[0.0, 0.5], most=5)
    assert sorted(made) == [2, 5]  # one row of each kind, and those that are listed
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f'"unlisted": {MANY - 5}' in text
    assert "relies on 2 being a Lipschitz constant" in text  # as one row of all says


def test_rows_of_some_inputs_are_those_of_all(run: Run) -> None:
    assert run.rows([3, 290, 999]) == [row for row in run.rows() if row.idx in (3, 290)]
    assert run.rows([]) == []
    assert {row.form for row in kinds_of_rows(run)} == {"r2", "ramp"}
    assert guarantee(run.manifest, kinds_of_rows(run)) == guarantee(run.manifest, run.rows())


def test_counting_makes_no_rows(run: Run, made: list[int]) -> None:
    assert (run.count, run.complete, f": {MANY} of {MANY} inputs" in repr(run)) == (MANY, True, True)
    assert made == []


def test_an_index_that_is_no_number_is_named(run: Run) -> None:
    text = run.file.read_text(encoding="utf-8")
    run.file.write_text(text.replace("\n250\t", "\nx\t"), encoding="utf-8")
    with pytest.raises(RunError, match="idx is 'x', and must be a whole number"):
        run.rows([1])


@pytest.mark.slow
@pytest.mark.parametrize("holes", [[], ["--holes"]])
def test_a_report_of_a_million_rows_takes_seconds(holes: list[str]) -> None:
    script = Path(__file__).parents[3] / "benchmarks" / "report.py"
    done = subprocess.run([sys.executable, str(script), *holes], check=True, capture_output=True, text=True)  # noqa: S603
    line = next(line for line in done.stdout.splitlines() if line.startswith("lvmrs report"))
    seconds, megabytes = float(line.split()[4]), float(line.split()[-2])
    assert (seconds < 15, megabytes < 500) == (True, True), line
