"""``lvmrs analyze`` on a file of a million rows, against importing torch: the whole command, start-up and all.

python benchmarks/analyze.py [--rows 1000000]
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from side_by_side import seconds


def write_rows(file: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    label = rng.integers(0, 10, rows)
    predict = np.where(rng.random(rows) < 0.8, label, -1)
    radius = np.where(predict >= 0, np.round(2 * rng.random(rows), 3), 0.0)
    lines = (
        f"{k}\t{y}\t{p}\t{r}\t{int(y == p)}\t0:00:01.123456\n"
        for k, (y, p, r) in enumerate(zip(label.tolist(), predict.tolist(), radius.tolist(), strict=True))
    )
    with file.open("w", encoding="utf-8") as opened:
        opened.write("idx\tlabel\tpredict\tradius\tcorrect\ttime\n")
        opened.writelines(lines)


def python(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)  # noqa: S603


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.tsv"
        write_rows(file, rows)
        analyze = ("-m", "lvmrs", "analyze", str(file))
        whole, torch = seconds(lambda: python(*analyze), lambda: python("-c", "import torch"), rounds=3)
    print(f"lvmrs analyze, {rows} rows: {whole:.2f} s; importing torch alone: {torch:.2f} s")


if __name__ == "__main__":
    main()
