"""Writing a file completely or not at all."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from lvmrs import _disk

__all__ = ["aside", "replacing"]


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a new file to write to. After the block it replaces ``path``; if the block fails, it is removed."""
    path = _disk.place(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():  # whoever may do anything would replace /dev/null by a file
        raise OSError(errno.EINVAL, "It is a device or a pipe, not a file", str(path))
    new = aside(path)
    if new.is_symlink():  # nobody but an attacker makes such a link
        _disk.remove(new)
    try:
        with io.BufferedWriter(_Opened(_disk.open_file(new, os.O_TRUNC))) as file:
            yield cast(BinaryIO, file)
            file.flush()
            _disk.sync(file.fileno())
        _disk.rename(new, path)
    except BaseException:
        _disk.remove(new)
        raise


def aside(path: Path) -> Path:
    """The name that a file has while it is written. A process that is killed leaves it; the next one replaces it."""
    return path.with_name(f".{path.name}.new")


class _Opened(io.RawIOBase):
    """An open file as an object, for libraries that want one."""

    def __init__(self, file: int) -> None:
        super().__init__()
        self._file = file

    def writable(self) -> bool:
        """It can be written to."""
        return True

    def seekable(self) -> bool:
        """Its position can be changed."""
        return True

    def fileno(self) -> int:
        """The number of the open file."""
        return self._file

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a place in the file."""
        return os.lseek(self._file, offset, whence)

    def write(self, data: Any) -> int:
        """Write all bytes of a buffer."""
        length = memoryview(data).nbytes
        _disk.write(self._file, data)
        return length

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            super().close()
            _disk.close(self._file)
