"""``lvmrs sigma``: the table, verdicts that say what was found, what to type next, and refusals."""

import json
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
import torch

from lvmrs import data
from lvmrs.cli.check import training_data
from lvmrs.kernel.checks import Floats
from lvmrs.models import ready, trained
from tests.cli.helpers import run
from tests.quick import without_trials
from tests.runs.test_sigma import EVEN, job_of, made

DATA = "--data npz:a.npz --inputs 12 --copies 20 --n 500"
ONE = "sigma --model python:net.py:larger"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with data, a model, and networks with and without a σ on record."""
    without_trials(monkeypatch)
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).random((30, 2), dtype=np.float32)
    np.savez("a.npz", x=x, y=x.argmax(axis=1))
    Path("net.py").write_text("import torch\ndef larger(): return torch.nn.Identity()\n", encoding="utf-8")
    torch.manual_seed(0)
    for name, sigma in {"low": "0.25", "high": "0.5", "clean": "0.0", "same": "0.25", "unknown": None}.items():
        record = {} if sigma is None else {"objective": f"Gaussian(sigma={sigma})"}
        trained.save(Path(f"{name}.safetensors"), ready.build("small_cnn"), "ready:small_cnn", record)


Patch: TypeAlias = pytest.MonkeyPatch
Shown: TypeAlias = pytest.CaptureFixture[str]


def answered(monkeypatch: Patch, capsys: Shown, radii: dict[float, Floats], options: str = "") -> str:
    """What the command prints for candidates with these radii, by σ."""
    found = made(radii)
    monkeypatch.setattr("lvmrs.runs.sigma.compare_sigmas", lambda *jobs, **settings: found)
    code, out, err = run(f"{ONE} {DATA} --sigma 0.25 --sigma 0.5 {options}", capsys)
    assert code == 0, err
    return out


def test_the_table_and_json_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    line = f"{ONE} {DATA} --sigma 0.5 --sigma 0.05 --radii 0,0.1,1,9 --radius 0.1"
    code, out, err = run(f"{line} --plot a.png", capsys)
    assert (code, err.count("\ndata "), err.count("model ")) == (0, 1, 2)
    lines = out.splitlines()
    assert lines[0] == (
        "forecast of certified accuracy in % for n = 500, alpha = 0.001, from 12 of 30 inputs, 20 noisy copies of each"
    )
    assert lines[1].split() == ["radius", "sigma", "0.05", "sigma", "0.5", "best"]
    assert [line.split("  ")[0] for line in lines[2:]][:9] == [
        "0", "0.1", "1", "average radius", "largest radius", "right without noise", "right with noise",
        "samples an input", "seconds an input",
    ]  # fmt: skip
    assert lines[4].split()[1] == "-"  # beyond the ceiling of sigma = 0.05, as is radius 9 for both
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(run(f"{line} --json", capsys)[1])
    assert [each["sigma"] for each in found["sigmas"]] == [0.05, 0.5]
    share = found["sigmas"][0]["certified accuracy"]["0"]
    assert f" {100 * share['value']:.1f} (" in lines[2]
    assert share["low"] < share["value"] <= share["high"]
    assert [choice["radius"] for choice in found["choices"]] == [0.1, None]
    assert found["choices"][1]["ahead by"].keys() == {"0.05"}
    assert found["sigmas"][0]["samples of an input"] == 1500


def test_a_figure_that_cannot_be_written_costs_no_forecast(capsys: pytest.CaptureFixture[str]) -> None:
    Path("folder.png").mkdir()
    code, out, err = run(f"{ONE} {DATA} --sigma 0.5 --sigma 0.05 --plot folder.png", capsys)
    assert code == 1
    assert "\naverage radius: " in out
    assert "folder.png cannot be written to" in err


def test_sigmas_are_those_of_the_training(capsys: pytest.CaptureFixture[str]) -> None:
    models = "--model trained:high.safetensors --model trained:low.safetensors"
    line = f"sigma {models} --data digits --inputs 4 --copies 5 --n 100 --max 8 --json"
    code, out, err = run(line, capsys)
    assert code == 0, err
    found = json.loads(out)["sigmas"]
    assert [(each["sigma"], each["model"]) for each in found] == [
        (0.25, "trained:low.safetensors"), (0.5, "trained:high.safetensors"),
    ]  # fmt: skip


def test_a_clear_verdict(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    radii = {0.25: 0.5 * EVEN, 0.5: EVEN, 1.0: 0.4 * EVEN}
    out = answered(monkeypatch, capsys, radii, "--radius 0.45")
    assert "\nradius 0.45: take sigma 0.5, which is better than 0.25 by 45.0 points (3" in out
    assert "\naverage radius: take sigma 0.5, which is better than 0.25 by 0.250 (0.2" in out
    assert " and than 1 by 0.300 (0.2" in out
    assert "was tried" not in out
    assert "not decided" not in out


def test_an_undecided_verdict(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    noise = 0.1 * np.random.default_rng(0).normal(size=100)
    noise -= noise.mean()
    radii = {0.25: EVEN + 2.0, 0.5: EVEN + 2.02 + noise, 1.0: EVEN}
    out = answered(monkeypatch, capsys, radii)
    assert "\naverage radius: not decided between sigma 0.25 and 0.5: 0.5 is ahead of 0.25 by 0.020 (-0.0" in out
    assert "; it is better than 1 by 2.0" in out
    needed = out.rpartition("--inputs ")[2].partition(")")[0]
    assert f"; take more inputs: about {needed} may decide (--inputs {needed})" in out
    assert 100 < int(needed) < 1000
    out = answered(monkeypatch, capsys, {0.25: EVEN, 0.5: EVEN + noise + 0.001})
    assert "inputs may decide, and there are 1000: any of these will do" in out
    assert "; any of these will do" in answered(monkeypatch, capsys, {0.25: EVEN, 0.5: EVEN})


def test_the_best_at_the_edge_comes_with_what_to_type(monkeypatch: Patch, capsys: Shown) -> None:
    rising, falling = {0.25: 0.5 * EVEN, 0.5: EVEN}, {0.25: EVEN, 0.5: 0.5 * EVEN}
    out = answered(monkeypatch, capsys, rising, "--radius 0.3")
    told = "\nno sigma larger than 0.5 was tried, which may be better for radius 0.3 and average radius; to try 1:\n"
    assert f"{told}       add --sigma 1\n" in out
    out = answered(monkeypatch, capsys, falling, "--radius 0.4")
    assert "\nno sigma smaller than 0.25 was tried, which may be better for average radius; to try 0.125:\n" in out
    out = answered(monkeypatch, capsys, rising, "--radius 7")
    assert "\nradius 7: out of reach: n = 1000 samples at alpha = 0.001 certify no radius above 1.5 with these " in out
    assert "even if all samples agree; it needs a sigma above 2.334, or more samples\n" in out
    assert "better for radius 7; to try 4:\n" in out
    out = answered(monkeypatch, capsys, rising, "--radius 1e308")
    assert "\nradius 1e+308: out of reach" in out
    out = answered(monkeypatch, capsys, rising, "--radius 1.2")
    assert "\nradius 1.2: no input is expected to be certified with any of these sigmas\n" in out


def test_networks_come_with_the_command_that_trains_another(capsys: pytest.CaptureFixture[str]) -> None:
    models = "--model trained:low.safetensors --model trained:high.safetensors"
    line = f"sigma {models} --data digits --inputs 4 --copies 5 --n 100 --radius 2"
    code, out, err = run(line, capsys)
    assert code == 0, err
    command = "lvmrs train --model ready:small_cnn --data digits --sigma 2 --out nets/sigma-2.safetensors"
    assert f"to try 2:\n       {command}\n       (with the other options" in out


REFUSED = {
    f"{ONE} --sigma 0.5": "one sigma leaves nothing to choose; give several networks, or one network and several",
    ONE: "one sigma leaves nothing to choose",
    f"{ONE} --model onnx:b --sigma 1 --sigma 2 --sigma 3": "2 models, and the number of sigmas is 3; give one sigma",
    f"{ONE} --model onnx:b --sigma 1": "the number of sigmas is 1; give one sigma for each model, or one model",
    f"{ONE} --sigma 0.5 --sigma 0.5": "sigma = 0.5 is given twice; give each sigma once",
    f"{ONE} --sigma 0.5 --sigma -1": "sigma must be positive and finite, got -1.0",
    f"{ONE} --sigma 0.5 --sigma nan": "sigma must not be NaN, got nan",
    f"{ONE} --model onnx:b --weights w": "weights has no effect: there are several models, each with its own weights",
    f"{ONE} --model onnx:b --denoiser trained:d": "sigma must be given: the denoiser does not say for which noise",
    f"{ONE} --sigma 1 --sigma 2 --radius -1": "radius must be at least 0 and finite, got -1.0",
    f"{ONE} --sigma 1 --sigma 2 --radii x": "radii must be numbers with commas between them, got 'x'",
    f"{ONE} --sigma 1 --sigma 2 --confidence 1": "confidence must lie strictly between 0 and 1, got 1.0",
    f"{ONE} --sigma 1 --sigma 2 --inputs 1": "inputs must be a whole number of at least 2, got 1",
    f"{ONE} --sigma 1 --sigma 2 --plot a.gif": "plot must end with .png, .svg, .pdf, got a.gif",
}
LOADING = {
    f"{ONE} --sigma 1 --sigma 2 --plot absent/a.pdf": "absent/a.pdf cannot be written to: there is no directory absent",
    f"{ONE} --model trained:low.safetensors": "sigma must be given for python:net.py:larger, since its file does not",
    "sigma --model trained:low.safetensors --model trained:unknown.safetensors": (
        "sigma must be given for trained:unknown.safetensors, since its file does not record the noise of its training"
    ),
    "sigma --model trained:low.safetensors --model trained:clean.safetensors": (
        "sigma must be given for trained:clean.safetensors, since it was trained without noise"
    ),
    "sigma --model trained:low.safetensors --model trained:same.safetensors": (
        "trained:low.safetensors and trained:same.safetensors were both trained for sigma = 0.25; give one"
    ),
    "sigma --model trained:low.safetensors --model ensemble:trained:low.safetensors+trained:high.safetensors": (
        "high.safetensors, since its members were trained for different sigmas; give a sigma for each model"
    ),
    f"{ONE} --sigma 1 --sigma 2 --lipschitz 1 --method lipschitz-deterministic": "this method takes no samples",
}


@pytest.mark.parametrize("line", [*REFUSED, *LOADING])
def test_bad_input_gets_one_sentence(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(f"{line} --data npz:a.npz", capsys)
    assert code in (1, 2)
    assert out == ""
    assert (REFUSED | LOADING)[line] in err.splitlines()[-1]


def test_options_are_judged_before_torch_is_imported() -> None:
    code = (
        "import sys\n"
        "from lvmrs.cli import main\n"
        f"for line in {list(REFUSED)}:\n"
        "    try:\n"
        "        main([*line.split(), '--data', 'npz:a.npz'])\n"
        "    except SystemExit as end:\n"
        "        print(end.code, 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.split("\n")[:-1] == ["2 False"] * len(REFUSED)


def test_the_last_of_several_values_counts_and_this_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run(f"{ONE} --sigma 1 --sigma 2 --radius 1 --radius -1 {DATA}", capsys)
    assert err == (
        "caution: --radius is given 2 times; the last value counts\n"
        "lvmrs: radius must be at least 0 and finite, got -1.0\n"
    )


def test_no_command_trains_on_the_inputs_to_certify() -> None:
    x = np.random.default_rng(0).random((30, 2))
    job = job_of(0.5, data.Arrays("a square", "test", x, x.argmax(axis=1)))
    assert training_data(job) == "'a square'"
    job.data.divided = False
    assert training_data(job) == "TRAINING_DATA"
