"""Every format's output against a stored file; and that LaTeX takes what it is given.

To write the stored files again, after looking at what changed: LVMRS_GOLDEN=write python -m pytest tests/analysis
"""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from lvmrs.analysis.tables import FORMATS, formatted
from lvmrs.cli import main

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("plain.tsv", "odd_&_#1.tsv")):
        rng = np.random.default_rng(seed)
        rows = [(k, rng.integers(0, 4), rng.integers(-1, 4), round(float(rng.random()), 3)) for k in range(40)]
        body = "".join(f"{k}\t{label}\t{predict}\t{radius}\n" for k, label, predict, radius in rows)
        Path(name).write_text("idx\tlabel\tpredict\tradius\n" + body)


def output(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as end:
        main(line.split())
    assert not end.value.code
    return capsys.readouterr().out


def check(name: str, text: str) -> None:
    if os.environ.get("LVMRS_GOLDEN") == "write":
        GOLDEN.mkdir(exist_ok=True)
        (GOLDEN / name).write_text(text, encoding="utf-8")
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("form", FORMATS)
def test_analyze_in_every_format(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"analyze plain.tsv odd_&_#1.tsv --radii 0,0.25,0.5 --intervals --envelope --format {form}"
    check(f"analyze.{form}.txt", output(line, capsys))


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("form", FORMATS)
def test_compare_in_every_format(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    check(f"compare.{form}.txt", output(f"compare plain.tsv odd_&_#1.tsv --radii 0,0.5 --format {form}", capsys))


def test_what_latex_would_take_for_commands_is_escaped() -> None:
    text = formatted([["a_b", "50%"], ["~^{}\\", "$#&"]], "latex")
    assert r"a\_b & 50\% \\" in text
    assert r"\textasciitilde{}\textasciicircum{}\{\}\textbackslash{} & \$\#\& \\" in text


@pytest.mark.programs
def test_latex_compiles(tmp_path: Path) -> None:
    program = shutil.which("pdflatex")
    assert program, "pdflatex is missing; it comes with texlive-latex-base and texlive-latex-recommended"
    for name in ("analyze", "compare"):
        table = (GOLDEN / f"{name}.latex.txt").read_text(encoding="utf-8")
        (tmp_path / f"{name}.tex").write_text(
            "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n" + table + "\\end{document}\n"
        )
        done = subprocess.run(  # noqa: S603
            [program, "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:]
        assert (tmp_path / f"{name}.pdf").stat().st_size > 1000
