"""Files of data that are damaged, odd or made to do harm: each is refused in one sentence, and nothing in it is run."""

import contextlib
import io
import os
import pickle
import struct
import time
import tracemalloc
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from PIL import Image

from lvmrs import data
from lvmrs.errors import DataError, InvalidArgumentError, LvmrsError
from tests.hostile.commands import limited

BYTES = np.zeros((2, 3, 4, 4), np.uint8)


class Evil:
    """Leaves a trace where it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("code-was-run",)


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array))
    return buffer.getvalue()


def header(text: str, version: int = 1) -> bytes:
    """An array whose header says so, with 10 bytes behind it."""
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(text)) + text.encode() + bytes(10)


def says(shape: str, kind: str = "|u1") -> bytes:
    return header(f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}")


ARRAYS: dict[str, tuple[bytes, str]] = {
    "objects": (npy(np.array([Evil(), Evil()])), "is not a plain array: it holds object; expected numbers"),
    "dates": (npy(np.array(["2020-01-01"], "M8[D]")), "it holds datetime64[D]; expected numbers"),
    "records": (npy(np.zeros(2, [("a", "f4"), ("b", "i4")])), "it holds [('a', '<f4'), ('b', '<i4')]; expected"),
    "complex": (npy(np.zeros((2, 3), complex)), "it holds complex128; expected numbers"),
    "text": (npy(np.array(["a", "b"])), "it holds <U1; expected numbers"),
    "uint16": (npy(np.zeros((2, 3, 4, 4), np.uint16)), "the inputs are uint16; save them as uint8"),
    "bool": (npy(np.zeros((2, 3, 4, 4), bool)), "the inputs are bool; save them as uint8"),
    "zero size": (npy(np.zeros((2, 3, 0, 4), np.uint8)), "the inputs are empty (shape (2, 3, 0, 4))"),
    "238 GiB": (says("(2, 3, 206000, 206000)"), "its header says 254,616,000,000 bytes, and there are "),
    "beyond all": (says(f"({10**30},)"), "bytes, and there are "),
    "negative": (says("(-2, 3)"), "is damaged: its header says"),
    "both negative": (says("(-2, -3)"), "is damaged: its header says"),
    "not numbers": (says("('a', 2)"), "is not an .npz archive of plain arrays (ValueError"),
    "code": (header("__import__('os').mkdir('code-was-run')"), "is not an .npz archive of plain arrays (ValueError"),
    "odd type": (says("(2, 3)", "|Q99"), "is not an .npz archive of plain arrays (ValueError"),
    "other format": (header("{}", version=3), "its format is 3.0"),
    "cut off": (npy(BYTES)[:40], "is not an .npz archive of plain arrays (ValueError"),
    "cut values": (npy(BYTES)[:-1], "is damaged: its header says 96 bytes"),
    "no array": (b"hello", "is not an .npz archive of plain arrays (ValueError"),
    "empty": (b"", "is not an .npz archive of plain arrays (ValueError"),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays_in_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.chdir(tmp_path)
    content, sentence = ARRAYS[case]
    with zipfile.ZipFile("a.npz", "w") as archive:
        archive.writestr("x.npy", content)
        archive.writestr("y.npy", npy([0, 1]))
    for name in ("npz:a.npz", "cifar10:a.npz"):
        tracemalloc.start()
        with pytest.raises(DataError) as caught:
            data.load(name)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
        tracemalloc.stop()
        assert sentence in str(caught.value)
        assert "\n" not in str(caught.value)
    assert not Path("code-was-run").exists()


def test_odd_but_honest_arrays_are_read(tmp_path: Path) -> None:
    for kind in (np.float16, np.float32, np.float64, ">f4", np.longdouble):
        np.savez(tmp_path / "a.npz", x=np.full((2, 3), 0.5, kind), y=np.array([0.0, 1.0]))
        assert data.load(f"npz:{tmp_path / 'a.npz'}")[1][0].tolist() == [0.5] * 3
    np.savez_compressed(tmp_path / "b.npz", x=np.asfortranarray(BYTES), y=np.array([[0], [1]], np.uint8))
    assert data.load(f"npz:{tmp_path / 'b.npz'}")[1][1] == 1


@pytest.mark.parametrize("labels", [[0, np.inf], [0, np.nan], [0, 2**40], np.array([0, 2**63], np.uint64), [0, 1e300]])
def test_labels_that_are_no_class_numbers(tmp_path: Path, labels: Any) -> None:
    np.savez(tmp_path / "a.npz", x=BYTES, y=np.asarray(labels))
    with pytest.raises(DataError, match="labels must be whole numbers from 0"):
        data.load(f"npz:{tmp_path / 'a.npz'}")


def test_archives_that_grow_beyond_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", x=np.zeros((2, 10_000_000), np.uint8), y=[0, 1])
    assert (tmp_path / "bomb.npz").stat().st_size < 100_000
    monkeypatch.setattr("lvmrs.kernel.checks.memory", lambda: 1 << 20)
    with pytest.raises(DataError, match="would take more than the memory of this machine"):
        data.load(f"npz:{tmp_path / 'bomb.npz'}")


def test_damaged_archives(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.random.default_rng(0).random((2, 50)), y=[0, 1])
    whole = (tmp_path / "a.npz").read_bytes()
    known, rng = data.load(f"npz:{tmp_path / 'a.npz'}").fingerprint(), np.random.default_rng(1)
    for place in range(0, len(whole), 7):
        for content in (whole[:place], whole[:place] + bytes([int(rng.integers(256))]) + whole[place + 1 :]):
            (tmp_path / "b.npz").write_bytes(content)
            with contextlib.suppress(DataError):
                assert data.load(f"npz:{tmp_path / 'b.npz'}").fingerprint() == known  # only its date is changed


PICKLES: dict[str, tuple[Callable[[], bytes], str]] = {
    "code": (lambda: pickle.dumps({b"data": Evil(), b"labels": []}), "it would import posix.mkdir"),
    "other class": (lambda: pickle.dumps({b"data": Path("a"), b"labels": []}), "it would import pathlib."),
    "large array": (lambda: b"cnumpy\nndarray\n(I1000000000000\ntR.", "is not an official CIFAR-10 batch (TypeError"),
    "no dictionary": (lambda: pickle.dumps([1, 2]), "is not an official CIFAR-10 batch (TypeError"),
    "no data": (lambda: pickle.dumps({b"labels": [1]}), "is not an official CIFAR-10 batch (KeyError"),
    "numbers": (lambda: pickle.dumps({b"data": 3, b"labels": [1]}), "(AttributeError"),
    "int64": (lambda: pickle.dumps({b"data": np.full((1, 3072), 300), b"labels": [1]}), "its data are int64 numbers"),
    "shape": (lambda: pickle.dumps({b"data": np.zeros((2, 9), np.uint8), b"labels": [1]}), "of shape (2, 9)"),
    "labels": (lambda: pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [None]}), "must be whole"),
    "cut off": (lambda: pickle.dumps({b"data": np.zeros((1, 3072), np.uint8)})[:-40], "is not an official CIFAR-10"),
    "text": (lambda: b"hello", "is not an official CIFAR-10 batch"),
    "empty": (lambda: b"", "is not an official CIFAR-10 batch (EOFError"),
}


@pytest.mark.parametrize("case", PICKLES)
def test_pickles_of_cifar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.chdir(tmp_path)
    make, sentence = PICKLES[case]
    Path("test_batch").write_bytes(make())
    with pytest.raises(DataError) as caught:
        data.load("cifar10:.")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not Path("code-was-run").exists()


def png_that_says(width: int, height: int) -> bytes:
    """The header of an image of that size."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def whole_png(width: int = 8, height: int = 8) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), (1, 2, 3)).save(buffer, "png")
    return buffer.getvalue()


def noise_png() -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)).save(buffer, "png")
    return buffer.getvalue()


IMAGES: dict[str, tuple[bytes, str]] = {
    "bomb": (png_that_says(100_000, 100_000), "cannot be read as an image: Pillow fails (DecompressionBombError"),
    "small bomb": (png_that_says(10_000, 10_000), "10000 × 10000 pixels are more than 89,478,485"),
    "no pixels": (png_that_says(8, 8), "cannot be read as an image: Pillow fails (OSError"),
    "truncated": (noise_png()[:200], "cannot be read as an image: Pillow fails (OSError"),
    "damaged": (whole_png().replace(b"IDAT", b"IDOT"), "cannot be read as an image: Pillow fails"),
    "text": (b"hello", "cannot be read as an image: Pillow fails (UnidentifiedImageError"),
    "empty": (b"", "cannot be read as an image: Pillow fails"),
    "long": (whole_png(1, 30_000), "4096 × 122880000 pixels are more than 89,478,485"),
}


@pytest.mark.parametrize("case", IMAGES)
def test_images(tmp_path: Path, case: str) -> None:
    content, sentence = IMAGES[case]
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "a.png").write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = data.load(f"imagefolder:{tmp_path}", size=4096)
        with pytest.raises(DataError) as caught:
            found[0]
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_images_in_a_saved_data_set(tmp_path: Path) -> None:
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])})
    rows = {"image": [{"bytes": whole_png()}, {"bytes": b"hello"}], "label": [0, 1]}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(tmp_path / "saved")
    found = data.load(f"hf:{tmp_path / 'saved'}")
    assert found.largest_label() == 1
    with pytest.raises(DataError, match=r"input 1 cannot be read \(UnidentifiedImageError"):
        found[1]


def test_a_pipe_in_a_saved_data_set_is_not_waited_for(tmp_path: Path) -> None:
    datasets.Dataset.from_dict({"label": [0]}).save_to_disk(tmp_path / "saved")
    (tmp_path / "saved" / "state.json").unlink()
    os.mkfifo(tmp_path / "saved" / "state.json")
    with limited(20), pytest.raises(DataError, match=r"state\.json is a device or a pipe, not a file; remove it"):
        data.load(f"hf:{tmp_path / 'saved'}")


@pytest.mark.parametrize("size", [0, -1, 4097, 1_000_000, 10**40, 3.5, True, "8"])
def test_image_sizes(size: Any) -> None:
    start = time.perf_counter()
    with pytest.raises(InvalidArgumentError, match="image size must be a whole number from 1 to 4096"):
        data.load("imagefolder:/nowhere", size=size)
    assert time.perf_counter() - start < 1


NAMES = ["npz:a\0b", "cifar10:a\0b", "imagefolder:a\0b", "python:a\0b.py:c", "python:a\0b:c", "hf:a\0b"]
NAMES += [f"{kind}:{'n' * 5000}" for kind in ("npz", "cifar10", "imagefolder")] + ["python:" + "n" * 5000 + ".py:f"]
NAMES += [
    "npz:~nobody-of-that-name/a.npz",
    "imagefolder:~nobody-of-that-name",
    "npz:/dev/null",
    "npz:/",
    "cifar10:/dev/null",
]
NAMES += ["imagefolder:/dev/null", "python:/:f", "python::", "python:a", "", ":", "npz", "\ud800:a", "npz:\ud800"]


@pytest.mark.parametrize("name", NAMES, ids=[repr(name)[:30] for name in NAMES])
def test_odd_names(name: str) -> None:
    with pytest.raises(LvmrsError) as caught:
        data.load(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("split", ["../../private", "a/b", "..", ".", "", "a\\b", "a\0b", None, 3])
def test_a_split_is_no_path(tmp_path: Path, split: Any) -> None:
    (tmp_path / "val" / "0").mkdir(parents=True)
    (tmp_path / "private" / "0").mkdir(parents=True)
    for folder in ("val", "private"):
        (tmp_path / folder / "0" / "a.png").write_bytes(whole_png())
    with pytest.raises(DataError, match="split must be a word such as test"):
        data.load(f"imagefolder:{tmp_path / 'val'}", split=split)


def test_folders_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "a.png").write_bytes(whole_png())

    def denied(self: Path) -> Any:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "iterdir", denied)
    with pytest.raises(DataError, match=r"it cannot be read \(PermissionError: .*Permission denied"):
        data.load(f"imagefolder:{tmp_path}")


def test_a_folder_with_a_script_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    Path("evil").mkdir()
    Path("evil/evil.py").write_text("import os\nos.mkdir('code-was-run')\n")
    with pytest.raises(DataError, match="the data set cannot be loaded"):
        data.load("hf:evil")
    assert not Path("code-was-run").exists()
