"""Writing files and lines completely or not at all, with one sentence for errors of the disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from lvmrs import _disk
from lvmrs._replacing import replacing

__all__ = ["append_lines", "disk_errors", "opened_lines", "write_whole"]


def disk_errors(directory: Path) -> AbstractContextManager[None]:
    """Turn the errors of writing to a run that was begun into one sentence."""
    return _disk.errors(directory, "rows already written are safe: make room and resume")


def opened_lines(path: Path) -> int:
    """Open a file to add lines to; a line without its end, which a crash left, is removed."""
    file = _disk.open_file(path, os.O_APPEND)
    try:
        text = path.read_bytes()
        whole = text.rfind(b"\n") + 1
        if whole < len(text):
            _disk.cut(file, whole)
    except BaseException:
        _disk.close(file)
        raise
    return file


def append_lines(file: int, lines: Sequence[str]) -> None:
    """Add lines to an open file and wait until they are on the disk; if that fails, remove what was written of them."""
    before = _disk.size(file)
    try:
        _disk.write(file, "".join(f"{line}\n" for line in lines).encode())
        _disk.sync(file)
    except OSError:
        with suppress(OSError):  # what is left of a line is dropped when the run is resumed
            _disk.cut(file, before)
        raise


def write_whole(path: Path, text: str) -> None:
    """Write a file completely or not at all."""
    with replacing(path) as file:
        file.write(text.encode())
