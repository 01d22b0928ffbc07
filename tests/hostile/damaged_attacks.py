"""Damaged attacks on a run: their settings and their rows."""
# ruff: noqa: E501

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.hostile.damage import Damage, of_bytes, rewritten

__all__ = ["damaged_attacks"]

_RECORD, _ROWS = "attacked/attack.json", "attacked/attack.tsv"
_NAMES = ("idx", "label", "predict", "radius", "distance", "rival", "broken", "samples", "seconds")


def damaged_attacks() -> Iterator[Damage]:
    """The attacked run of the world with one thing wrong in its attack."""
    yield from of_bytes("attack", _RECORD)
    texts = {
        "a list": "[]", "a number": "3", "null": "null", "no fields": "{}", "NaN": "NaN", "not JSON": "x", "format alone": '{"format": 1}',
        "nested": "[" * 100_000, "a comma": "{,}",
    }  # fmt: skip
    for label, text in texts.items():
        yield Damage("attack", label, lambda w, g, t=text: rewritten(w, g, _RECORD, lambda _: t.encode()))  # type: ignore[misc]
    yield Damage(
        "attack", "a field twice", lambda w, g: rewritten(w, g, _RECORD, lambda x: x.replace(b"{", b'{"n": 7,', 1))
    )
    for field, values in _FIELDS.items():
        for label, value in values.items():
            yield Damage("attack", f"{field} is {label}", _with_field(field, value))
    yield Damage("attack", "settings missing", lambda w, g: _other_kind(w, g, _RECORD, lambda path: None))
    for label, kind in _KINDS.items():
        yield Damage("attack", f"settings {label}", lambda w, g, k=kind: _other_kind(w, g, _RECORD, k))  # type: ignore[misc]
        yield Damage("attack", f"rows {label}", lambda w, g, k=kind: _other_kind(w, g, _ROWS, k))  # type: ignore[misc]
    for damage in of_bytes(
        "attack", _ROWS, leave=("empty", "cut in half")
    ):  # of an attack that was just begun, or killed
        yield damage._replace(label=f"rows {damage.label}")
    for label, change in _CHANGES.items():
        yield Damage("attack", f"rows {label}", _with_rows(change))


_WHOLE = {
    "a text": "5",
    "a list": [5],
    "true": True,
    "1.5": 1.5,
    "NaN": float("nan"),
    "-1": -1,
    "null": None,
    "huge": 10**30,
}
_NUMBER = {
    "a text": "0.5",
    "a list": [0.5],
    "true": True,
    "NaN": float("nan"),
    "inf": float("inf"),
    "-1": -1.0,
    "huge": 10**400,
}
_FIELDS: dict[str, dict[str, Any]] = {
    "format": {"none": None, "99": 99, "a text": "1", "true": True, "1.0": 1.0},
    "steps": {**_WHOLE, "0": 0},
    "restarts": {**_WHOLE, "0": 0},
    "samples": {**_WHOLE, "0": 0},
    "n": {**_WHOLE, "0": 0, "1": 1},
    "seed": _WHOLE,
    "beta": {**_NUMBER, "1": 1, "null": None},
    "farthest": {**_NUMBER, "0": 0},
    "clip": {"a text": "x", "a number": 1, "null": None},
    "origin": {"a number": 5, "a text": "x", "a list": [], "null": None, "empty": {}},
    "magic": {"a number": 5, "half a character": "\ud800"},
}
_KINDS: dict[str, Callable[[Path], object]] = {
    "a directory": Path.mkdir,
    "a pipe": os.mkfifo,
    "a device without end": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path),
}

_Lines = list[list[str]]


def _set(column: str, value: str, row: int = 1) -> Callable[[_Lines], object]:
    return lambda lines: lines[row].__setitem__(_NAMES.index(column), value)


_CHANGES: dict[str, Callable[[_Lines], object]] = {
    **{
        f"{column} is {value!r}": _set(column, value)
        for column in _NAMES
        for value in ("", "x", "nan", "inf", "-7", "1e400", "∞", "0x1", "None", "1_0", "٣")
        if (column, value) != ("label", "-7")
    },
    **{f"{column} is '1.5'": _set(column, "1.5") for column in ("idx", "label", "predict", "rival", "broken", "samples")},
    "an index that is not of the run": _set("idx", "77"),
    "the label of another class": lambda lines: _set("label", str((int(lines[1][1]) + 1) % 3))(lines),
    "another class": lambda lines: _set("predict", str((int(lines[1][2]) + 1) % 3))(lines),
    "another radius": _set("radius", "0.125"),
    "no radius": _set("radius", "0.0"),
    "a distance below the radius": _set("distance", "1e-9"),
    "no distance with a rival": lambda lines: (_set("distance", "-")(lines), _set("rival", "1")(lines)),
    "no rival at a distance": lambda lines: (_set("distance", "99")(lines), _set("rival", "-")(lines)),
    "the rival is the class": lambda lines: (_set("distance", "99")(lines), _set("rival", lines[1][2])(lines)),
    "broken without reason": lambda lines: (_set("broken", "1")(lines), _set("distance", "99")(lines), _set("rival", "9")(lines)),
    "broken is '2'": _set("broken", "2"),
    **{f"no column {column}": lambda lines, k=k: [line.__delitem__(k) for line in lines] for k, column in enumerate(_NAMES)},  # type: ignore[misc]
    "two columns of one name": _set("label", "idx", row=0),
    "a row twice": lambda lines: lines.insert(1, lines[1]),
    "the header twice": lambda lines: lines.insert(1, lines[0]),
    "no header": lambda lines: lines.__delitem__(0),
    "a row too short": lambda lines: lines[1].__delitem__(slice(5, None)),
    "a row too long": lambda lines: lines[1].append("x"),
}  # fmt: skip


def _with_field(field: str, value: Any) -> Callable[[Path, Path], None]:
    return lambda world, given: rewritten(
        world, given, _RECORD, lambda whole: json.dumps({**json.loads(whole), field: value}).encode()
    )


def _with_rows(change: Callable[[_Lines], object]) -> Callable[[Path, Path], None]:
    def changed(whole: bytes) -> bytes:
        lines = [line.split("\t") for line in whole.decode().splitlines()]
        change(lines)
        return "".join("\t".join(line) + "\n" for line in lines).encode()

    return lambda world, given: rewritten(world, given, _ROWS, changed)


def _other_kind(world: Path, given: Path, name: str, make: Callable[[Path], object]) -> None:
    """A file of the attack that is no file, or is missing."""
    shutil.copytree(world / "attacked", given / "attacked")
    (given / name).unlink()
    make(given / name)
