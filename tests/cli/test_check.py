"""``lvmrs check``, and what certify says at its beginning and end."""

import json
from pathlib import Path

import numpy as np
import pytest

from lvmrs import data
from lvmrs.cli import demo
from tests.cli.helpers import run
from tests.quick import without_trials


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that knows some digits under noise of σ = 0.5."""
    file = tmp_path_factory.mktemp("weights") / "w.safetensors"
    demo.train(file, sigma=0.5, epochs=6)
    return file


@pytest.fixture(autouse=True)
def place(tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with the weights, and digits whose labels are shifted."""
    without_trials(monkeypatch)
    monkeypatch.chdir(tmp_path)
    Path("w.safetensors").symlink_to(weights)
    x, y = data.load("digits").many(range(60))
    np.savez("shifted.npz", x=x.numpy(), y=(y.numpy() + 1) % 10)


MODEL = "--model trained:w.safetensors --sigma 0.5"


def test_a_good_network(capsys: pytest.CaptureFixture[str]) -> None:
    line = f"check {MODEL} --data digits --inputs 40 --copies 30 --n 500 --radii 0,0.5,3"
    code, out, _ = run(line, capsys)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "checked 40 of 360 inputs, 30 noisy copies of each"
    assert lines[1].startswith("right without noise ")
    assert lines[2].startswith("forecast for n = 500, alpha = 0.001: average certified radius 0.")
    assert lines[3].startswith("certified at radius  0: ")
    assert "  3: " not in lines[3]  # more than is possible
    assert lines[4] == "largest radius that n and alpha allow: 1.1 (3 needs n ≥ 7001664081)"
    assert lines[-1] == "nothing looks like a mistake"
    found = json.loads(run(f"{line} --json", capsys)[1])
    assert (found["checked"], found["inputs"], found["copies"], found["findings"]) == (40, 360, 30, [])
    assert found["forecast"]["certified accuracy"]["3"] == 0.0
    assert f"{100 * found['clean accuracy']:.1f} %" in lines[1]
    assert sorted(map(str, Path().iterdir())) == ["shifted.npz", "w.safetensors"]


def test_mistakes_come_with_what_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    line = f"check {MODEL} --data digits --inputs 20 --copies 20"
    out = run(line.replace("0.5", "128"), capsys)[1]
    assert "CHECK  sigma = 128 looks like units of 0 to 255" in out
    assert "\n       --sigma 0.502\n" in out
    out = run(line.replace("0.5", "0.1"), capsys)[1]
    assert "CHECK  the network was trained for noise of sigma = 0.5, and here sigma is 0.1; " in out
    told = "lvmrs train --model trained:w.safetensors --data digits --sigma 0.1 --out nets/new.safetensors"
    assert f"\n       {told}\n" in out
    out = run(f"{line} --n 100 --target-radius 1", capsys)[1]
    assert "CHECK  radius 1 is out of reach: n = 100 samples at alpha = 0.001 certify no radius above 0.75" in out
    assert "it needs n ≥ 301" in out


def test_certify_begins_and_ends_with_a_diagnosis(capsys: pytest.CaptureFixture[str]) -> None:
    line = f"certify {MODEL} --data npz:shifted.npz --n0 100 --n 2000 --skip 2 --out a"
    code, out, err = run(f"{line} --dry-run", capsys)
    assert (code, Path("a").exists()) == (0, False)
    assert "CHECK  labels look shifted: " in out
    nowhere = line.removesuffix(" --out a")
    assert "CHECK  labels look shifted: " in run(f"{nowhere} --dry-run", capsys)[1]
    code, _, err = run(nowhere, capsys)
    assert (code, "out must be given: the directory of the new run" in err) == (2, True)
    code, _, err = run(f"{nowhere} --dry-run --resume", capsys)
    assert (code, "resume needs out" in err) == (2, True)
    code, out, err = run(line, capsys)
    assert (code, out.count("\n")) == (0, 1)
    told = err.splitlines()
    (check,) = (place for place, words in enumerate(told) if words.startswith("check  "))
    assert told[check].startswith("check  30 inputs: ")
    assert told[check + 1].startswith("CHECK  labels look shifted: ")
    assert told[-2].startswith("clean  ")
    assert told[-2].endswith(" % abstain")
    assert told[-1].startswith("CHECK  labels look shifted: ")


def test_a_short_run_begins_without_a_check(capsys: pytest.CaptureFixture[str]) -> None:
    err = run(f"certify {MODEL} --data digits --n0 50 --n 100 --max 5 --out a", capsys)[2]
    assert "check  " not in err
    assert "CHECK  " not in err
    assert err.splitlines()[-1].startswith("clean  ")
