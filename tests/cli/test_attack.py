"""``lvmrs attack``: output, exit codes, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lvmrs.record import Run
from tests.cli.helpers import run
from tests.quick import without_trials
from tests.runs.named_runs import make_files, named_run

pytestmark = pytest.mark.usefixtures("quickly")
QUICK = "--steps 2 --samples 4 --n 200 --device cpu"


@pytest.fixture
def quickly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_trials(monkeypatch)
    monkeypatch.chdir(tmp_path)
    make_files()


def larger(made: Run, factor: float) -> None:
    """Make the radii of a run larger by hand."""
    head, *lines = made.file.read_text().splitlines()
    place = head.split("\t").index("radius")
    rows = [line.split("\t") for line in lines]
    for row in rows:
        row[place] = str(factor * float(row[place]))
    made.file.write_text("\n".join([head, *("\t".join(row) for row in rows)]) + "\n")


def test_sound_certificates_are_not_broken_and_the_bounds_are_analysed(capsys: pytest.CaptureFixture[str]) -> None:
    made = named_run()
    certified = sum(row.predict >= 0 for row in made.rows())
    code, out, err = run(f"attack a {QUICK}", capsys)
    assert (code, "broken: input" in err) == (0, False)  # a slow machine shows how far it is, with "0 broken"
    assert out.startswith(f"a: {certified} certificates attacked, 0 broken; ")
    code, out, _ = run(f"attack a {QUICK} --json", capsys)  # everything is done already
    shown = json.loads(out)
    assert (code, shown["run"], shown["attack"], shown["inputs"], shown["broken"]) == (
        0, "a", "a/attack.tsv", certified, 0,
    )  # fmt: skip
    assert f"\na: {certified} certificates attacked, 0 broken" in run("analyze a", capsys)[1]


def test_certificates_that_do_not_hold_end_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    made = named_run()
    larger(made, 50.0)
    code, out, err = run(f"attack a {QUICK} --restarts 2 --n 1000", capsys)
    broken = [row for row in (Path("a") / "attack.tsv").read_text().splitlines()[1:] if row.split("\t")[6] == "1"]
    assert len(broken) > 1
    assert (code, f" {len(broken)} broken; " in out) == (1, True)
    assert "the points are in a/attack-INDEX.npy" in err
    assert "would be broken by chance; these certificates do not hold" in err
    assert len(list(Path("a").glob("attack-*.npy"))) == len(broken)


def test_what_could_run_code_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    named_run("python:mine.py:make")
    Path("code-was-run").unlink()
    code, _, err = run(f"attack a {QUICK}", capsys)
    assert (code, Path("code-was-run").exists()) == (2, False)
    assert "--model python:mine.py:make" in err
    assert run(f"attack a {QUICK} --model python:mine.py:make", capsys)[0] == 0


def test_other_weights_and_mistakes_get_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    named_run()
    code, _, err = run(f"attack a {QUICK} --model trained:other.safetensors", capsys)
    assert (code, "was made with other files or settings: model weights hash" in err) == (1, True)
    for words, sentence in (
        ("--beta 2", "beta must lie strictly between 0 and 1"),
        ("--max 0", "max must be a whole number of at least 1"),
        ("--farthest nan", "farthest must not be NaN"),
        ("--out a/manifest.json", "is a file, and an attack needs a directory"),
    ):
        code, out, err = run(f"attack a {QUICK} {words}", capsys)
        assert (code in (1, 2), out, sentence in err) == (True, "", True), err
    assert sorted(path.name for path in Path("a").iterdir()) == ["certificates.tsv", "manifest.json"]
