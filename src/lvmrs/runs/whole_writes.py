"""Writing so that it is all there, or not at all; and what the disk says, in one sentence."""

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
    """Turn what the disk says into one sentence."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"{directory} cannot be written to ({error.strerror}); rows already written are safe: make room and resume"
        ) from error


def append_line(file: int, line: str) -> None:
    """Add one line to an open file and bring it to the disk; leave nothing of it behind where that fails."""
    data = f"{line}\n".encode()
    size = os.fstat(file).st_size
    try:
        _write(file, data)
    except OSError:
        os.ftruncate(file, size)
        raise


def _write(file: int, data: bytes) -> None:
    if os.write(file, data) != len(data):  # the disk took a part
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(file)


def write_whole(path: Path, text: str) -> None:
    """All of a file or none of it."""
    with replacing(path) as file:
        file.write(text.encode())
