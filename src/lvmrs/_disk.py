"""Every change that lvmrs makes to the file system is made by a function of this module.

Files are made with mode 0644 and directories with mode 0755, less what the umask takes away. What is renamed is on the
disk when its function returns, so that a power cut does not undo it. Tests replace ``os`` in this module to let each
single call fail.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lvmrs.errors import InvalidArgumentError, RunError, shown

__all__ = [
    "close", "copy_file", "cut", "errors", "make_directory", "open_directory", "open_file", "place", "remove",
    "remove_directory", "rename", "size", "sync", "sync_directory", "write",
]  # fmt: skip

_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF, errno.EACCES, errno.EPERM}
"""What file systems say that cannot sync a directory, or do not let it be opened."""


@contextmanager
def errors(path: Path, advice: str) -> Iterator[None]:
    """Turn the errors of writing to a place into one sentence, which ends with what the user can do."""
    try:
        yield
    except OSError as error:
        raise RunError(f"{path} cannot be written to ({error.strerror or error}); {advice}") from error


def place(path: str | Path) -> Path:
    """The path with its ~ expanded; a RunError says in one sentence why there cannot be such a file."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidArgumentError(f"{shown(path)} is no path; give the name of a file or directory")
    name = shown(os.fspath(path))
    try:
        found = Path(path).expanduser()
        os.lstat(found)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return found  # whoever opens it says so
    except OSError as error:
        raise RunError(f"{name} cannot be a file or directory ({error.strerror}); choose another name") from error
    except (ValueError, RuntimeError) as error:
        raise RunError(f"{name} cannot be a file or directory ({error}); choose another name") from error
    return found


def make_directory(path: Path) -> None:
    """Make a directory, and those that it is in; nothing happens if it exists."""
    if path.is_dir():
        return
    make_directory(path.parent)
    try:
        os.mkdir(path, 0o755)  # noqa: PTH102 (all calls of os are in one place)
    except FileExistsError:  # another process was quicker, or it is a file
        if not path.is_dir():
            raise
    sync_directory(path.parent)


def open_file(path: Path, flags: int = 0) -> int:
    """Open a file to read and write; it is made if it does not exist.

    Links are refused: a run that someone else made could have one in place of a file, to a file of the user's. So are
    pipes and devices.

    Args:
        path: the file.
        flags: more flags of ``os.open``, such as O_APPEND.
    """
    try:
        file = os.open(path, flags | os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP and path.is_symlink():
            raise OSError(errno.ELOOP, f"{path.name} is a link, which is not followed", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):  # to open a pipe for reading and writing does not wait
        os.close(file)
        raise OSError(errno.EINVAL, f"{path.name} is a device or a pipe, not a file", str(path))
    return file


def copy_file(path: Path, new: Path) -> None:
    """Copy a file, and make the directories that the copy is in."""
    make_directory(new.parent)
    shutil.copyfile(path, new)


def open_directory(path: Path) -> int:
    """Open a directory, to lock it; a link is refused."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def write(file: int, data: Any, at: int | None = None) -> None:
    """Write all bytes of a buffer, at a place in the file or where it stands.

    A disk that is almost full may take only a part of them at first; the next try then says what is wrong.
    """
    left = memoryview(data).cast("B")
    while len(left):
        written = os.write(file, left) if at is None else os.pwrite(file, left, at)
        left, at = left[written:], None if at is None else at + written


def sync(file: int) -> None:
    """Wait until everything that was written to a file is on the disk."""
    os.fsync(file)


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on the disk, where the file system can say so."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def size(file: int) -> int:
    """The length of an open file in bytes."""
    return os.fstat(file).st_size


def cut(file: int, length: int) -> None:
    """Make a file so many bytes long; what is added reads as zeros."""
    os.ftruncate(file, length)


def rename(path: Path, new: Path) -> None:
    """Give a file another name, which may be that of a file that it replaces."""
    os.replace(path, new)  # noqa: PTH105
    sync_directory(new.parent)


def remove(path: Path) -> None:
    """Remove a file; nothing happens if it is not there."""
    try:
        os.unlink(path)  # noqa: PTH108
    except FileNotFoundError:
        return


def remove_directory(path: Path) -> None:
    """Remove a directory; nothing happens if it is not there, or not empty."""
    try:
        os.rmdir(path)  # noqa: PTH106
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
            raise


def close(file: int) -> None:
    """Close a file."""
    os.close(file)
