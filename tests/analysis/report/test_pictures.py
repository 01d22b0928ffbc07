"""Pictures of the inputs of a run, or the reason why there are none."""

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from lvmrs import data
from lvmrs.analysis.report import Pictures, pictures_of
from lvmrs.errors import DataError
from lvmrs.record import Row, Run, RunWriter
from tests.manifests import manifest


def run_of(path: Path, name: str | None, data_hash: str | None = None, facts: data.DataFacts | None = None) -> Run:
    made = manifest(data=name, data_hash=data_hash)
    with RunWriter(path, replace(made, data=replace(made.data, facts=facts))) as writer:
        for index, label in enumerate((2, 9)):  # the first test digits are 2 and 3
            writer.append(
                Row(index, label, 1, 0.5, 1, 0.1, 0.9, 0.1, 1, "duel", 1.0, 1.0, "betting", "r3", 0.0, "each", "0.001")
            )
    return writer.run


def test_an_input_has_its_picture_if_its_label_is_the_same(tmp_path: Path) -> None:
    found = pictures_of(run_of(tmp_path / "a", "digits", data.load("digits").fingerprint()))
    assert found.why_none is None
    assert (found.of(0) or "").startswith("data:image/png;base64,")
    assert found.of(1) is None
    assert found.of(100_000) is None


def test_why_there_are_none(tmp_path: Path) -> None:
    assert pictures_of(run_of(tmp_path / "a", None)).why_none is None  # nobody said where the data are
    assert Pictures().of(0) is None
    gone = run_of(tmp_path / "b", "npz:gone.npz", "a hash")
    assert "gone.npz does not exist" in str(pictures_of(gone).why_none)
    assert pictures_of(gone).of(0) is None
    with pytest.raises(DataError, match=r"other\.npz does not exist"):
        pictures_of(gone, "npz:other.npz")
    other = pictures_of(run_of(tmp_path / "c", "digits", "another hash"))
    assert other == Pictures(other.of, "digits is not the data that the run was made with")
    assert other.of(0) is None


@pytest.mark.parametrize("name", ["python:evil.py:make", "python:evil:make", "hf:evil", "nothing:evil", "", ":"])
def test_a_run_does_not_choose_code_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("evil.py").write_text("import os\nos.mkdir('code-was-run')\n")
    Path("evil").mkdir()
    Path("evil/evil.py").write_text("import os\nos.mkdir('code-was-run')\n")
    found = pictures_of(run_of(tmp_path / "a", name, "a hash"))
    assert found.why_none == f"{name} could run code, and a run must not choose code; if you trust it, name it yourself"
    assert found.of(0) is None
    assert not Path("code-was-run").exists()


def test_a_run_does_not_choose_pictures_that_it_does_not_know(tmp_path: Path) -> None:
    found = pictures_of(run_of(tmp_path / "a", "digits"))
    assert found.why_none == (
        "the run has no hash of digits, by which its data could be recognised; name the data yourself"
    )
    assert found.of(0) is None
    assert pictures_of(run_of(tmp_path / "b", "digits"), "digits").of(0) is not None  # what the user typed is shown


def test_pictures_with_a_class_index(tmp_path: Path) -> None:
    for folder in ("cat", "dog"):
        (tmp_path / "images" / folder).mkdir(parents=True)
        Image.new("RGB", (4, 4)).save(tmp_path / "images" / folder / "a.png")
    (tmp_path / "index.json").write_text('{"cat": 2, "dog": 9}')
    name = f"imagefolder:{tmp_path / 'images'}"
    loaded = data.load(name, class_index=tmp_path / "index.json")
    run = run_of(tmp_path / "a", name, loaded.fingerprint(), loaded.facts)
    assert pictures_of(run).why_none == f"the labels of {name} are from a class index file; name the data and that file"
    assert pictures_of(run, name).why_none == f"{name} is not the data that the run was made with"
    found = pictures_of(run, name, tmp_path / "index.json")
    assert found.why_none is None
    assert found.of(1) is not None
    (tmp_path / "images" / "dog" / "a.png").write_bytes(b"no image")
    with pytest.raises(DataError, match="cannot be read as an image"):
        found.of(1)
