"""Options that would have no effect are refused with the reason, before anything is loaded or written."""

from pathlib import Path

import numpy as np
import pytest

from lvmrs.runs import Run
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
    "certify DATA --sigma 0.5 --method lvm --bound clopper_pearson": "bounds must hold one that works for soft maps",
    "certify DATA --sigma 0.5 --width chosen": "lipschitz is not known and Duels needs it",
    "certify DATA --sigma 0.5 --split test": UNDIVIDED,
    "predict DATA --sigma 0.5 --split train": UNDIVIDED,
    "predict DATA --sigma 0.5 --method votes --n0 10": "n0 has no effect on votes, whose test needs no candidate",
    "predict DATA --sigma 0.5 --method votes --width 1": "width is not a setting of method votes",
    "predict DATA --sigma 0.5 --method votes --lipschitz 2": NO_CONSTANT.format("Votes"),
    "predict DATA": "sigma must be given: the standard deviation of the noise",
    "calibrate DATA": "sigma must be given: the standard deviation of the noise",
    "certify --data npz:a.npz --model onnx:a.onnx --sigma 1 --compile": "compile has no effect: onnx:a.onnx is not run",
    "certify --data npz:a.npz --model onnx:a.onnx --sigma 1 --autocast bfloat16": "autocast has no effect: onnx:a.onnx",
}  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with data that are not divided into splits."""
    monkeypatch.chdir(tmp_path)
    inputs = np.random.default_rng(0).random((4, 12), dtype=np.float32)
    np.savez("a.npz", x=inputs, y=np.array([0, 1, 2, 0]))
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


def test_data_without_splits_are_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run(typed("certify DATA --sigma 1 --method cohen --n0 20 --n 50 --batch 10 --out run"), capsys)
    assert "npz:a.npz; not divided into splits, 4 inputs" in err
