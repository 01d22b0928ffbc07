"""Writing files and lines completely or not at all, with one sentence for errors of the disk."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lvmrs._replacing import replacing
from lvmrs.errors import RunError

__all__ = ["append_line", "disk_errors", "write_whole"]


@contextmanager
def disk_errors(directory: Path) -> Iterator[None]:
    """Turn the errors of writing to the disk into one sentence."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"{directory} cannot be written to ({error.strerror}); rows already written are safe: make room and resume"
        ) from error


def append_line(file: int, line: str) -> None:
    """Add one line to an open file and wait until it is on the disk; if that fails, remove what was written of it."""
    data = f"{line}\n".encode()
    size = os.fstat(file).st_size
    try:
        _write(file, data)
    except OSError:
        os.ftruncate(file, size)
        raise


def _write(file: int, data: bytes) -> None:
    if os.write(file, data) != len(data):  # the disk took only a part
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(file)


def write_whole(path: Path, text: str) -> None:
    """Write a file completely or not at all."""
    with replacing(path) as file:
        file.write(text.encode())
