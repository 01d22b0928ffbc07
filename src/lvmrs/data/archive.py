"""Reads arrays from .npz archives. Headers are checked against the file size before memory is allocated."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.lib import format as npy
from numpy.typing import NDArray

from lvmrs._util.machine import memory
from lvmrs.errors import DataError, guarded

__all__ = ["read_arrays"]

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
# NumPy's codes for kinds of values: numbers and texts.
_NUMBERS, _TEXTS = "biuf", "US"


def read_arrays(name: str, path: Path, choose: Callable[[list[str]], list[str]]) -> dict[str, NDArray[Any]]:
    """Read arrays of an archive by name.

    Args:
        name: the name of the data, for error messages.
        path: the file.
        choose: selects the names of the arrays to read from all names.

    Returns:
        The arrays by name.
    """
    with (
        guarded(f"{name}: {path} is not an .npz archive of plain arrays", error=DataError),
        zipfile.ZipFile(path) as archive,
    ):
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        chosen = {key: members[key] for key in choose(list(members))}
        for key, info in chosen.items():
            with archive.open(info) as opened:
                kinds = _TEXTS if key.startswith("names") else _NUMBERS
                _check_header(f"{name}: {key} of {path}", opened, info.file_size, kinds)
        if sum(info.file_size for info in chosen.values()) > memory():
            raise DataError(f"{name}: {path} would take more than the memory of this machine; split it")
        return {key: _read(archive, info) for key, info in chosen.items()}


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(info) as opened:
        array: NDArray[Any] = npy.read_array(opened, allow_pickle=False)
    return array


def _check_header(what: str, opened: Any, size: int, kinds: str) -> None:
    version = npy.read_magic(opened)
    if version not in _HEADERS:
        raise DataError(f"{what} is not a plain array: its format is {version[0]}.{version[1]}")
    shape, _, kind = _HEADERS[version](opened)
    if kind.kind not in kinds:
        expected = "texts" if kinds == _TEXTS else "numbers"
        raise DataError(f"{what} is not a plain array: it holds {kind}; expected {expected}")
    claimed = math.prod(shape) * kind.itemsize
    held = size - opened.tell()
    if min(shape, default=0) < 0 or claimed > held:
        raise DataError(f"{what} is damaged: its header says {claimed:,} bytes, and there are {held:,}")
