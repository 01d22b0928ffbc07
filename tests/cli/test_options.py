"""Options that would have no effect are refused with the reason, before anything is loaded or written."""

import os
import socket
from pathlib import Path

import numpy as np
import pytest

from lvmrs import registry
from lvmrs.cli.setup import offline_without_hub
from lvmrs.record import Run
from tests.cli.helpers import run

SURE = "--method lipschitz-deterministic"
NO_SAMPLES = "has no effect: this method takes no samples under noise; leave it out"
NO_CONSTANT = "lipschitz has no effect: {} does not use a Lipschitz constant as it is set; leave it out"
UNDIVIDED = "split has no effect: npz:a.npz is not divided into splits; leave it out"
REFUSED = {
    **{
        f"certify DATA {SURE} --{name} {value}": f"{name} {NO_SAMPLES}"
        for name, value in {
            "sigma": 0.5, "alpha": 0.001, "n0": 1000, "n": 100000, "seed": 0, "batch": 8, "noise": "gaussian",
        }.items()
    },
    **{
        f"certify DATA {SURE} --{name} {value}": f"{name} is not a setting of method lipschitz-deterministic: "
        for name, value in {
            "mass": 2, "bound": "betting", "map": "softmax", "temperature": 2, "form": "r2", "width": 1,
        }.items()
    },
    "certify DATA": "sigma must be given: the standard deviation of the noise",
    "certify DATA --method cohen": "sigma must be given: the standard deviation of the noise",
    "certify DATA --sigma 0.5 --method cohen --lipschitz 2": NO_CONSTANT.format("Cohen"),
    "certify DATA --sigma 0.5 --method votes --lipschitz 2": NO_CONSTANT.format("Votes"),
    "certify DATA --sigma 0.5 --method paper --lipschitz 2": NO_CONSTANT.format("Paper"),
    "certify DATA --sigma 0.5 --method duels --lipschitz 2": NO_CONSTANT.format("Duels"),
    "certify DATA --sigma 0.5 --method lipschitz-noise --lipschitz 2": NO_CONSTANT.format("Lipschitz"),
    "certify DATA --sigma 0.5 --method lvm --map hardmax --lipschitz 2": NO_CONSTANT.format("LVM"),
    "certify DATA --sigma 0.5 --method lvm --map hardmax --temperature 2": "temperature has no effect on hardmax",
    "certify DATA --sigma 0.5 --method lvm --bound clopper_pearson": "bounds must include one for soft maps",
    "certify DATA --sigma 0.5 --width chosen": "lipschitz is not known and Duels needs it",
    "certify DATA --sigma 0.5 --split test": UNDIVIDED,
    "predict DATA --sigma 0.5 --split train": UNDIVIDED,
    "predict DATA --sigma 0.5 --method votes --n0 10": "n0 has no effect on votes, whose test needs no candidate",
    "predict DATA --sigma 0.5 --method votes --width 1": "width is not a setting of method votes",
    "predict DATA --sigma 0.5 --method votes --lipschitz 2": NO_CONSTANT.format("Votes"),
    "predict DATA": "sigma must be given: the standard deviation of the noise",
    "calibrate DATA": "sigma must be given: the standard deviation of the noise",
    "certify --data npz:a.npz --model onnx:a.onnx --sigma 1 --compile": "compile has no effect: onnx:a.onnx is not run",
    "certify --data npz:a.npz --model onnx:a.onnx --sigma 1 --precision bfloat16": "precision has no effect: onnx:",
}  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with data that are not divided into splits."""
    monkeypatch.chdir(tmp_path)
    inputs = np.random.default_rng(0).random((4, 12), dtype=np.float32)
    np.savez("a.npz", x=inputs, y=np.array([0, 1, 2, 0]))
    Path("a.onnx").touch()
    Path("own.py").write_text(
        "from tests.tiny_models import RowByRow\n\n\ndef model():\n    return RowByRow()\n", encoding="utf-8"
    )
    return tmp_path


def typed(line: str) -> str:
    return line.replace("DATA", "--data npz:a.npz --model python:own.py:model")


@pytest.mark.parametrize("line", REFUSED)
def test_an_option_without_effect_is_refused(line: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = " --out run" if line.startswith("certify") else ""
    code, printed, err = run(typed(line) + out, capsys)
    assert (code, printed) == (2, "")
    assert REFUSED[line] in " ".join(err.split())
    assert not (here / "run").exists()


def test_a_run_without_noise_needs_and_records_no_sigma(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = typed(f"certify DATA {SURE} --lipschitz 40 --out run")
    assert run(line, capsys)[0] == 0
    assert Run("run").manifest.terms.sigma is None
    rows = Path("run/certificates.tsv")
    text = rows.read_text(encoding="utf-8")
    rows.write_text(text.rpartition("\n3\t")[0] + "\n", encoding="utf-8")
    assert run(f"{line} --resume", capsys)[0] == 0
    assert [row.idx for row in Run("run").rows()] == [0, 1, 2, 3]
    other = typed("certify DATA --sigma 0.25 --method cohen --n0 20 --n 50 --batch 10 --out noisy")
    assert run(other, capsys)[0] == 0
    code, _, err = run("compare run noisy", capsys)
    assert code == 0
    assert "noises σ" not in err
    assert run("report run noisy --out report.html --data none", capsys)[0] == 0


RUNS = {
    "recertify kept --noise gaussian": "noise has no effect: the scores of kept were sampled with exact:64 noise",
    "recertify kept --noise exact": "noise has no effect: the scores of kept were sampled with exact:64 noise",
    "recertify kept --noise python:own.py:Wide": "noise has no effect: the scores of kept were sampled with exact:64",
    "recertify kept --budget 90 --workers 2": "workers has no effect: one process spends a budget; leave it out",
    "recertify kept --budget 90 --ray local": "ray has no effect: one process spends a budget; leave it out",
    "recertify kept --cpus-per-worker 2": "cpus-per-worker has no effect without ray; leave it out",
    "recertify kept --beta 0.1": "beta has no effect without a goal such as a target radius; leave it out",
    "verify kept TYPED --rows all --seed 1": "seed has no effect: all rows are computed again, and none is drawn;",
    "verify kept TYPED --map python:own.py:Mine": "map has no effect: kept was made without python:own.py:Mine; leave",
    "verify kept TYPED --noise python:own.py:Wide": "noise has no effect: kept was made without python:own.py:Wide;",
    "verify kept TYPED --ray --gpus-per-worker 1 --device cpu": "gpus-per-worker has no effect: the model runs on the",
    "verify sure TYPED --batch 7": "batch has no effect: sure took no samples; leave it out",
    "attack kept TYPED --map python:own.py:Mine": "map has no effect: kept was made without python:own.py:Mine; leave",
    "attack kept TYPED --ray --gpus-per-worker 1 --device cpu": "gpus-per-worker has no effect: the model runs on the",
    "attack sure TYPED --samples 8": "samples has no effect: certificates of sure are without noise; leave it out",
    "attack sure TYPED --n 100": "n has no effect: certificates of sure are without noise; leave it out",
    "attack sure TYPED --beta 0.1": "beta has no effect: certificates of sure are without noise; leave it out",
    "predict TYPED --like kept --noise gaussian": "this is not the classifier of kept: its noise is 'exact:64', and",
    "predict TYPED --like kept --sigma 0.25": "this is not the classifier of kept: its sigma is 0.5, and here it is",
    "predict TYPED --like kept --lipschitz 3": NO_CONSTANT.format("Duels"),
    "predict TYPED --like sure --n 50": f"n {NO_SAMPLES}",
    "calibrate TYPED --sigma 0.5 --method fixed --map hardmax --lipschitz 9": "lipschitz has no effect: scores of "
    "hardmax have no Lipschitz constant; leave it out",
    "calibrate TYPED --sigma 0.5 --method fixed --map hardmax --temperature 2": "temperature has no effect on hardmax",
    "calibrate TYPED --sigma 0.5 --map softmax": "map has no effect: the width of duels is half the median deviation",
}  # fmt: skip


@pytest.mark.parametrize("line", RUNS)
def test_an_option_without_effect_on_a_run_is_refused(
    line: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for names in registry.PARTS:
        monkeypatch.setattr(names, "_added", {})
    with Path("own.py").open("a") as file:
        file.write("\n\nfrom lvmrs.kernel.maps import Softmax\nfrom lvmrs.kernel.noise import Gaussian\n")
        file.write("\n\nclass Mine(Softmax):\n    name = 'mine'\n\n\nclass Wide(Gaussian):\n    name = 'wide'\n")
    with np.load("a.npz") as held:
        np.savez("a.npz", x=np.round(held["x"] * 64) / 64, y=held["y"])
    few = "--n0 20 --n 50 --batch 10"
    if " kept" in line:
        kept = f"certify DATA --sigma 0.5 --method duels --noise exact:64 {few} --keep-scores --out kept"
        assert run(typed(kept), capsys)[0] == 0
    if " sure" in line:
        assert run(typed(f"certify DATA {SURE} --lipschitz 40 --out sure"), capsys)[0] == 0
    before = sorted(here.rglob("*"))
    out = " --out new" if line.startswith("recertify") else ""
    code, printed, err = run(line.replace("TYPED", typed("DATA")) + out, capsys)
    assert (code, printed) == (2, "")
    assert RUNS[line] in " ".join(err.split())
    assert sorted(here.rglob("*")) == before


def test_the_noise_of_a_run_may_be_typed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = "--n0 20 --n 50 --batch 10 --keep-scores"
    assert run(typed(f"certify DATA --sigma 0.5 --method duels --noise gaussian {few} --out kept"), capsys)[0] == 0
    assert run("recertify kept --noise gaussian --method cohen --out again", capsys)[0] == 0


def test_points_cannot_be_kept_later(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(typed(f"certify DATA {SURE} --lipschitz 40 --out sure"), capsys)[0] == 0
    line = typed("attack sure DATA --steps 2 --restarts 1")
    assert run(line, capsys)[0] == 0
    code, printed, err = run(f"{line} --keep", capsys)
    assert (code, printed) == (1, "")
    assert "sure has no points of 4 inputs that were attacked without keeping them (the first is 0); choose" in err
    assert run(f"{line} --keep --out other", capsys)[0] == 0
    assert run(f"{line} --keep --out other", capsys)[0] == 0
    assert len(list(Path("other").glob("attack-*.npy"))) == 4


def test_data_without_splits_are_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run(typed("certify DATA --sigma 1 --method cohen --n0 20 --n 50 --batch 10 --out run"), capsys)
    assert "npz:a.npz; not divided into splits, 4 inputs" in err


def test_without_a_hub_only_cached_files_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(host: str, port: object) -> object:
        raise OSError(f"no address of {host}")

    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HUB_OFFLINE", "")  # so that its present value is put back after the test
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, port: [])
    offline_without_hub()
    assert "HF_HUB_OFFLINE" not in os.environ
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    offline_without_hub()
    assert "HF_HUB_OFFLINE" not in os.environ
    monkeypatch.delenv("https_proxy")
    offline_without_hub()
    assert os.environ["HF_HUB_OFFLINE"] == "1"
