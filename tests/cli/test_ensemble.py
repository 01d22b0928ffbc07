"""An ensemble of three trained networks, from training to attack, as it is typed."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lvmrs import runs
from lvmrs.cli import app
from lvmrs.record import Run
from lvmrs.runs.workers.ray import copy_files
from tests.cli.helpers import run
from tests.quick import without_trials
from tests.workers.copies import Copies

MODEL = "ensemble:trained:0.safetensors+trained:1.safetensors+trained:2.safetensors"
CERTIFY = "certify --data digits --sigma 0.25 --skip 90 --n0 20 --n 200 --batch 64 --device cpu"

Lvmrs = Callable[[str], tuple[int, str, str]]


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The files of three networks, trained from different first weights."""
    folder, train = (
        tmp_path_factory.mktemp("nets"),
        "train --model ready:small_cnn,width=4 --data digits --sigma 0.25 --epochs 1",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for seed in range(3):
            app(f"{train} --lr 0.01 --seed {seed} --out {seed}.safetensors".split(), standalone_mode=False)
    return [(folder / f"{seed}.safetensors").read_bytes() for seed in range(3)]


@pytest.fixture
def lvmrs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], networks: list[bytes]
) -> Lvmrs:
    """Commands in a directory with the three files."""
    monkeypatch.chdir(tmp_path)
    without_trials(monkeypatch)
    for seed, content in enumerate(networks):
        Path(f"{seed}.safetensors").write_bytes(content)
    return lambda line: run(line, capsys)


def rows(directory: str) -> list[tuple[int, int, float]]:
    return [(row.idx, row.predict, row.radius) for row in Run(directory).rows()]


@pytest.mark.parametrize("source", ["ensemble", "ensemble-softmax"])
def test_from_certificates_to_an_attack(lvmrs: Lvmrs, source: str) -> None:
    model = MODEL.replace("ensemble", source)
    code, _, err = lvmrs(f"{CERTIFY} --model {model} --out a")
    assert (code, "trained for Gaussian(sigma=0.25" in err) == (0, True)
    assert len(rows("a")) == 4
    assert max(radius for _, _, radius in rows("a")) > 0
    code, _, err = lvmrs("verify a --rows all")
    assert (code, "4 of 4 rows computed again" in err) == (0, True)
    code, out, _ = lvmrs("attack a --steps 2 --samples 4 --n 200 --device cpu")
    assert (code, " 0 broken; " in out) == (0, True)
    code, _, err = lvmrs(f"predict --like a --model {model} --data digits --skip 180 --device cpu")
    assert code == 0, err


def test_workers_load_the_members_and_compute_the_same_rows(lvmrs: Lvmrs, tmp_path: Path) -> None:
    assert lvmrs(f"{CERTIFY} --model {MODEL} --out a")[0] == 0
    job = runs.job_of_run(Run("a"))
    runs.certify(job, "b", workers=Copies())
    assert rows("a") == rows("b")
    copies = copy_files(job.files, tmp_path / "copies")  # as they go to the nodes of Ray
    assert sorted(path.name for path in copies.rglob("*.safetensors")) == [f"{seed}.safetensors" for seed in range(3)]


def test_a_run_is_not_resumed_with_another_member_or_another_average(lvmrs: Lvmrs) -> None:
    assert lvmrs(f"{CERTIFY} --model {MODEL} --out a")[0] == 0
    lines = Path("a/certificates.tsv").read_text().splitlines(keepends=True)
    Path("a/certificates.tsv").write_text("".join(lines[:-1]))
    for moved in ("0", "1", "2"):
        file = Path(f"{moved}.safetensors")
        content = bytearray(file.read_bytes())
        content[-1] ^= 1  # the last weight
        file.write_bytes(content)
        code, _, err = lvmrs(f"{CERTIFY} --model {MODEL} --out a --resume")
        assert (code, "weights hash" in err) == (1, True)
        assert lvmrs("verify a")[0] == 1
        content[-1] ^= 1
        file.write_bytes(content)
    code, _, err = lvmrs(f"{CERTIFY} --model {MODEL.replace('ensemble', 'ensemble-softmax')} --out a --resume")
    assert (code, "model name" in err) == (1, True)
    code, _, err = lvmrs(f"verify a --model {MODEL.replace('ensemble', 'ensemble-softmax')}")
    assert (code, "weights hash" in err) == (1, True)
    assert lvmrs(f"{CERTIFY} --model {MODEL} --out a --resume")[0] == 0
    assert len(rows("a")) == 4


def test_a_run_cannot_choose_the_code_of_a_member(lvmrs: Lvmrs) -> None:
    Path("mine.py").write_text("from pathlib import Path\nPath('code-was-run').touch()\n")
    assert lvmrs(f"{CERTIFY} --model {MODEL} --out a")[0] == 0
    file = Path("a/manifest.json")
    for name in ("ensemble:python:mine.py:f+trained:0.safetensors", "ensemble:ensemble:python:mine.py:f+trained:a"):
        stored = json.loads(file.read_text())
        stored["model"]["name"] = name
        file.write_text(json.dumps(stored))
        code, _, err = lvmrs("verify a")
        assert (code, "could run code" in err) == (2, True)
    assert not Path("code-was-run").exists()


def test_the_constant_is_the_mean_of_those_of_the_members(lvmrs: Lvmrs) -> None:
    bounds = [
        float(lvmrs(f"lipschitz --model {model} --shape 1,8,8")[1])
        for model in (MODEL, *MODEL.removeprefix("ensemble:").split("+"))
    ]
    assert bounds[0] == pytest.approx(np.mean(bounds[1:]), rel=1e-4)
    code, _, err = lvmrs(f"lipschitz --model {MODEL.replace('ensemble', 'ensemble-softmax')} --shape 1,8,8")
    assert (code, "averages softmax scores, for which no Lipschitz bound is known" in err) == (1, True)


def test_options_without_effect_are_refused(lvmrs: Lvmrs) -> None:
    Path("net.onnx").touch()
    code, _, err = lvmrs(f"{CERTIFY} --model {MODEL}+onnx:net.onnx --compile --out a")
    assert (code, "onnx:net.onnx is not run by torch" in err) == (2, True)
