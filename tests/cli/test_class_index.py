"""Labels of image folders on the command line: told, refused where they cannot be right, and taken from a file."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.helpers import run

CODE = """
import torch
def thousand():
    return lambda x: torch.nn.functional.pad(x.flatten(1)[:, :3], (0, 997))
def two():
    return lambda x: x.flatten(1)[:, :2]
"""


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own_nets_by_size.py").write_text(CODE)
    rng = np.random.default_rng(0)
    for split in ("train", "test"):
        for folder in ("n02123045", "n03100240"):
            Path("val", split, folder).mkdir(parents=True)
            for number in range(2):
                pixels = rng.integers(0, 256, (8, 8, 3), np.uint8)
                Image.fromarray(pixels).save(Path("val", split, folder, f"{split}-{number}.png"))
    Path("index.json").write_text(json.dumps({"281": ["n02123045", "tabby"], "511": ["n03100240", "convertible"]}))


COMMON = "--data imagefolder:val --sigma 0.5 --n0 10 --batch 4"
VERBS = {"certify": "certify --out a --n 20", "predict": "predict --n 20", "calibrate": "calibrate"}


@pytest.mark.parametrize("verb", VERBS)
def test_folder_order_is_refused_told_or_replaced(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    line = f"{VERBS[verb]} {COMMON}"
    code, _, err = run(f"{line} --model python:own_nets_by_size.py:thousand", capsys)
    assert code == 1
    assert err.splitlines()[-1] == (
        "lvmrs: imagefolder:val: its 2 folders are numbered in alphabetical order, and the model has 1000 classes, so "
        "these labels are not the model's: give a class index file, or name the folders by the class numbers"
    )
    assert not Path("a").exists()
    code, _, err = run(f"{line} --model python:own_nets_by_size.py:thousand --class-index index.json", capsys)
    assert code == 0, err
    assert "labels are from the class index file" in err
    if verb == "certify":
        labels = {line.split("\t")[1] for line in Path("a/certificates.tsv").read_text().splitlines()[1:]}
        assert labels == {"281", "511"}
        assert json.loads(Path("a/manifest.json").read_text())["data"]["facts"]["labels"] == "class index file"
        code, _, err = run("report a", capsys)
        assert (code, "from a class index file; name the data and that file" in err) == (0, True)
        code, _, err = run("report a --data imagefolder:val --class-index index.json", capsys)
        assert (code, "no pictures" in err) == (0, False)
        line = line.replace("--out a", "--out b")
    code, _, err = run(f"{line} --model python:own_nets_by_size.py:two", capsys)
    assert code == 0, err
    assert "labels are the places of the folders in alphabetical order" in err


def test_training_takes_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    line = "train --data imagefolder:val --sigma 0.5 --epochs 1 --batch 2 --class-index index.json"
    code, _, err = run(f"{line} --model ready:small_cnn --out a.safetensors", capsys)
    assert code == 0, err
    assert "classes=512" in err
    assert "labels are from the class index file" in err
    line = "train --data imagefolder:val --sigma 0.5 --model ready:small_cnn,classes=9 --out b.safetensors"
    code, _, err = run(line, capsys)
    assert code == 1
    assert "its 2 folders are numbered in alphabetical order, and the model has 9 classes" in err


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("certify --out a --data digits --class-index index.json", "only imagefolder takes a class index"),
        ("certify --out a --data imagefolder:val --class-index nowhere", "nowhere does not exist"),
        (
            "certify --out a --data imagefolder:val --image-size 1000000",
            "image size must be a whole number",
        ),
    ],
)
def test_refusals(capsys: pytest.CaptureFixture[str], line: str, sentence: str) -> None:
    code, _, err = run(f"{line} --model python:own_nets_by_size.py:two --sigma 0.5", capsys)
    assert code in (1, 2)
    assert sentence in err
    assert not Path("a").exists()
