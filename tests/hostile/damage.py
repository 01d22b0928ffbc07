"""How damaged files are made: from a whole one of the world, in the directory of a case."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

__all__ = ["Damage", "of_bytes", "rewritten"]


class Damage(NamedTuple):
    """One damaged file: its format, what is wrong, and how to make it from the world."""

    format: str
    label: str
    make: Callable[[Path, Path], None]


# Bytes that are wrong for any format but text.
_BYTES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda whole: b"",
    "a NUL": lambda whole: b"\0",
    "cut in half": lambda whole: whole[: len(whole) // 2],
    "noise": lambda whole: np.random.default_rng(0).bytes(500),
    "UTF-16": lambda whole: "idx\tlabel\n".encode("utf-16"),
    "zeros": lambda whole: bytes(len(whole)),
}


def of_bytes(format: str, name: str, leave: tuple[str, ...] = ()) -> Iterator[Damage]:  # noqa: A002
    for label, damage in _BYTES.items():
        if label not in leave:
            yield Damage(format, label, _rewriting(name, damage))


def rewritten(world: Path, given: Path, name: str, damage: Callable[[bytes], bytes]) -> None:
    """Copy what the name begins with, and damage the file."""
    top = Path(name).parts[0]
    source = world / top
    if source.is_dir():
        shutil.copytree(source, given / top)
    whole = (world / name).read_bytes()
    (given / name).write_bytes(damage(whole))


def _rewriting(name: str, damage: Callable[[bytes], bytes]) -> Callable[[Path, Path], None]:
    return lambda world, given: rewritten(world, given, name, damage)
