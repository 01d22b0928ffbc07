"""Results of other projects become runs: quickly, and completely or not at all."""

import time
from pathlib import Path

import numpy as np
import pytest

from lvmrs.analysis import import_results, results_of
from lvmrs.errors import RunError


def results(file: Path, count: int, *, radius: float = 0.5) -> Path:
    """A file with holes among its inputs, so that the run lists them."""
    idx = np.flatnonzero(np.arange(3 * count) % 7 % 2 == 1)[:count]
    rows = (f"{k}\t{k % 10}\t{k % 9}\t{radius}" for k in np.random.default_rng(0).permutation(idx))
    file.write_text("\n".join(["idx\tlabel\tpredict\tradius", *rows]) + "\n")
    return file


def test_many_rows_are_imported_in_the_time_of_a_few(tmp_path: Path) -> None:
    """Cost per row does not grow with the number of rows, neither for the import nor for reading the run."""

    def seconds(count: int) -> tuple[float, float]:
        file = results(tmp_path / f"{count}.tsv", count)
        start = time.process_time()
        run = import_results(file, tmp_path / f"{count}", sigma=0.5)
        middle = time.process_time()
        assert run.manifest.selection.only is not None
        assert len(run.rows()) == len(results_of(run)) == len(run.manifest.selection.only)
        assert run.manifest.selection.position(run.rows()[-1].idx) == len(run.rows()) - 1
        return middle - start, time.process_time() - middle

    seconds(100)
    few, many = seconds(2_000), seconds(16_000)
    assert many[0] < 40 * few[0] + 0.1  # 64 times as much if it were quadratic
    assert many[1] < 40 * few[1] + 0.1
    assert many[0] < 4


def test_an_import_is_finished_or_refused(tmp_path: Path) -> None:
    whole = import_results(results(tmp_path / "a.tsv", 9), tmp_path / "a", sigma=0.5)
    text = whole.file.read_text()
    whole.file.write_text(text[:-30])
    assert import_results(tmp_path / "a.tsv", tmp_path / "a", sigma=0.5).file.read_text() == text
    with pytest.raises(RunError, match="holds a run already, with another row of input 1; choose another directory"):
        import_results(results(tmp_path / "b.tsv", 9, radius=0.25), tmp_path / "a", sigma=0.5)
    assert whole.file.read_text() == text
