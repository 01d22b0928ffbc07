"""Data sets by name: real formats, written here."""

import pickle
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from PIL import Image

from lvmrs import data
from lvmrs.errors import DataError, LvmrsError

BYTES = np.arange(6 * 3 * 4 * 4, dtype=np.uint8).reshape(6, 3, 4, 4)
LABELS = np.array([0, 1, 2, 0, 1, 2])


def write_npz(path: Path, **arrays: Any) -> str:
    np.savez(path, **arrays)
    return f"npz:{path}"


def test_digits_are_embedded_and_split() -> None:
    train, test = data.load("digits", split="train"), data.load("digits")
    assert (len(train), len(test)) == (1437, 360)
    x, label = test[0]
    assert x.shape == (1, 8, 8)
    assert x.dtype == torch.float32
    assert 0 <= float(x.min()) <= float(x.max()) <= 1
    assert test.classes is not None
    assert label in range(10)
    assert train.fingerprint() != test.fingerprint()


def test_npz_with_and_without_splits(tmp_path: Path) -> None:
    split = data.load(write_npz(tmp_path / "a.npz", x_test=BYTES, y_test=LABELS, x_train=BYTES[:2], y_train=LABELS[:2]))
    plain = data.load(write_npz(tmp_path / "b.npz", x=BYTES, y=LABELS[:, None]))
    for dataset in (split, plain):
        assert len(dataset) == 6
        x, label = dataset[4]
        assert torch.equal(x, torch.from_numpy(BYTES[4]).float() / 255)
        assert label == 1
    assert split.fingerprint() == plain.fingerprint()
    assert len(data.load(f"npz:{tmp_path / 'a.npz'}", split="train")) == 2


def test_npz_turns_channels_last_around_and_says_so(tmp_path: Path) -> None:
    turned = data.load(write_npz(tmp_path / "a.npz", x=BYTES.transpose(0, 2, 3, 1), y=LABELS))
    assert torch.equal(turned[2][0], torch.from_numpy(BYTES[2]).float() / 255)
    assert turned.facts == data.DataFacts(channels_last=True)
    assert turned.assumed == ("images come as height × width × channels",)


def test_floats_in_range_are_taken_as_they_are(tmp_path: Path) -> None:
    inputs = np.random.default_rng(0).random((3, 5))
    assert torch.equal(
        data.load(write_npz(tmp_path / "a.npz", x=inputs, y=[0, 1, 0]))[1][0], torch.from_numpy(inputs[1]).float()
    )


def cifar_folder(folder: Path) -> None:
    folder.mkdir()
    for name in [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]:
        with (folder / name).open("wb") as file:
            data_ = np.random.default_rng(0).integers(0, 256, (2, 3072)).astype(np.uint8)
            pickle.dump({b"data": data_, b"labels": [3, 9], b"batch_label": b"x"}, file, protocol=2)


def test_cifar10_from_the_official_batches_and_from_npz(tmp_path: Path) -> None:
    cifar_folder(tmp_path / "cifar-10-batches-py")
    inside, outside = data.load(f"cifar10:{tmp_path}"), data.load(f"cifar10:{tmp_path / 'cifar-10-batches-py'}")
    assert inside.fingerprint() == outside.fingerprint()
    assert len(data.load(f"cifar10:{tmp_path}", split="train")) == 10
    x, label = inside[1]
    assert x.shape == (3, 32, 32)
    assert inside.classes is not None
    assert label is not None
    assert inside.classes[label] == "truck"
    np.savez(tmp_path / "c.npz", x_test=np.zeros((4, 3, 32, 32), np.uint8), y_test=np.arange(4))
    assert data.load(f"cifar10:{tmp_path / 'c.npz'}").classes == inside.classes


class Evil:
    def __reduce__(self) -> Any:
        return (print, ("code was run",))


def test_a_batch_with_code_in_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cifar_folder(tmp_path / "c")
    (tmp_path / "c" / "test_batch").write_bytes(pickle.dumps({b"data": Evil(), b"labels": []}))
    with pytest.raises(DataError, match=r"not an official CIFAR-10 batch .*would import builtins\.print\)"):
        data.load(f"cifar10:{tmp_path / 'c'}")
    assert not capsys.readouterr().out


def images(root: Path, folders: tuple[str, ...], size: tuple[int, int] = (10, 6)) -> None:
    for k, folder in enumerate(folders):
        (root / folder).mkdir(parents=True)
        for name in ("b.png", "a.png"):
            Image.new("RGB", size, (10 * k, 20, 255)).save(root / folder / name)
    (root / folders[0] / "notes.txt").write_text("not an image")


def test_image_folders_by_name_and_by_number(tmp_path: Path) -> None:
    images(tmp_path / "named", ("cat", "dog"))
    named = data.load(f"imagefolder:{tmp_path / 'named'}")
    assert named.classes == ("cat", "dog")
    assert [named[i][1] for i in range(4)] == [0, 0, 1, 1]
    assert named[0][0].shape == (3, 6, 10)
    assert torch.allclose(named[3][0][:, 0, 0], torch.tensor([10, 20, 255]) / 255)
    images(tmp_path / "numbered" / "val", ("7", "12"))
    numbered = data.load(f"imagefolder:{tmp_path / 'numbered'}", split="val", size=4)
    assert [numbered[i][1] for i in range(4)] == [7, 7, 12, 12]
    assert numbered[0][0].shape == (3, 4, 4)
    assert (named.facts.labels, numbered.facts.labels) == ("folder order", "folder numbers")
    assert numbered.assumed == ("folder names are the class numbers",)
    again = data.load(f"imagefolder:{tmp_path / 'numbered'}", split="val", size=5)
    assert again.fingerprint() != numbered.fingerprint()


def test_grey_images_have_one_channel(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    Image.new("L", (8, 8), 51).save(tmp_path / "a" / "x.png")
    x, _ = data.load(f"imagefolder:{tmp_path}")[0]
    assert torch.allclose(x, torch.full((1, 8, 8), 0.2))


def test_a_saved_hugging_face_data_set(tmp_path: Path) -> None:
    features = datasets.Features(
        {"id": datasets.Value("int32"), "picture": datasets.Image(), "kind": datasets.ClassLabel(names=["no", "yes"])}
    )
    pictures = [Image.new("RGB", (6, 6), (k, 2 * k, 100)) for k in range(3)]
    rows = datasets.Dataset.from_dict({"id": [1, 2, 3], "picture": pictures, "kind": [0, 1, 1]}, features=features)
    datasets.DatasetDict({"test": rows}).save_to_disk(tmp_path / "saved")
    loaded = data.load(f"hf:{tmp_path / 'saved'}")
    assert loaded.classes == ("no", "yes")
    x, label = loaded[2]
    assert torch.allclose(x[:, 0, 0], torch.tensor([2, 4, 100]) / 255)
    assert label == 1
    assert loaded.facts == data.DataFacts(image_column="picture", label_column="kind")
    assert loaded.assumed == ("images in column 'picture', labels in column 'kind'",)
    assert data.load(f"hf:{tmp_path / 'saved'}", size=3)[0][0].shape == (3, 3, 3)
    with pytest.raises(DataError, match="there is no split 'train'; choose test"):
        data.load(f"hf:{tmp_path / 'saved'}", split="train")


def test_ones_own_python_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import numpy as np\ndef make(split):\n    return np.full((2, 1, 3, 3), 0.5), [len(split), 0]\n"
        "def odd(split):\n    return 3\n"
    )
    (tmp_path / "mine_for_data.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    for name in ("python:mine_for_data.py:make", f"python:{tmp_path / 'mine_for_data.py'}:make"):
        made = data.load(name, split="val")
        assert made[0][1] == 3
        assert float(made[0][0].max()) == 0.5
    with pytest.raises(DataError, match=r"it gives int; expected an lvmrs\.data\.Dataset or a torch data set, or"):
        data.load("python:mine_for_data.py:odd")


def test_ones_own_torch_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_in_torch.py").write_text(
        "import torch\nfrom torch.utils.data import TensorDataset, Dataset\n"
        "def pairs(split):\n    return TensorDataset(torch.full((2, 1, 3, 3), 0.5), torch.tensor([len(split), 0]))\n"
        "class Plain(Dataset):\n"
        "    def __init__(self, split):\n        self.split = split\n"
        "    def __len__(self):\n        return 4\n"
        "    def __getitem__(self, k):\n        return torch.full((1, 2, 2), k / len(self.split))\n"
    )
    monkeypatch.chdir(tmp_path)
    made = data.load("python:mine_in_torch.py:pairs", split="val")
    assert (made[0][1], made[1][1], float(made[0][0].max())) == (3, 0, 0.5)
    plain = data.load("python:mine_in_torch.py:Plain")
    assert (len(plain), plain.labelled, float(plain[3][0].max())) == (4, False, 0.75)
    assert plain.fingerprint() != data.load("python:mine_in_torch.py:Plain", split="other").fingerprint()
    with pytest.raises(DataError, match="the inputs range from 0 to"):
        data.load("python:mine_in_torch.py:Plain", split="va")


def test_labels_that_begin_at_1() -> None:
    labels = data.Arrays("four", "test", np.zeros((4, 1, 2, 2)), np.arange(1, 5))
    with pytest.raises(DataError, match="has label 4, but the model has 4 classes; labels may begin at 1: lvmrs"):
        data.check_labels(labels, 4)
    with pytest.raises(DataError, match=r"has label 4, but the model has 3 classes$"):
        data.check_labels(labels, 3)


def test_a_folder_is_answered_with_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("flat").mkdir()
    with pytest.raises(DataError, match="did you mean images:flat, or imagefolder:flat with a folder for each class"):
        data.load("flat")


def bad_cases(folder: Path) -> dict[str, tuple[str, str]]:
    images(folder / "broken", ("a",))
    (folder / "broken" / "a" / "a.png").write_bytes(b"not a picture")
    (folder / "empty" / "a").mkdir(parents=True)
    (folder / "text.npz").write_text("no archive")
    np.savez(folder / "pickled.npz", x=np.array([{}, {}]), y=[0, 1])
    return {
        "no such kind": ("mnist", "no data set of that name; write one of digits, cifar10:PATH, imagefolder:PATH"),
        "no source": ("photos/a.PNG", "no data set of that name; did you mean images:photos/a.PNG?"),
        "0 to 16": (write_npz(folder / "z.npz", x=BYTES % 17 * 1.0, y=LABELS), "divide by the largest"),
        "digits with path": ("digits:here", "digits takes no path"),
        "no path": ("npz:", "a name is missing after the colon; write npz:FILE"),
        "missing file": ("npz:/nowhere.npz", "/nowhere.npz does not exist"),
        "not an archive": (f"npz:{folder / 'text.npz'}", "is not an .npz archive of plain arrays"),
        "pickled": (f"npz:{folder / 'pickled.npz'}", "is not a plain array: it holds object; expected numbers"),
        "other names": (write_npz(folder / "n.npz", images=BYTES), "x and y not found; expected x_test and y_test"),
        "0 to 255": (write_npz(folder / "f.npz", x=BYTES * 1.0, y=LABELS), "divide by 255, or save as uint8"),
        "normalised": (write_npz(folder / "g.npz", x=BYTES / 100 - 1, y=LABELS), "undo the normalisation"),
        "NaN": (write_npz(folder / "h.npz", x=BYTES * np.nan, y=LABELS), "must lie in [0, 1]"),
        "int32": (write_npz(folder / "i.npz", x=BYTES.astype(np.int32), y=LABELS), "the inputs are int32"),
        "labels short": (write_npz(folder / "j.npz", x=BYTES, y=LABELS[:2]), "6 inputs but 2 labels"),
        "labels odd": (write_npz(folder / "k.npz", x=BYTES, y=LABELS + 0.5), "labels must be whole numbers"),
        "labels below 0": (write_npz(folder / "l.npz", x=BYTES, y=LABELS - 1), "labels must be whole numbers"),
        "no inputs": (write_npz(folder / "m.npz", x=BYTES[:0], y=LABELS[:0]), "there are no inputs"),
        "flat": (write_npz(folder / "o.npz", x=np.zeros(6, np.uint8), y=LABELS), "the inputs have shape (6,)"),
        "no batches": (f"cifar10:{folder}", "test_batch is missing"),
        "no folder": ("imagefolder:/nowhere", "/nowhere is not a folder"),
        "no images": (f"imagefolder:{folder / 'empty'}", "no images in the folders of"),
        "python": ("python:nothing", "write python:FILE.py:NAME, such as python:nets.py:resnet, or python:MODULE:NAME"),
        "module": ("python:no_such_module_here:f", "no_such_module_here cannot be imported"),
        "attribute": ("python:math:nothing", "there is no nothing in math"),
    }


def test_bad_data_get_one_clear_sentence(tmp_path: Path) -> None:
    for name, (source, sentence) in bad_cases(tmp_path).items():
        with pytest.raises(LvmrsError) as caught:
            data.load(source)
        assert sentence in str(caught.value), name
        assert "\n" not in str(caught.value), name
    broken = data.load(f"imagefolder:{tmp_path / 'broken'}")
    with pytest.raises(DataError, match=r"a.png cannot be read as an image"):
        broken[0]
    with pytest.raises(DataError, match="there is no split 'val'; choose train or test"):
        data.load("digits", split="val")
    with pytest.raises(DataError, match="only imagefolder, images, hf take an image size"):
        data.load("digits", size=4)


def test_all_images_of_a_folder_have_the_same_channels(tmp_path: Path) -> None:
    images(tmp_path, ("a", "b"))
    Image.new("L", (10, 6), 51).save(tmp_path / "b" / "grey.png")
    mixed = data.load(f"imagefolder:{tmp_path}")
    assert {mixed[i][0].shape[0] for i in range(len(mixed))} == {3}  # one channel would share its noise among three
    for name in ("a.png", "b.png"):
        Image.new("L", (10, 6), 51).save(tmp_path / "a" / name)
        Image.new("L", (10, 6), 51).save(tmp_path / "b" / name)
    Image.new("L", (10, 6), 51).save(tmp_path / "b" / "grey.png")
    assert data.load(f"imagefolder:{tmp_path}")[0][0].shape == (1, 6, 10)


def test_hidden_and_empty_folders_are_no_classes(tmp_path: Path) -> None:
    images(tmp_path, ("2", "10"))
    for name in (".ipynb_checkpoints", "readme"):
        (tmp_path / name).mkdir()
    found = data.load(f"imagefolder:{tmp_path}")
    assert [found[i][1] for i in range(4)] == [2, 2, 10, 10]
    assert found.largest_label() == 10


def test_images_of_more_than_8_bits_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000).save(tmp_path / "a" / "x.png")
    with pytest.raises(DataError, match=r"x\.png cannot be read as an image: its mode is I;16"):
        data.load(f"imagefolder:{tmp_path}")[0]


class Own(data.Dataset):
    """A data set of somebody else."""

    name, split = "own", "test"

    def __init__(self, x: Any, label: Any) -> None:
        self.x, self.label = x, label

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Any:
        return self.x, self.label

    def fingerprint(self) -> str:
        return "own"


def test_inputs_of_ones_own_data_are_checked() -> None:
    x, label = data.checked_input(Own(torch.full((3,), 0.5), torch.tensor(1)), 0)
    assert (x.shape, label) == ((3,), 1)
    assert type(label) is int
    for bad, sentence in (
        (Own(torch.full((3,), 5.0), 1), "input 0 has values outside [0, 1]"),
        (Own(torch.full((3,), float("nan")), 1), "input 0 has values outside [0, 1]"),
        (Own(np.zeros(3), 1), "input 0 is ndarray; expected a floating-point tensor"),
        (Own(torch.zeros(3, dtype=torch.uint8), 1), "input 0 is torch.uint8"),
        (Own(torch.zeros(3), "cat"), "input 0 has label 'cat'"),
        (Own(torch.zeros(3), -1), "input 0 has label -1"),
    ):
        with pytest.raises(DataError) as caught:
            data.checked_input(bad, 0)
        assert sentence in str(caught.value)
