"""Damaged inputs of commands: weights, checkpoints, data sets and results of other projects."""
# ruff: noqa: E501

from __future__ import annotations

import functools
import io
import json
import os
import pickle
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch

from tests.hostile.damage import Damage, of_bytes, rewritten

__all__ = ["damaged_inputs"]


def damaged_inputs() -> Iterator[Damage]:
    """Files of the world with one thing wrong."""
    yield from _weights()
    yield from _torch_weights()
    yield from _archives()
    yield from _results()
    yield from _pictures()
    yield from _batches()
    yield from _programs()
    yield from _settings()


_SETTINGS: dict[str, tuple[tuple[str, ...], Any]] = {
    "format 2": (("format",), 2), "an unknown field": (("magic",), 1), "no calibration": (("calibration",), None),
    "a method of nobody": (("method", "name"), "Magic"), "code as a method": (("method", "name"), "python:os:getcwd"),
    "a method for each input": (("method",), {"name": "LVM", "settings": {}, "own_code": {}, "scope": None, "classifier": None}),
    "code as a map": (("method", "settings", "map"), "python:os:getcwd"), "own code": (("method", "own_code"), {"os.path": "0"}),
    "a temperature of 0": (("method", "settings", "temperature"), 0), "a huge temperature": (("method", "settings", "temperature"), 10**400),
    "an unknown setting": (("method", "settings", "magic"), 0), "another sigma": (("terms", "sigma"), 0.25), "no sigma": (("terms", "sigma"), None),
    "a noise of nobody": (("terms", "noise"), "magic"), "code as a noise": (("terms", "noise"), "python:os:getcwd"),
    "other weights": (("model", "weights_hash"), "0" * 64), "a precision of nobody": (("model", "precision"), "magic"),
    "a normalisation": (("model", "normalisation"), {"mean": [0.5], "std": [0.5]}), "a denoiser": (("model", "denoiser"), {"name": "python:os:getcwd", "weights_hash": None}),
    "an objective of nobody": (("calibration", "objective"), "fame"), "an epsilon": (("calibration", "epsilon"), 1.0),
}  # fmt: skip


def _settings() -> Iterator[Damage]:
    name = "settings.json"
    yield from of_bytes("settings", name)
    for label, text in {
        "a list": "[]",
        "null": "null",
        "NaN": "NaN",
        "nested": "[" * 100_000,
        "no fields": "{}",
    }.items():
        yield Damage("settings", label, lambda w, g, t=text: rewritten(w, g, name, lambda _: t.encode()))  # type: ignore[misc]
    for label, (path, value) in _SETTINGS.items():
        changed = functools.partial(_changed, path=path, value=value)
        yield Damage("settings", label, lambda w, g, change=changed: rewritten(w, g, name, change))  # type: ignore[misc]


def _changed(whole: bytes, path: tuple[str, ...], value: Any) -> bytes:
    stored = json.loads(whole)
    place = stored
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(stored).encode()


class Harm:
    """What a malicious pickle does when it is read."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path("harm"),))


_METADATA: dict[str, str] = {
    "not JSON": "x", "a list": "[]", "null": "null", "NaN": "NaN", "a number": "5", "empty": "", "no network": "{}",
    "nested": "[" * 100_000,
}  # fmt: skip
_ABOUT: dict[str, dict[str, Any]] = {
    "network is null": {"network": None}, "network is a number": {"network": 5}, "network is a list": {"network": []},
    "network is empty": {"network": ""}, "network is code": {"network": "python:os:getcwd"},
    "network is unknown": {"network": "ready:magic"}, "network without settings": {"network": "ready:small_cnn,"},
    "network of other shape": {"network": "ready:small_cnn,width=3"},
    "network is a bomb": {"network": "ready:small_cnn,width=10000000"},
    "network has a huge setting": {"network": f"ready:small_cnn,width={10**30}"},
    "network has an unknown setting": {"network": "ready:small_cnn,magic=3"},
    "normalisation is a number": {"normalisation": 5}, "normalisation is a text": {"normalisation": "x"},
    "normalisation is a list": {"normalisation": [1, 2]}, "normalisation is empty": {"normalisation": {}},
    "normalisation without std": {"normalisation": {"mean": [0.5]}},
    "normalisation of texts": {"normalisation": {"mean": ["x"], "std": ["y"]}},
    "normalisation of null": {"normalisation": {"mean": None, "std": None}},
    "normalisation of NaN": {"normalisation": {"mean": [float("nan")], "std": [1.0]}},
    "normalisation by zero": {"normalisation": {"mean": [0.5], "std": [0.0]}},
    "normalisation of other channels": {"normalisation": {"mean": [0.5, 0.5], "std": [0.5, 0.5]}},
    "normalisation of no channel": {"normalisation": {"mean": [], "std": []}},
    "training is a number": {"training": 5}, "training is a list": {"training": []}, "training is a text": {"training": "x"},
    "objective is a number": {"training": {"objective": 5}}, "objective is a list": {"training": {"objective": [1]}},
}  # fmt: skip


def _weights() -> Iterator[Damage]:
    name = "net.safetensors"
    yield from of_bytes("weights", name)
    for label, text in _METADATA.items():
        yield Damage("weights", f"metadata {label}", _with_metadata(lambda about, t=text: t))  # type: ignore[misc]
    for label, change in _ABOUT.items():
        yield Damage("weights", label, _with_metadata(lambda about, c=change: json.dumps({**json.loads(about), **c})))  # type: ignore[misc]
    yield Damage("weights", "without metadata", _with_tensors(lambda tensors: tensors, told=False))
    tensors: dict[str, Callable[[dict[str, Any]], object]] = {
        "a tensor missing": lambda t: t.pop("0.weight"),
        "a tensor more": lambda t: t.update(magic=torch.zeros(1)),
        "a tensor of other shape": lambda t: t.update({"0.bias": torch.zeros(7)}),
        "a tensor with NaN": lambda t: t.update({"0.bias": t["0.bias"] * float("nan")}),
        "a tensor with inf": lambda t: t.update({"0.bias": t["0.bias"] * 0 + float("inf")}),
        "no tensors": lambda t: t.clear(),
    }
    for label, edit in tensors.items():
        yield Damage("weights", label, _with_tensors(edit))
    heads: dict[str, Callable[[bytes], bytes]] = {
        "a huge header": lambda whole: struct.pack("<Q", 2**60) + whole[8:],
        "a header of zero": lambda whole: struct.pack("<Q", 0) + whole[8:],
        "a header of text": lambda whole: whole[:8] + b"x" * (len(whole) - 8),
        "more bytes": lambda whole: whole + b"x" * 100,
        "a byte less": lambda whole: whole[:-1],
    }
    for label, damage in heads.items():
        yield Damage("weights", label, lambda w, g, d=damage: rewritten(w, g, name, d))  # type: ignore[misc]


def _with_metadata(change: Callable[[str], str]) -> Callable[[Path, Path], None]:
    def make(world: Path, given: Path) -> None:
        source = world / "net.safetensors"
        with safetensors.safe_open(source, framework="pt") as opened:
            about = opened.metadata()["lvmrs"]
        tensors = safetensors.torch.load_file(source)
        safetensors.torch.save_file(tensors, given / "net.safetensors", metadata={"lvmrs": change(about)})

    return make


def _with_tensors(change: Callable[[dict[str, Any]], object], *, told: bool = True) -> Callable[[Path, Path], None]:
    def make(world: Path, given: Path) -> None:
        source = world / "net.safetensors"
        with safetensors.safe_open(source, framework="pt") as opened:
            metadata = opened.metadata() if told else None
        tensors = dict(safetensors.torch.load_file(source))
        change(tensors)
        safetensors.torch.save_file(tensors, given / "net.safetensors", metadata=metadata)

    return make


def _torch_weights() -> Iterator[Damage]:
    def saved(value: Any) -> Callable[[Path, Path], None]:
        return lambda world, given: torch.save(value, given / "net.pt")

    values: dict[str, Any] = {
        "a number": 5, "a text": "x", "None": None, "a list": [], "a list of numbers": [1], "empty": {}, "a tensor": torch.zeros(2),
        "no tensors": {"0.weight": 5}, "numbers for names": {0: torch.zeros(1)}, "other names": {"a": torch.zeros(1)},
        "an arch that is a number": {"arch": 5, "state_dict": {}}, "an arch that is unknown": {"arch": "magic", "state_dict": {}},
        "an arch without weights": {"arch": "small_cnn"}, "a state that is a list": {"arch": "small_cnn", "state_dict": [1]},
        "10¹² numbers of one": {"0.weight": torch.zeros(1).expand(10**6, 10**6)},
        "a model": torch.nn.Linear(1, 1), "nested": {"state_dict": {"state_dict": {}}},
    }  # fmt: skip
    for label, value in values.items():
        yield Damage("torch weights", label, saved(value))
    yield Damage("torch weights", "compressed", _compressed)
    yield Damage("torch weights", "harm", saved({"a": Harm()}))
    texts = {
        "an empty file": b"",
        "a text file": b"weights\n",
        "a pickle": pickle.dumps({"a": 1}),
        "a zip": _zip({"a": b"b"}),
    }
    for label, text in texts.items():
        yield Damage("torch weights", label, lambda w, g, t=text: (g / "net.pt").write_bytes(t))  # type: ignore[misc]


def _compressed(world: Path, given: Path) -> None:
    torch.save({"0.weight": torch.zeros(1 << 22)}, given / "net.pt")
    with zipfile.ZipFile(given / "net.pt") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(given / "net.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def _zip(files: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return file.getvalue()


def _archives() -> Iterator[Damage]:
    yield from of_bytes("npz", "data.npz")
    x, y = np.full((6, 1, 8, 8), 0.5, np.float32), np.arange(6) % 3
    arrays: dict[str, dict[str, Any]] = {
        "labels of another name": {"x": x, "labels": y}, "no inputs": {"y": y}, "nothing": {}, "other names": {"a": x, "b": y},
        "fewer labels": {"x": x, "y": y[:3]}, "no rows": {"x": x[:0], "y": y[:0]}, "one number": {"x": np.float32(1), "y": y},
        "labels below 0": {"x": x, "y": y - 1}, "labels that are fractions": {"x": x, "y": y + 0.5},
        "labels of text": {"x": x, "y": np.array(list("abcabc"))}, "labels of objects": {"x": x, "y": y.astype(object)},
        "labels of NaN": {"x": x, "y": y * np.nan}, "labels of two dimensions": {"x": x, "y": np.eye(6, dtype=int)},
        "labels beyond the network": {"x": x, "y": y + 1000}, "labels of booleans": {"x": x, "y": y > 0},
        "labels huge": {"x": x, "y": y.astype(float) + 1e300}, "labels complex": {"x": x, "y": y * 1j},
        "inputs of integers": {"x": (x * 255).astype(np.int64), "y": y}, "inputs above 1": {"x": x * 255, "y": y},
        "inputs below 0": {"x": x - 1, "y": y}, "inputs of NaN": {"x": x * np.nan, "y": y}, "inputs of inf": {"x": x + np.inf, "y": y},
        "inputs of text": {"x": x.astype("U3"), "y": y}, "inputs of objects": {"x": x.astype(object), "y": y},
        "inputs complex": {"x": x.astype(complex), "y": y}, "inputs of booleans": {"x": x > 0, "y": y},
        "inputs of one dimension": {"x": x[:, 0, 0, 0], "y": y}, "inputs without pixels": {"x": x[..., :0], "y": y},
        "inputs of records": {"x": np.zeros(6, dtype=[("a", "f4")]), "y": y}, "inputs of dates": {"x": np.zeros(x.shape, "M8[s]"), "y": y},
    }  # fmt: skip
    for label, held in arrays.items():
        yield Damage("npz", label, lambda w, g, h=held: np.savez(g / "data.npz", **h))  # type: ignore[misc]
    members = {
        "a text inside": b"x",
        "an empty member": b"",
        "a member of pickles": pickle.dumps(Harm()),
        "a bomb inside": _bomb(),
    }
    for label, content in members.items():
        whole = _zip({"x.npy": content, "y.npy": content})
        yield Damage("npz", label, lambda w, g, b=whole: (g / "data.npz").write_bytes(b))  # type: ignore[misc]


def _bomb() -> bytes:
    """A header that promises 238 GiB, and no data."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (10**6, 1, 253, 253)})
    return file.getvalue()


_HEAD = "idx\tlabel\tpredict\tradius\tcorrect\ttime"
_RESULTS: dict[str, str] = {
    "no rows": f"{_HEAD}\n", "no header": "0\t1\t1\t0.5\t1\t0\n", "spaces": "idx label predict radius\n0 1 1 0.5\n",
    "commas": "idx,label,predict,radius\n0,1,1,0.5\n", "a short row": f"{_HEAD}\n0\t1\n", "an index twice": f"{_HEAD}\n" + "0\t1\t1\t0.5\t1\t0\n" * 2,
    "a column twice": "idx\tidx\tlabel\tpredict\tradius\n0\t0\t1\t1\t0.5\n", "one newline": "\n", "blank lines": "\n\n\n",
    "two sigmas": "idx\tlabel\tpredict\tradius\tsigma\n0\t1\t1\t0.5\t0.1\n1\t1\t1\t0.5\t0.2\n", "HTML": "<html></html>\n",
    **{f"no column {name}": _HEAD.replace(name, "magic") + "\n0\t1\t1\t0.5\t1\t0\n" for name in ("idx", "label", "predict", "radius")},
    **{f"radius is {value!r}": f"{_HEAD}\n0\t1\t1\t{value}\t1\t0\n" for value in ("", "x", "nan", "inf", "-1", "1e400", "-inf", "0,5", "1 2", "True", "None")},
    **{f"{name} is {value!r}": f"{_HEAD}\n" + "\t".join({"idx": "0", "label": "1", "predict": "1", "radius": "0.5", name: value}.values()) + "\t1\t0\n"
       for name in ("idx", "label", "predict") for value in ("", "x", "nan", "inf", "1.5", "1e30", "-7" if name != "label" else "a")},
}  # fmt: skip


def _results() -> Iterator[Damage]:
    yield from of_bytes("results", "other.tsv", leave=("cut in half",))
    for label, text in _RESULTS.items():
        yield Damage("results", label, lambda w, g, t=text: (g / "other.tsv").write_text(t))  # type: ignore[misc]


def _pictures() -> Iterator[Damage]:
    def folder(change: Callable[[Path], object]) -> Callable[[Path, Path], None]:
        def make(world: Path, given: Path) -> None:
            shutil.copytree(world / "pictures", given / "pictures")
            change(given / "pictures")

        return make

    changes: dict[str, Callable[[Path], object]] = {
        "an empty picture": lambda p: (p / "0" / "a.png").write_bytes(b""),
        "a text": lambda p: (p / "0" / "a.png").write_text("x"),
        "a cut picture": lambda p: (p / "0" / "a.png").write_bytes((p / "0" / "a.png").read_bytes()[:40]),
        "no pictures": lambda p: [_replaced(p / k / "a.png") for k in "01"],
        "a bomb": lambda p: (p / "0" / "a.png").write_bytes(_png(50_000, 50_000)),
        "another size": lambda p: (p / "1" / "a.png").write_bytes(_png(5, 9)),
        "a directory for a picture": lambda p: _replaced(p / "0" / "a.png").mkdir(),
        "a broken link": lambda p: _replaced(p / "0" / "a.png").symlink_to("nowhere"),
        "a pipe": lambda p: os.mkfifo(_replaced(p / "0" / "a.png")),
        "a device without end": lambda p: _replaced(p / "0" / "a.png").symlink_to("/dev/zero"),
        "a label beyond the network": lambda p: (p / "1").rename(p / "99"),
        "a huge label": lambda p: (p / "1").rename(p / ("9" * 30)),
    }
    for label, change in changes.items():
        yield Damage("pictures", label, folder(change))


def _replaced(path: Path) -> Path:
    path.unlink()
    return path


def _png(width: int, height: int) -> bytes:
    """A picture that promises so many pixels and holds none."""
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


def _batches() -> Iterator[Damage]:
    def batch(content: bytes) -> Callable[[Path, Path], None]:
        def make(world: Path, given: Path) -> None:
            (given / "cifar").mkdir()
            (given / "cifar" / "test_batch").write_bytes(content)

        return make

    row = np.zeros((2, 3072), np.uint8)
    held: dict[str, Any] = {
        "a list": [], "a number": 5, "None": None, "no labels": {b"data": row}, "no data": {b"labels": [0, 1]},
        "fewer labels": {b"data": row, b"labels": [0]}, "labels of text": {b"data": row, b"labels": ["a", "b"]},
        "labels None": {b"data": row, b"labels": None}, "data None": {b"data": None, b"labels": [0, 1]},
        "data of text": {b"data": "x", b"labels": [0, 1]}, "data of other length": {b"data": row[:, :10], b"labels": [0, 1]},
        "labels beyond": {b"data": row, b"labels": [0, 77]}, "harm": {b"data": Harm(), b"labels": [0, 1]},
        "ragged data": {b"data": [[1], [1, 2]], b"labels": [0, 1]}, "data of floats": {b"data": row + 300.5, b"labels": [0, 1]},
        "labels below 0": {b"data": row, b"labels": [0, -1]}, "data is a number": {b"data": 7, b"labels": [0, 1]},
    }  # fmt: skip
    for label, value in held.items():
        yield Damage("cifar10", label, batch(pickle.dumps(value)))
    raw = {"empty": b"", "a text": b"x", "noise": np.random.default_rng(1).bytes(300), "cut": pickle.dumps({b"data": row, b"labels": [0, 1]})[:-50],
           "an opcode": b"\x80\x04.", "a memo": b"\x80\x04h\x05.", "an empty stack": b"(d.", "a huge length": b"\x80\x04\x8e" + b"\xff" * 8}  # fmt: skip
    for label, content in raw.items():
        yield Damage("cifar10", label, batch(content))


def _programs() -> Iterator[Damage]:
    contents = {
        "empty": b"",
        "a text": b"x",
        "noise": np.random.default_rng(2).bytes(2000),
        "a zip": _zip({"a": b"b"}),
        "zeros": bytes(1000),
    }
    for label, content in contents.items():
        for kind, name in (("onnx", "net.onnx"), ("export", "net.pt2")):
            yield Damage(kind, label, lambda w, g, c=content, n=name: (g / n).write_bytes(c))  # type: ignore[misc]
