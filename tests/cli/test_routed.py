"""A routed classifier of trained networks, as it is typed: certified, resumed, read, and refused elsewhere."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lvmrs import RoutedClassifier, SmoothedClassifier, data, models
from lvmrs.cli import app
from lvmrs.record import Run, RunWriter
from lvmrs.record.manifest import ROUTED
from tests.cli.helpers import run
from tests.quick import without_trials

SIGMAS = (0.25, 0.5)
FILES = ("0.25.safetensors", "0.5.safetensors", "router.safetensors")
PARTS: dict[str, Any] = {
    "experts": [{"model": f"trained:{sigma}.safetensors", "sigma": sigma} for sigma in SIGMAS],
    "router": {"model": "trained:router.safetensors", "sigma": 0.25},
    "fallback": 1,
}
CERTIFY = "certify --model routed:parts.json --data digits --skip 60 --n0 30 --n 200 --alpha 0.01 --device cpu"

Lvmrs = Callable[[str], tuple[int, str, str]]


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of two experts and a router. The router sends even digits to one expert, and odd digits to another."""
    folder, train = tmp_path_factory.mktemp("nets"), "train --epochs 2 --lr 0.01 --device cpu"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        images, labels = data.load("digits", split="train").many(range(1437))
        x, y = images.numpy(), labels.numpy() % 2
        np.savez("halves.npz", x_train=x, y_train=y, x_test=x[:9], y_test=y[:9])
        for sigma in SIGMAS:
            words = f"--model ready:small_cnn,width=4 --data digits --sigma {sigma} --out {sigma}.safetensors"
            app(f"{train} {words}".split(), standalone_mode=False)
        words = "--model ready:small_cnn,width=4,classes=2 --data npz:halves.npz --sigma 0.25 --out router.safetensors"
        app(f"{train} {words}".split(), standalone_mode=False)
    return {name: (folder / name).read_bytes() for name in FILES}


@pytest.fixture
def lvmrs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], networks: dict[str, bytes]
) -> Lvmrs:
    """Commands in a directory with the networks and the file that names them."""
    monkeypatch.chdir(tmp_path)
    without_trials(monkeypatch)
    for name, content in networks.items():
        Path(name).write_bytes(content)
    Path("parts.json").write_text(json.dumps(PARTS))
    return lambda line: run(line, capsys)


def test_rows_have_the_parts_of_the_certificates(lvmrs: Lvmrs) -> None:
    code, out, err = lvmrs(f"{CERTIFY} --out a")
    assert code == 0, err
    assert "a: 6 inputs, certified accuracy" in out
    made = Run("a")
    assert made.columns[-4:] == ("samples", "experts", "expert_radius", "router_radius")
    assert "limit" not in made.columns
    loaded = [models.load(f"trained:{name}").model for name in FILES]
    parts = [
        SmoothedClassifier(model, sigma, batch=256, noise="exact:16")
        for model, sigma in zip(loaded, (*SIGMAS, 0.25), strict=True)
    ]
    routed, images = RoutedClassifier(parts[:2], parts[2], fallback=1), data.load("digits")
    for row in made.rows():
        x, label = images[row.idx]
        found = routed.certify(x, n0=30, n=200, alpha=0.01, index=row.idx)
        assert (row.predict, row.top, row.label) == (found.prediction, found.experts[0].top, label)
        assert row.radius == pytest.approx(found.radius, abs=1e-9)
        assert (row.experts, row.samples) == (";".join(map(str, found.answering)), found.n)
        assert row.expert_radius == pytest.approx(found.expert_radius, abs=1e-9)
        assert (row.router_radius is None) == (len(found.answering) == 2)
        assert row.router_radius is None or row.router_radius == pytest.approx(found.router_radius, abs=1e-9)
        assert row.clean == routed.answer(x)
    assert len({row.experts for row in made.rows()}) > 1
    assert any(row.radius > 0 for row in made.rows())
    terms, method = made.manifest.terms, made.manifest.method
    assert (made.manifest.routed, method.name, terms.sigma, terms.noise) == (True, ROUTED, 0.5, "exact:16")
    assert method.settings["expert 1"]["model"] == "trained:0.5.safetensors"
    assert method.classifier is not None
    assert "or expert 1 if none does" in method.classifier


def test_other_commands_read_the_run(lvmrs: Lvmrs) -> None:
    assert lvmrs(f"{CERTIFY} --out a")[0] == 0
    single = CERTIFY.replace("routed:parts.json", "trained:0.25.safetensors --sigma 0.25")
    assert lvmrs(f"{single} --out b")[0] == 0
    for line in ("analyze a b", "compare a b", "report a b --out r.html", "plot a b --out r.png", "merge a --out c"):
        code, _, err = lvmrs(line)
        assert code == 0, (line, err)
    page = Path("r.html").read_text()
    assert "samples of each part, and proved on 200 others" in page
    assert "; router within " in page or "; router not needed; " in page
    assert "the routed classifier in which" in page
    for form in ("json", "card", "tsv"):
        assert lvmrs(f"export a --format {form} -o a.{form}")[0] == 0
    assert json.loads(Path("a.json").read_text())["rows"][0]["samples"] in (200, 400, 600)
    assert Run("c").rows() == Run("a").rows()
    assert len(Run("a").frame().dropna(subset=["expert_radius"])) == 6


def test_a_run_is_resumed_with_the_same_networks_alone(lvmrs: Lvmrs, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lvmrs(f"{CERTIFY} --batch 64 --out whole")[0] == 0

    class Stopped(RunWriter):
        def append(self, *rows: Any) -> None:
            super().append(*rows)
            if len(self.done) == 3:
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("lvmrs.runs.certify_routed.RunWriter", Stopped)
        code, _, err = lvmrs(f"{CERTIFY} --batch 64 --out a")
    assert (code, "--resume" in err, len(Run("a").rows())) == (3, True, 3)
    Path("other.json").write_text(json.dumps({**PARTS, "fallback": 0}))
    code, _, err = lvmrs(CERTIFY.replace("parts.json", "other.json") + " --out a --resume")
    assert (code, "was begun with other settings" in err) == (1, True)
    weights = Path("0.5.safetensors").read_bytes()
    Path("0.5.safetensors").write_bytes(Path("0.25.safetensors").read_bytes())
    code, _, err = lvmrs(f"{CERTIFY} --out a --resume")
    assert (code, "was begun with other settings" in err) == (1, True)
    Path("0.5.safetensors").write_bytes(weights)
    assert lvmrs(f"{CERTIFY} --out a")[0] == 1
    assert lvmrs(f"{CERTIFY} --batch 32 --out a --resume")[0] == 1
    assert lvmrs(f"{CERTIFY} --out a --resume")[0] == 0  # in the batches that were begun
    made, expected = (
        [line.split("\t")[:5] + line.split("\t")[6:] for line in Run(name).file.read_text().splitlines()]
        for name in ("a", "whole")
    )
    assert made == expected


REFUSED = {
    "predict --model routed:parts.json --data digits": "which only lvmrs certify takes; name one of its networks",
    "check --model routed:parts.json --data digits --sigma 0.5": "which only lvmrs certify takes",
    "calibrate --model routed:parts.json --data digits --sigma 0.5 --out s.json": "which only lvmrs certify takes",
    "sigma --model routed:parts.json --data digits --sigma 0.5 --sigma 1": "which only lvmrs certify takes",
    "lipschitz --model routed:parts.json --shape 1,8,8": "which only lvmrs certify takes",
    "certify --model ensemble:routed:parts.json+trained:0.5.safetensors --data digits --sigma 0.5 --out q": (
        "which only lvmrs certify takes"
    ),
    f"launch --slurm -- {CERTIFY} --out q": "which has no shards; type lvmrs certify itself",
    CERTIFY: "out must be given",
    **{
        f"{CERTIFY} --out q {words}": f"{words.split()[0][2:].replace('-', '_')} cannot be given for a routed"
        for words in (
            "--sigma 0.5", "--workers 2", "--ray", "--shard 1/2", "--keep-scores", "--target-radius 0.5",
            "--budget 9999", "--method cohen", "--width chosen", "--settings s.json", "--weights w.safetensors",
            "--denoiser trained:d", "--lipschitz 2", "--tracker tensorboard:t", "--dry-run", "--compile",
            "--mean 0.5 --std 0.5",
        )
    },
}  # fmt: skip
OF_A_RUN = ("verify a", "attack a", "recertify a --method cohen --out q", "predict --like a --model x --data digits")


def test_what_takes_no_routed_classifier_says_so_in_one_sentence(lvmrs: Lvmrs) -> None:
    Path("w.safetensors").touch()
    Path("d").touch()
    for line, sentence in REFUSED.items():
        code, _, err = lvmrs(line)
        assert code in (1, 2), line
        assert sentence in err.splitlines()[-1], (line, err)
        assert not Path("q").exists(), line
    assert lvmrs(f"{CERTIFY} --out a")[0] == 0
    for line in OF_A_RUN:
        code, _, err = lvmrs(line.replace("--model x", "--model trained:0.5.safetensors"))
        assert (code, "is of a routed classifier, which only lvmrs certify" in err.splitlines()[-1]) == (1, True), err


def without(*keys: str) -> str:
    return json.dumps({key: value for key, value in PARTS.items() if key not in keys})


WRONG = {
    "[]": "expected an object",
    "{": "is not a file of a routed classifier, or is damaged",
    "{}": "experts is missing",
    without("fallback"): "fallback is missing",
    json.dumps({**PARTS, "weights": 1}): "weights is not known",
    json.dumps({**PARTS, "format": 1}): "has format 1",
    json.dumps({**PARTS, "experts": [1, 2]}): "expert 0 is damaged: expected an object, got 1",
    json.dumps({**PARTS, "experts": PARTS["experts"][:1]}): "experts must be at least 2",
    json.dumps({**PARTS, "fallback": 2}): "fallback must be",
    json.dumps({**PARTS, "router": {"model": "trained:no.safetensors", "sigma": 0.5}}): "no.safetensors",
    json.dumps({**PARTS, "router": {"model": "trained:0.5.safetensors", "sigma": 0.5}}): "router must have one class",
    json.dumps({**PARTS, "router": {"model": "ready:small_cnn", "sigma": -1}}): "sigma must be",
    json.dumps({**PARTS, "router": {"model": "ready:small_cnn", "sigma": None}}): "expected a finite number, got None",
    **{
        json.dumps({**PARTS, part: value}): "could run code, and a file must not choose code; name networks of lvmrs"
        for name in ("python:code.py:net", "hf:someone/net", "onnx:n.onnx", "timm:resnet18", "export:n.pt2", "nonsense",
                     "ensemble:trained:0.5.safetensors+python:code.py:net", "routed:parts.json")
        for part, value in {
            "router": {"model": name, "sigma": 0.5},
            "experts": [PARTS["experts"][0], {"model": name, "sigma": 0.5}],
        }.items()
    },
}  # fmt: skip


def test_a_wrong_file_gets_one_sentence_and_runs_no_code(lvmrs: Lvmrs) -> None:
    Path("code.py").write_text("open('ran', 'w').close()\nnet = print\n")
    for text, sentence in WRONG.items():
        Path("parts.json").write_text(text)
        code, _, err = lvmrs(f"{CERTIFY} --out q")
        assert code in (1, 2), text
        assert sentence in err.splitlines()[-1], (text, err)
        assert not Path("q").exists()
    assert not Path("ran").exists()
    with pytest.raises(Exception, match="which only lvmrs certify takes"):
        models.load("routed:parts.json")


def test_a_damaged_row_of_a_routed_run_is_refused(lvmrs: Lvmrs) -> None:
    assert lvmrs(f"{CERTIFY} --out a")[0] == 0
    file = Path("a/certificates.tsv")
    lines = file.read_text().splitlines()
    for column, value in {"expert_radius": "-1.0", "router_radius": "nan", "experts": "", "samples": "x"}.items():
        fields = lines[1].split("\t")
        fields[lines[0].split("\t").index(column)] = value
        file.write_text("\n".join([lines[0], "\t".join(fields), *lines[2:], ""]))
        code, _, err = lvmrs("report a --out r.html")
        assert (code, column in err) == (1, True), (column, err)
