"""Data without labels, by name and of one's own, and named columns of Hugging Face data sets."""

from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from lvmrs import data
from lvmrs.errors import DataError

BYTES = np.arange(4 * 3 * 4 * 4, dtype=np.uint8).reshape(4, 3, 4, 4)
NONE = data.DataFacts(labels="none")


def flat(root: Path) -> Path:
    root.mkdir(parents=True)
    for k in range(3):
        Image.new("RGB", (6, 4), (k, 0, 0)).save(root / f"{2 - k}.png")
    (root / "notes.txt").write_text("not an image")
    return root


def test_a_flat_folder_and_a_single_image(tmp_path: Path) -> None:
    folder = data.load(f"images:{flat(tmp_path / 'a')}")
    assert [folder.input_name(k) for k in range(len(folder))] == ["0.png", "1.png", "2.png"]
    assert (folder.labelled, folder.divided, folder.largest_label()) == (False, False, None)
    assert folder.assumed == ("its inputs have no labels",)
    one = data.load(f"images:{tmp_path / 'a' / '1.png'}", split="photo", size=2)
    x, label = data.checked_input(one, 0)
    assert (len(one), one.input_name(0), label, one.divided) == (1, "1.png", None, False)
    assert torch.equal(x, data.load(f"images:{tmp_path / 'a'}", size=2)[1][0])
    flat(tmp_path / "b" / "val")
    assert data.load(f"images:{tmp_path / 'b'}", split="val").divided
    with pytest.raises(DataError, match=r"no images in .*write imagefolder:PATH"):
        data.load(f"images:{tmp_path / 'b'}")
    for labelled in (tmp_path / "a", tmp_path / "a" / "1.png"):
        with pytest.raises(DataError, match="images:PATH"):
            data.load(f"imagefolder:{labelled}")


def test_arrays_of_x_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", BYTES.transpose(0, 2, 3, 1))
    np.savez(tmp_path / "x.npz", x=BYTES, names=np.array(list("abcd")))
    np.savez(tmp_path / "split.npz", x_test=BYTES, x_train=BYTES[:2], y_train=[0, 1])
    found = [
        data.load(name) for name in (f"npy:{tmp_path}/x.npy", f"npz:{tmp_path}/x.npz", f"npz:{tmp_path}/split.npz")
    ]
    for dataset in found:
        x, label = data.checked_input(dataset, 3)
        assert label is None
        assert torch.equal(x, torch.from_numpy(BYTES[3]).float() / 255)
        with pytest.raises(DataError, match="its inputs have no labels, which this needs"):
            dataset.many([0])
    assert [dataset.divided for dataset in found] == [False, False, True]
    assert found[0].facts == data.DataFacts(labels="none", channels_last=True)
    assert found[1].input_name(2) == "c"
    labelled = data.Arrays("a", "test", BYTES, np.zeros(4, int))
    assert (
        len({found[1].fingerprint(), labelled.fingerprint(), data.Arrays("a", "test", BYTES[:3], None).fingerprint()})
        == 3
    )


def test_an_array_that_could_hold_labels_is_not_overlooked(tmp_path: Path) -> None:
    held: tuple[dict[str, Any], ...] = ({"labels": [0] * 4}, {"x_train": BYTES, "y_test": [0] * 4}, {"a": [1]})
    for k, others in enumerate(held):
        np.savez(tmp_path / f"{k}.npz", x=BYTES, **others)
        with pytest.raises(DataError, match=r"y not found; .* or x alone for inputs without labels"):
            data.load(f"npz:{tmp_path / f'{k}.npz'}")
    np.save(tmp_path / "x.npy", BYTES)
    with pytest.raises(DataError, match="; write npy:FILE"):
        data.load(f"npz:{tmp_path / 'x.npy'}")


def test_files_that_are_no_plain_array(tmp_path: Path) -> None:
    whole = tmp_path / "x.npy"
    np.save(whole, BYTES)
    cut = {"cut": whole.read_bytes()[:-1], "text": b"x,y\n1,2\n", "empty": b""}
    np.save(tmp_path / "object.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    for name, content in cut.items():
        (tmp_path / f"{name}.npy").write_bytes(content)
    for name in (*cut, "object"):
        with pytest.raises(DataError, match=r"is damaged|is not an \.npy file of a plain array|is not a plain array"):
            data.load(f"npy:{tmp_path / f'{name}.npy'}")


class Own(data.Dataset):
    """A data set that returns given items."""

    name, split = "own", "test"

    def __init__(self, item: Any, facts: data.DataFacts) -> None:
        self.item, self.facts = item, facts

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Any:
        return self.item

    def fingerprint(self) -> str:
        return "own"


def test_items_of_ones_own_without_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.full((2,), 0.5)
    for item in (x, (x, None)):
        read: tuple[Tensor, int | None] = data.checked_input(Own(item, NONE), 0)
        assert read == (x, None) or (torch.equal(read[0], x) and read[1] is None)
        with pytest.raises(
            DataError, match=r"facts = DataFacts\(labels='none'\)|has label None; expected a class number"
        ):
            data.checked_input(Own(item, data.DataFacts()), 0)
    with pytest.raises(DataError, match="input 0 has label 1, and its facts say that there are none"):
        data.checked_input(Own((x, 1), NONE), 0)
    kinds = {"alone": "X", "tensor": "torch.tensor(X)", "pair": "(X, None)"}
    code = "import numpy as np, torch\nX = np.full((2, 3), 0.5)\n"
    (tmp_path / "own_x.py").write_text(code + "".join(f"{name} = lambda s: {kind}\n" for name, kind in kinds.items()))
    monkeypatch.chdir(tmp_path)
    for name in kinds:
        assert data.load(f"python:own_x.py:{name}").facts == NONE


def test_columns_of_a_hugging_face_data_set_can_be_named(tmp_path: Path) -> None:
    features = datasets.Features(
        {
            "thumb": datasets.Image(), "full": datasets.Image(), "coarse": datasets.ClassLabel(names=["no", "yes"]),
            "fine": datasets.Value("int64"), "text": datasets.Value("string"),
        }
    )  # fmt: skip
    pictures = [Image.new("RGB", (k, k), (k, 0, 0)) for k in (4, 4, 8, 8)]
    rows = {"thumb": pictures[:2], "full": pictures[2:], "coarse": [1, 0], "fine": [7, 3], "text": ["a", "b"]}
    saved = f"hf:{tmp_path / 'a,b'}"
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(tmp_path / "a,b")
    first, named = data.load(saved), data.load(f"{saved},image=full,label=fine")
    assert (first[0][0].shape, first[0][1], first.largest_label()) == ((3, 4, 4), 1, 1)
    assert (named[0][0].shape, named[0][1], named.classes, named.largest_label()) == ((3, 8, 8), 7, None, 7)
    assert named.facts == data.DataFacts(image_column="full", label_column="fine")
    same = data.load(f"{saved},image=thumb,label=coarse")
    assert first.fingerprint() == same.fingerprint() != named.fingerprint()
    none = data.load(f"{saved},label=none")
    assert (data.checked_input(none, 0)[1], none.largest_label()) == (None, None)
    assert none.assumed == ("its inputs have no labels", "images in column 'thumb'")
    for settings, sentence in {
        "label=kind": "it has thumb, full, coarse, fine, text; name them as in hf:NAME,image=COLUMN,label=COLUMN",
        "image=text": "the column 'text' does not hold images",
        "size=3": "hf has no setting 'size'; it has image and label",
        "label=text": "has label 'a'; expected a class number",
    }.items():
        with pytest.raises(DataError, match=sentence):
            data.checked_input(data.load(f"{saved},{settings}"), 0)
    datasets.Dataset.from_dict({"image": pictures[:2]}).cast_column("image", datasets.Image()).save_to_disk(
        tmp_path / "c"
    )
    with pytest.raises(DataError, match="label=none for inputs without labels"):
        data.load(f"hf:{tmp_path / 'c'}")
