"""Class index files: every shape that is in use, and refusals by name."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from lvmrs import data
from lvmrs.data.folder import read_class_index
from lvmrs.errors import DataError

WORDNET = ("n02123045", "n03100240")
IMAGENET = {"0": ["n01440764", "tench"], "1": ["n03100240", "convertible"], "2": ["n02123045", "tabby"]}

SHAPES: dict[str, Any] = {
    "word net and name": IMAGENET,
    "number to name": {"0": "n01440764", "1": "n03100240", "2": "n02123045"},
    "name to number": {"n01440764": 0, "n03100240": 1, "n02123045": 2},
    "name to number as text": {"n01440764": "0", "n03100240": "1", "n02123045": "2"},
    "id2label": {"hidden_size": 3, "id2label": {"0": "n01440764", "1": "n03100240", "2": "n02123045"}},
    "label2id": {"label2id": {"n01440764": 0, "n03100240": 1, "n02123045": 2}},
    "list": ["n01440764", "n03100240", "n02123045"],
    "list of names": [["n01440764", "tench"], ["n03100240", "convertible"], ["n02123045", "tabby"]],
    "first words": "n01440764 tench, Tinca tinca\n\nn03100240 convertible\r\nn02123045 tabby, tabby cat\n",
    "lines": "\ufeffn01440764\nn03100240\nn02123045",
}


def folders(root: Path, names: tuple[str, ...] = WORDNET) -> str:
    for shade, name in enumerate(names):
        (root / name).mkdir(parents=True)
        Image.new("RGB", (4, 4), (20 * shade, 0, 0)).save(root / name / "a.png")
    return f"imagefolder:{root}"


def written(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize("shape", SHAPES)
def test_labels_are_those_of_the_file(tmp_path: Path, shape: str) -> None:
    name, index = folders(tmp_path / "images"), written(tmp_path / "index", SHAPES[shape])
    found = data.load(name, class_index=index)
    assert [(Path(file).parent.name, label) for file, label in found.files] == [  # type: ignore[attr-defined]
        ("n03100240", 1),
        ("n02123045", 2),
    ]
    assert found.facts.labels == "class index file"
    assert found.assumed == ("labels are from the class index file",)
    assert found.classes is not None
    assert len(found.classes) == 3
    assert found.fingerprint() != data.load(name).fingerprint()


def test_digits_are_names_where_the_file_says_so(tmp_path: Path) -> None:
    turned = read_class_index(written(tmp_path / "a", {"id2label": {"0": "7", "1": "3"}}))
    assert (turned.number("7"), turned.number("3")) == (0, 1)
    assert read_class_index(written(tmp_path / "b", {"7": 0, "3": 1})).number("7") == 0


def test_whole_lines_and_gaps(tmp_path: Path) -> None:
    assert read_class_index(written(tmp_path / "a", "great white shark\ntiger shark")).number("tiger shark") == 1
    gaps = read_class_index(written(tmp_path / "b", {"cat": 3, "dog": 900}))
    assert gaps.number("dog") == 900
    assert gaps.classes is None


BAD: dict[str, tuple[Any, str]] = {
    "a folder is missing": ({"0": "n02123045"}, "the folder 'n03100240' is not in the class index"),
    "two classes": ([*WORDNET, "n02123045"], "the folder 'n02123045' may be class 0 and 2 by the class index"),
    "number": ("[3, 4]", "names no classes"),
    "nested": ({"a": {"b": 1}}, "names no classes"),
    "negative": ({"cat": -1}, "names no classes"),
    "booleans": ({"cat": True}, "names no classes"),
    "empty": ("", "names no classes"),
    "cut off": ('{"0": "n0', "cannot be read (JSONDecodeError"),
    "deep": ("[" * 100_000, "cannot be read (RecursionError"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_get_one_sentence(tmp_path: Path, case: str) -> None:
    content, sentence = BAD[case]
    name, index = folders(tmp_path / "images"), written(tmp_path / "index", content)
    with pytest.raises(DataError) as caught:
        data.load(name, class_index=index)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    name = folders(tmp_path / "images")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large").write_bytes(b"a\n" * (1 << 26))
    for index, sentence in {
        "gone": "gone does not exist",
        "images": "images is a folder, not a file",
        "bytes": "cannot be read (UnicodeDecodeError",
        "large": "too large to be a list of classes",
        "a\0b": "does not exist",
        "n" * 5000: "does not exist",
    }.items():
        with pytest.raises(DataError) as caught:
            data.load(name, class_index=tmp_path / index)
        assert sentence in str(caught.value)
    with pytest.raises(DataError, match="digits: only imagefolder takes a class index; leave it out"):
        data.load("digits", class_index=tmp_path / "bytes")


def test_how_labels_were_made_is_always_told(tmp_path: Path) -> None:
    assert data.load(folders(tmp_path / "a")).assumed == ("labels are the places of the folders in alphabetical order",)
    assert data.load(folders(tmp_path / "b", ("3", "7"))).assumed == ("folder names are the class numbers",)


def test_folder_order_is_refused_where_it_cannot_be_what_the_model_means(tmp_path: Path) -> None:
    by_order = data.load(folders(tmp_path / "a"))
    data.check_labels(by_order, 2)
    with pytest.raises(DataError, match=r"its 2 folders are numbered in alphabetical order, and the model has 1000 cl"):
        data.check_labels(by_order, 1000)
    numbered = data.load(folders(tmp_path / "b", ("3", "7")))
    data.check_labels(numbered, 1000)
    with pytest.raises(DataError, match="has label 7, but the model has 7 classes"):
        data.check_labels(numbered, 7)
