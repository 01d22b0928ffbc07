"""From calibration to answers, as it is typed: calibrate, certify --settings, predict --settings and --like."""

import json
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lvmrs.record import Run
from tests.cli.helpers import run

Command = Callable[[str], tuple[int, str, str]]
OWN = """
from typing import ClassVar

import torch

from lvmrs.kernel.maps import Softmax
from tests.tiny_models import RowByRow


class Mine(Softmax):
    name: ClassVar[str] = "mine-of-this-test"


def model():
    return RowByRow()


def other():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3))
"""
QUICK = "--n0 30 --n 80 --alpha 0.01 --batch 40"


@pytest.fixture
def lvmrs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Commands in a directory with a model and data of two splits; MODEL stands for them."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    inputs, labels = random.random((8, 12), dtype=np.float32), np.arange(8) % 3
    np.savez("a.npz", x_train=inputs[:5], y_train=labels[:5], x_test=inputs[5:], y_test=labels[5:])
    Path("own.py").write_text(OWN, encoding="utf-8")
    return lambda line: run(line.replace("MODEL", "--model python:own.py:model --data npz:a.npz"), capsys)


def rows(out: str) -> list[dict[str, str]]:
    """Lines of a table as objects."""
    first, *rest = (line.split("\t") for line in out.splitlines())
    return [dict(zip(first, line, strict=True)) for line in rest]


@pytest.mark.parametrize(
    "how", ["--method duels", "--method fixed --map softmax --objective accuracy --epsilon 0.1 --n 80 --alpha 0.01"]
)
def test_from_calibration_to_answers(how: str, lvmrs: Command) -> None:
    code, options, err = lvmrs(f"calibrate MODEL --sigma 0.5 --n0 30 --batch 40 {how} --out s.json")
    assert code == 0
    assert err.endswith("from 5 inputs; give certify and predict --settings s.json\n")
    assert options.startswith(" ".join(how.split()[:2]))
    stored = json.loads(Path("s.json").read_text(encoding="utf-8"))
    for name in ("width", "temperature"):  # all digits are printed
        if f"--{name}" in options:
            assert float(options.split(f"--{name} ")[1].split()[0]) == stored["method"]["settings"][name]
    assert lvmrs(f"certify MODEL --settings s.json {QUICK} --out a")[0] == 0
    assert lvmrs(f"certify MODEL --sigma 0.5 {options.strip()} {QUICK} --out b")[0] == 0
    assert Run("a").manifest.method == Run("b").manifest.method
    shown = [(row.predict, row.radius, row.p_lower, row.p_upper) for row in Run("a").rows()]
    assert shown == [(row.predict, row.radius, row.p_lower, row.p_upper) for row in Run("b").rows()]
    for record in ("--settings s.json", "--like a", f"--sigma 0.5 {options.strip()}"):
        code, out, err = lvmrs(f"predict MODEL {record} {QUICK} --radius")
        assert (code, "caution" in err) == (0, False)
        names = ("predict", "radius", "p_lower", "p_upper")
        assert [tuple(float(row[name]) for name in names) for row in rows(out)] == shown
        assert list(rows(out)[0]) == ["idx", "label", "predict", "correct", *names[1:], "name"]
        code, lines, _ = lvmrs(f"predict MODEL {record} {QUICK} --json")
        answers = [json.loads(line) for line in lines.splitlines()]
        assert [set(each) for each in answers] == [{"idx", "label", "predict", "correct", "name"}] * 3
        pairs = [(each["predict"], row[0]) for each, row in zip(answers, shown, strict=True)]
        assert all(-1 in pair or len(set(pair)) == 1 for pair in pairs)


def test_json_is_what_the_file_holds(lvmrs: Command) -> None:
    line = "calibrate MODEL --sigma 0.5 --n0 30 --batch 40 --json"
    _, out, _ = lvmrs(f"{line} --out s.json")
    stored, printed = json.loads(Path("s.json").read_text(encoding="utf-8")), json.loads(out)
    assert stored == printed
    assert printed["method"]["settings"]["width"] > 0
    assert (printed["terms"]["n"], printed["calibration"]["objective"]) == (None, None)


def test_answers_of_each_method(lvmrs: Command) -> None:
    for method in ("duels", "duels --width 2", "votes", "cohen", "fixed --map hardmax", "lipschitz-noise"):
        code, out, err = lvmrs(f"predict MODEL --sigma 0.5 --n 60 --batch 40 --method {method}")
        assert code == 0, err
        assert [row["idx"] for row in rows(out)] == ["0", "1", "2"]
    code, out, _ = lvmrs("predict MODEL --method lipschitz-deterministic --lipschitz 40 --radius")
    assert code == 0
    assert all(float(row["radius"]) > 0 for row in rows(out))


def test_what_is_typed_must_agree(lvmrs: Command) -> None:
    assert lvmrs(f"certify MODEL --sigma 0.5 --method duels --width 0.3 {QUICK} --out a")[0] == 0
    assert lvmrs(f"predict MODEL --like a --sigma 0.5 --width 0.3 --noise gaussian {QUICK}")[0] == 0
    for typed, words in {
        "--sigma 0.25": "its sigma is 0.5, and here it is 0.25",
        "--width 0.4": "its setting width is 0.3, and here it is 0.4",
        "--method votes": "its method is 'Duels', and here it is 'Votes'",
    }.items():
        code, out, err = lvmrs(f"predict MODEL --like a {typed}")
        assert (code, out) == (2, "")
        assert f"lvmrs: this is not the classifier of a: {words}; give the same" in err
    code, _, err = lvmrs("predict --model python:own.py:other --data npz:a.npz --like a")
    assert code == 2
    assert "its hash of the weights of the model is None, and here it is" in err


def test_the_constant_of_the_run_is_taken(lvmrs: Command) -> None:
    assert lvmrs(f"certify MODEL --sigma 0.5 --method duels --width 3 --lipschitz 8 {QUICK} --out a")[0] == 0
    _, out, err = lvmrs(f"predict MODEL --like a {QUICK} --radius")
    assert "lipschitz 8, as given" in err
    assert [float(row["radius"]) for row in rows(out)] == [row.radius for row in Run("a").rows()]


def test_inputs_that_were_calibrated_on_are_told(lvmrs: Command) -> None:
    lvmrs("calibrate MODEL --sigma 0.5 --n0 30 --batch 40 --out s.json")
    for verb, end in (("certify", " --out a"), ("predict", "")):
        code, _, err = lvmrs(f"{verb} MODEL --settings s.json {QUICK} --split train --max 2{end}")
        assert code == 0
        assert (
            "caution: s.json was calibrated on 2 of these inputs; each certificate holds, but averages over them" in err
        )


def test_a_record_runs_no_code(lvmrs: Command) -> None:
    """A run with a map of the user's own: its manifest alone is not enough, and the code that it names is not run."""
    mine = "--method fixed --map python:own.py:Mine"
    assert lvmrs(f"certify MODEL --sigma 0.5 {mine} {QUICK} --out a")[0] == 0
    Path("evil").mkdir()
    Path("evil/evil.py").write_text("raise SystemExit('it was run')", encoding="utf-8")
    manifest = json.loads(Path("a/manifest.json").read_text(encoding="utf-8"))
    for code_of in ({"evil.Map": "0" * 64}, manifest["method"]["own_code"]):
        shutil.rmtree("b", ignore_errors=True)
        shutil.copytree("a", "b")
        changed = {**manifest, "method": {**manifest["method"], "own_code": code_of}}
        Path("b/manifest.json").write_text(json.dumps(changed), encoding="utf-8")
        code, out, err = lvmrs("predict MODEL --like b")
        assert (code, out) == (2, "")
        assert f"b was made with code of your own ({', '.join(code_of)}), and a file must not choose code to run" in err
        assert "evil" not in sys.modules
    assert lvmrs(f"predict MODEL --like a {mine} {QUICK}")[0] == 0


REFUSED = {
    "predict MODEL --settings s.json --like a": "settings and like both define the classifier; give one of them",
    "predict MODEL --like nowhere": "nowhere is not a run",
    "predict MODEL --settings a.npz": "a.npz is not a file of settings, or is damaged",
    "predict MODEL --sigma 0.5 --method lvm": "LVM chooses a map for each input as it is set",
    "predict MODEL --sigma 0.5 --map softmax": "LVM chooses a map for each input as it is set",
    "predict MODEL --sigma 0.5 --width chosen --lipschitz 9": "Duels chooses a map for each input as it is set",
    "predict MODEL --sigma 0.5 --method paper --radius": "Paper chooses a map for each input as it is set",
    "predict MODEL --sigma 0.5 --method votes --n0 10": "n0 has no effect on votes, whose test needs no candidate",
    "predict MODEL --sigma 0.5 --method votes --width 1": "width is not a setting of method votes",
    "calibrate MODEL --sigma 0.5 --method lvm": "method must be one of duels, fixed, got 'lvm'",
    "calibrate MODEL --sigma 0.5 --method fixed --objective fame": "objective must be one of radius, accuracy, got",
    "calibrate MODEL --sigma 0.5 --method fixed --epsilon 1": "epsilon has no effect: the average radius is",
    **{
        f"calibrate MODEL --sigma 0.5 --{typed}": f"{typed.split()[0]} has no effect: the width of duels"
        for typed in ("objective radius", "epsilon 1", "map softmax", "temperature 1", "mass 2", "alpha 0.1", "n 10")
    },
}


@pytest.mark.parametrize("line", REFUSED)
def test_refusals(line: str, lvmrs: Command) -> None:
    code, out, err = lvmrs(line)
    assert code in (1, 2)
    assert out == ""
    assert REFUSED[line] in " ".join(err.split())


def test_a_run_of_a_map_for_each_input_has_no_one_classifier(lvmrs: Command) -> None:
    assert lvmrs(f"certify MODEL --sigma 0.5 --method lvm --map hardmax {QUICK} --out a")[0] == 0
    code, _, err = lvmrs("predict MODEL --like a")
    assert code == 2
    assert (
        "lvmrs: LVM chooses a map for each input as it is set, so there is no one classifier that could answer" in err
    )


def test_the_place_of_the_file_is_quoted(lvmrs: Command) -> None:
    _, _, err = lvmrs("calibrate MODEL --sigma 0.5 --n0 30 --batch 40 --out c;d.json")
    assert f"--settings {shlex.quote('c;d.json')}" in err
