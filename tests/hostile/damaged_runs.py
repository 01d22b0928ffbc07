"""Damaged runs: manifests, fields of manifests, rows and kept scores."""
# ruff: noqa: E501

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lvmrs.record.manifest import FORMAT
from tests.hostile.damage import Damage, of_bytes, rewritten

__all__ = ["damaged_runs"]


def damaged_runs() -> Iterator[Damage]:
    """Runs of the world with one thing wrong."""
    yield from _manifests()
    yield from _fields()
    yield from _rows()
    yield from _scores()


def _manifests() -> Iterator[Damage]:
    name = "run/manifest.json"
    yield from of_bytes("manifest", name)
    texts = {
        "a list": "[]", "a number": "3", "null": "null", "a text": '"x"', "no fields": "{}", "NaN": "NaN", "not JSON": "x",
        "format alone": f'{{"format": {FORMAT}}}', "nested": "[" * 100_000, "nested objects": '{"format":' * 5_000, "a comma": "{,}",
    }  # fmt: skip
    for label, text in texts.items():
        yield Damage("manifest", label, lambda w, g, t=text: rewritten(w, g, name, lambda _: t.encode()))  # type: ignore[misc]
    for label, form in {
        "none": None,
        "99": 99,
        "text": "2",
        "true": True,
        "list": [2],
        "2.0": 2.0,
        "-1": -1,
        "0": 0,
    }.items():
        yield Damage("manifest", f"format {label}", _with_field(("format",), form))
    yield Damage("manifest", "an unknown field", _with_field(("magic",), 1))
    yield Damage("manifest", "a field twice", lambda w, g: rewritten(w, g, name, _twice))
    yield Damage("manifest", "missing", lambda w, g: _without(w, g, "manifest.json"))
    yield from _other_kinds("manifest", "manifest.json")


def _twice(whole: bytes) -> bytes:
    stated = f'"format": {FORMAT},'.encode()
    assert stated in whole
    return whole.replace(stated, stated + b' "batch": 1,')


def _without(world: Path, given: Path, file: str) -> None:
    shutil.copytree(world / "run", given / "run")
    (given / "run" / file).unlink()


_KINDS: dict[str, Callable[[Path], None]] = {
    "a directory": Path.mkdir,
    "a pipe": os.mkfifo,
    "a device without end": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path),
}


def _other_kinds(format_: str, file: str, label: str = "") -> Iterator[Damage]:
    """A file of the run that is no file."""
    for kind, make in _KINDS.items():

        def replaced(world: Path, given: Path, make: Callable[[Path], None] = make) -> None:
            _without(world, given, file)
            make(given / "run" / file)

        yield Damage(format_, f"{label}{kind}", replaced)


def _with_field(path: tuple[str, ...], value: Any) -> Callable[[Path, Path], None]:
    """Change one field of the manifest of the run, or add it."""

    def make(world: Path, given: Path) -> None:
        def changed(whole: bytes) -> bytes:
            stored = json.loads(whole)
            place = stored
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
            return json.dumps(stored).encode()

        rewritten(world, given, "run/manifest.json", changed)

    return make


# Fields of a manifest, and values that are wrong for them whatever else it says.
_TEXT = {"a number": 5, "a list": [], "an object": {}, "true": True}
_TEXT_OR_NONE = dict(_TEXT)
_WHOLE = {
    "a text": "5",
    "a list": [5],
    "an object": {},
    "true": True,
    "1.5": 1.5,
    "NaN": float("nan"),
    "inf": float("inf"),
    "-1": -1,
    "null": None,
}
_WHOLE_OR_NONE = {label: value for label, value in _WHOLE.items() if label != "null"}
_NUMBER = {
    "a text": "0.5",
    "a list": [0.5],
    "an object": {},
    "true": True,
    "NaN": float("nan"),
    "inf": float("inf"),
    "-1": -1.0,
    "null": None,
    "0": 0,
}
_RECORD: dict[str, Any] = {"null": None, "a number": 5, "a text": "x", "a list": [], "true": True, "empty": {}}
_OBJECT = {"a number": 5, "a text": "x", "a list": [], "true": True}
_FIELDS: dict[str, dict[str, Any]] = {
    "model": _RECORD, "data": _RECORD, "method": _RECORD, "terms": _RECORD, "selection": _RECORD,
    "model name": {**_TEXT, "null": None}, "model weights_hash": _TEXT, "model code_hash": _TEXT, "model device": _TEXT,
    "model precision": _TEXT, "model normalisation": {**_OBJECT, "texts in it": {"mean": ["x"], "std": ["x"]}, "numbers in it": {"mean": 0.5, "std": 0.5}},
    "model denoiser": _OBJECT, "model facts": _OBJECT, "model compiled": {"a text": "x", "a number": 5, "a list": []},
    "data split": {**_TEXT, "null": None}, "data name": _TEXT, "data hash": _TEXT, "data image_size": {**_WHOLE_OR_NONE, "0": 0},
    "data facts": _OBJECT, "data classes": {"a number": 5, "a text": "x", "an object": {}, "numbers in it": [1]},
    "method name": {**_TEXT, "null": None}, "method settings": {**_OBJECT, "null": None}, "method own_code": {**_OBJECT, "null": None, "numbers in it": {"a": 1}},
    "method scope": {**_TEXT, "another word": "some inputs"}, "method classifier": _TEXT,
    "terms sigma": _NUMBER, "terms alpha": {**_NUMBER, "1": 1, "2": 2}, "terms n0": _WHOLE, "terms n": {**_WHOLE, "huge": 10**30}, "terms seed": {**_WHOLE, "huge": 10**30},
    "terms lipschitz": {k: v for k, v in _NUMBER.items() if k != "null"}, "terms noise": {**_TEXT, "null": None}, "terms distance": {**_TEXT, "null": None}, "terms noise_words": _TEXT,
    "selection size": _WHOLE, "selection skip": {**_WHOLE, "0": 0}, "selection max": {**_WHOLE_OR_NONE, "0": 0}, "selection shard": {**_WHOLE, "0": 0, "9": 9}, "selection shards": {**_WHOLE, "0": 0},
    "selection only": {"a number": 5, "a text": "x", "an object": {}, "texts in it": ["x"], "not in order": [2, 1], "beyond": [10**9], "-1": [-1], "twice": [1, 1], "fractions": [0.5], "true": [True]},
    "batch": {**_WHOLE_OR_NONE, "0": 0}, "keeps_scores": {"a text": "x", "a number": 5, "null": None, "a list": []}, "rows_of": _TEXT, "torch": _TEXT,
    "origin": {"a number": 5, "a text": "x", "a list": [], "null": None}, "origin command": {**_TEXT, "null": None}, "origin begun": _TEXT,
    "origin versions": {**_OBJECT, "null": None, "numbers in it": {"a": 1}}, "origin threads": {k: v for k, v in _WHOLE_OR_NONE.items() if k != "-1"}, "origin scores_of": _TEXT,
    "origin shards": {"a number": 5, "a text": "x", "an object": {}, "numbers in it": [1]}, "origin imported": _TEXT,
}  # fmt: skip


def _fields() -> Iterator[Damage]:
    for field, values in _FIELDS.items():
        for label, value in values.items():
            yield Damage("field", f"{field} is {label}", _with_field(tuple(field.split()), value))


_Lines = list[list[str]]
_NAMES = (
    "idx", "label", "predict", "radius", "correct", "time", "p_lower", "p_upper", "top", "map", "temperature", "mass",
    "bound", "form", "risk_top", "groups", "risk_groups", "scope", "clean", "name", "scores", "rounding",
)  # fmt: skip


def _set(column: str, value: str, row: int = 2) -> Callable[[_Lines], None]:
    def change(lines: _Lines) -> None:
        lines[row][_NAMES.index(column)] = value

    return change


def _rename(column: str, name: str) -> Callable[[_Lines], None]:
    return _set(column, name, row=0)


def _without_column(column: str) -> Callable[[_Lines], None]:
    def change(lines: _Lines) -> None:
        for line in lines:
            del line[_NAMES.index(column)]

    return change


_ROWS: dict[str, Callable[[_Lines], object]] = {
    **{
        f"{column} is {value!r}": _set(column, value)
        for column in ("idx", "label", "predict", "radius")
        for value in ("", "x", "nan", "1.5" if column != "radius" else "-1", "1e400", "-7", "∞", "0x1", "None")
    },
    **{f"clean is {value!r}": _set("clean", value) for value in ("", "x", "-3", "1.5", "nan", "1_0", "٣")},
    "an index twice": _set("idx", "0"),
    "an index that is not of the run": _set("idx", "77"),
    **{f"no column {column}": _without_column(column) for column in ("idx", "radius", "predict", "label")},
    **{f"column {column} renamed": _rename(column, "magic") for column in ("idx", "radius", "label")},
    "two columns of one name": _rename("label", "idx"),
    "a row cut": lambda lines: lines[2].__delitem__(slice(9, None)),
    "a row too long": lambda lines: lines[2].append("x"),
    "a row of text": lambda lines: lines.__setitem__(2, ["nothing but words"]),
    "two rows in one": lambda lines: lines.__setitem__(2, lines[2] + lines[3]),
    "a row twice": lambda lines: lines.insert(2, lines[2]),
    "the header twice": lambda lines: lines.insert(2, lines[0]),
    "no header": lambda lines: lines.__delitem__(0),
    "an empty row": lambda lines: lines.insert(2, [""]),
}
# Columns that tables and curves do not need; whoever reads whole rows must refuse them.
_OTHERS: dict[str, Callable[[_Lines], object]] = {
    **{f"top is {value!r}": _set("top", value) for value in ("", "x", "nan", "1.5", "1e400", "-7")},
    **{
        f"{column} is {value!r}": _set(column, value)
        for column in ("p_lower", "p_upper", "temperature", "mass", "risk_top", "rounding")
        for value in ("", "x", "None", "nan", "inf")
    },
    **{f"{column} is '-1'": _set(column, "-1") for column in ("temperature", "mass", "risk_top", "rounding")},
    **{
        f"{column} is {value!r}": _set(column, value)
        for column in ("correct", "time")
        for value in ("", "x", "nan", "-1")
    },
    "correct is '2'": _set("correct", "2"),
    "correct is '0.5'": _set("correct", "0.5"),
    "scope is another word": _set("scope", "some inputs"),
    "no column map": _without_column("map"),
    "column top renamed": _rename("top", "magic"),
    "a NUL in a name": _set("map", "so\0ft"),
}


def _rows() -> Iterator[Damage]:
    name = "run/certificates.tsv"
    yield from of_bytes("rows", name, leave=("empty", "cut in half"))  # a run that was just begun, or killed
    for label, change in _ROWS.items():
        yield Damage("rows", label, _with_rows(change))
    for label, change in _OTHERS.items():
        yield Damage("other columns", label, _with_rows(change))
    yield from _other_kinds("rows", "certificates.tsv")


def _with_rows(change: Callable[[_Lines], object]) -> Callable[[Path, Path], None]:
    def changed(whole: bytes) -> bytes:
        lines = [line.split("\t") for line in whole.decode().splitlines()]
        change(lines)
        return "".join("\t".join(line) + "\n" for line in lines).encode()

    return lambda world, given: rewritten(world, given, "run/certificates.tsv", changed)


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def _array(whole: bytes) -> Any:
    return np.load(io.BytesIO(whole))


def _put(array: Any, value: float) -> Any:
    array[1, 2, 0] = value
    return array


_ARRAYS: dict[str, Callable[[bytes], bytes]] = {
    "of integers": lambda whole: _npy(_array(whole).astype(np.int64)),
    "of bytes": lambda whole: _npy(_array(whole).astype(np.uint8)),
    "of booleans": lambda whole: _npy(_array(whole) > 0),
    "of half precision": lambda whole: _npy(_array(whole).astype(np.float16)),
    "of complex numbers": lambda whole: _npy(_array(whole).astype(np.complex64)),
    "of texts": lambda whole: _npy(_array(whole).astype("U4")),
    "of objects": lambda whole: _npy(_array(whole).astype(object)),
    "of records": lambda whole: _npy(np.zeros(_array(whole).shape, dtype=[("a", "f4")])),
    "of dates": lambda whole: _npy(np.zeros(_array(whole).shape, dtype="M8[s]")),
    "of other bytes order": lambda whole: _npy(_array(whole).astype(">f4") * 2),
    "NaN": lambda whole: _npy(_put(_array(whole), np.nan)),
    "infinity": lambda whole: _npy(_put(_array(whole), np.inf)),
    "one value changed": lambda whole: _npy(_put(_array(whole), 1e6)),
    "all zeros": lambda whole: _npy(_array(whole) * 0),
    "two inputs swapped": lambda whole: _npy(_array(whole)[[1, 0, 2, 3, 4, 5]]),
    "classes swapped": lambda whole: _npy(np.ascontiguousarray(_array(whole)[:, :, ::-1])),
    "too few inputs": lambda whole: _npy(_array(whole)[:3]),
    "too few samples": lambda whole: _npy(np.ascontiguousarray(_array(whole)[:, :10])),
    "one class": lambda whole: _npy(np.ascontiguousarray(_array(whole)[:, :, :1])),
    "no class": lambda whole: _npy(np.zeros((6, 60, 0), np.float32)),
    "two dimensions": lambda whole: _npy(_array(whole)[0]),
    "no dimension": lambda whole: _npy(np.float32(1)),
    "empty array": lambda whole: _npy(np.zeros((0, 60, 3), np.float32)),
    "in Fortran order": lambda whole: _npy(np.asfortranarray(_array(whole) + 1)),
    "cut by a byte": lambda whole: whole[:-1],
    "cut in the header": lambda whole: whole[:40],
    "of version 9": lambda whole: whole[:6] + b"\x09\x00" + whole[8:],
    "with a header of text": lambda whole: whole[:10] + b"x" * 118 + whole[128:],
    "with a header that calls": lambda whole: whole[:10] + b"__import__('os').getcwd()".ljust(117) + b"\n" + whole[128:],
    "with a huge shape": lambda whole: whole.replace(b"(6, ", b"(9999999999, ", 1),
    "with a negative shape": lambda whole: whole.replace(b"(6, ", b"(-6, ", 1),
    "with a shape of text": lambda whole: whole.replace(b"'shape': (6", b"'shape': ('6'", 1),
    "with an unknown type": lambda whole: whole.replace(b"'<f4'", b"'<q9'", 1),
}  # fmt: skip


def _scores() -> Iterator[Damage]:
    for stage in ("selection", "certification"):
        name = f"scores-{stage}.npy"
        for damage in of_bytes("scores", f"run/{name}"):
            yield damage._replace(label=f"{stage} {damage.label}")
        for label, change in _ARRAYS.items():
            yield Damage("scores", f"{stage} {label}", _changed(f"run/{name}", change))
        yield Damage("scores", f"{stage} missing", lambda w, g, n=name: _without(w, g, n))  # type: ignore[misc]
        yield from _other_kinds("scores", name, f"{stage} ")


def _changed(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path, Path], None]:
    return lambda world, given: rewritten(world, given, name, change)
