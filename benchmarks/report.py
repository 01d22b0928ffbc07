"""``lvmrs report`` on a run of a million rows: time and peak memory of the whole command, start-up and all.

python benchmarks/report.py [--rows 1000000] [--holes]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lvmrs.record import Manifest, Selection
from lvmrs.record.directory import MANIFEST, ROWS
from lvmrs.record.manifest import DataRecord, MethodRecord, ModelRecord, Origin, TermsRecord
from lvmrs.record.result_file import COLUMNS, OF_A_GOAL

# Rows are made so many at a time: the peak memory of a child process counts that of its parent at the start.
_PORTION = 10_000
_COLUMNS = [name for name in COLUMNS if name not in OF_A_GOAL]


def write_run(folder: Path, rows: int, *, holes: bool) -> None:
    """Write a finished run of LVM; with ``holes``, its inputs are a list of indices, as those of imports often are."""
    indices = [k for k in range(2 * rows) if k % 3 or k % 2 == 0][:rows] if holes else range(rows)
    size = indices[-1] + 1
    manifest = Manifest(
        ModelRecord("a model"),
        DataRecord("test"),
        MethodRecord("LVM", scope="this input"),
        TermsRecord(0.5, 0.001, 1_000, 100_000, 0),
        Selection(size, only=list(indices)) if holes else Selection(size),
        origin=Origin("python benchmarks/report.py"),
    )
    (folder / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    with (folder / ROWS).open("w", encoding="utf-8") as file:
        file.write("\t".join(_COLUMNS) + "\n")
        for begin in range(0, rows, _PORTION):
            file.writelines(_lines(np.asarray(indices[begin : begin + _PORTION]), begin))


def _lines(indices: np.ndarray, seed: int) -> Iterator[str]:
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 10, len(indices))
    predict = np.where(rng.random(len(indices)) < 0.8, label, -1)
    radius = np.where(predict >= 0, 2 * rng.random(len(indices)), 0.0)
    parts = (part.tolist() for part in (indices, label, predict, radius))
    for index, y, p, r in zip(*parts, strict=True):
        values = {
            "idx": index, "label": y, "predict": p, "radius": r, "correct": int(y == p), "time": 1.2345,
            "p_lower": 0.912345678912345, "p_upper": 0.0123456789123456, "top": y, "map": "softmax",
            "temperature": 0.7196856730011519, "mass": 1.0, "bound": "betting", "form": "r2", "risk_top": 0.0005,
            "groups": "each", "risk_groups": "0.0005", "scope": "this input", "clean": y,
        }  # fmt: skip
        yield "\t".join(str(values.get(name, "-")) for name in _COLUMNS) + "\n"


def measured(*arguments: str) -> tuple[float, float]:
    """Seconds and peak megabytes of a Python process."""
    start = time.perf_counter()
    child = subprocess.Popen([sys.executable, *arguments], stderr=subprocess.DEVNULL)  # noqa: S603
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"the command failed with exit code {child.returncode}")
    return time.perf_counter() - start, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--holes", action="store_true", help="list the inputs one by one, as some imports do")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_run(Path(folder), given.rows, holes=given.holes)
        out = str(Path(folder) / "report.html")
        for command in (("report", folder, "--out", out), ("analyze", folder), ("compare", folder, folder)):
            seconds, megabytes = measured("-m", "lvmrs", *command)
            print(f"lvmrs {command[0]:8} {given.rows} rows: {seconds:6.2f} s, peak memory {megabytes:5.0f} MB")


if __name__ == "__main__":
    main()
