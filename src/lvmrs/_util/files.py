"""Paths and files: checks that accept any text as a path, and all changes that lvmrs makes to the file system.

New files have mode 0644 and new directories mode 0755, less the umask. A function that renames a file returns after the
new name is on the disk, so that a power cut does not undo the change. Tests replace ``os`` in this module to make each
single call fail.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from lvmrs.errors import InvalidArgumentError, RunError, shown

# ruff: noqa: PTH110, PTH111, PTH112, PTH113, PTH116 (methods of Path raise errors for names that are too long or contain NUL)

# Files that another machine sent to this process: the path on that machine, and the path here.
_MOVED: dict[Path, Path] = {}


def redirect(path: Path, place: Path) -> None:
    """Register that the file of the absolute path ``path`` is stored at ``place`` in this process."""
    _MOVED[path] = place


def redirected(path: Path) -> Path:
    """The path of a file on this machine: another one if the file was sent to this process, else ``path`` itself."""
    return _MOVED.get(path, path)


def expanded(path: str | Path) -> Path:
    """The path with a leading ~ replaced by the home directory; ~NAME of an unknown user is unchanged."""
    return Path(os.path.expanduser(path))


def is_file(path: str | Path) -> bool:
    """Whether the path is a regular file; False for names that are too long or contain NUL."""
    return os.path.isfile(path)


def is_folder(path: str | Path) -> bool:
    """Whether the path is a folder; False for names that are too long or contain NUL."""
    return os.path.isdir(path)


def no_file(path: str | Path) -> str:
    """Why a path is not a file, as a predicate: the caller writes the path before it."""
    if is_folder(path):
        return "is a folder, not a file"
    return "is a device or a pipe, not a file" if os.path.exists(path) else "does not exist"


def check_kind(path: str | Path) -> None:
    """Raise an OSError for a pipe or a device: reading a pipe would block, and a device may have no end."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # opening a folder raises a clear error itself
        raise OSError(errno.EINVAL, "It is a device or a pipe, not a file", str(path))


_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF, errno.EACCES, errno.EPERM}
"""Errors of file systems that cannot sync a directory, or do not allow it to be opened."""


@contextmanager
def errors(path: Path, advice: str) -> Iterator[None]:
    """Turn an OSError of writing to ``path`` into a RunError that ends with ``advice``."""
    try:
        yield
    except OSError as error:
        raise RunError(f"{path} cannot be written to ({error.strerror or error}); {advice}") from error


def place(path: str | Path) -> Path:
    """The path with ~ expanded. Raises RunError if no file or directory can have this path."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidArgumentError(f"{shown(path)} is no path; give the name of a file or directory")
    name = shown(os.fspath(path))
    try:
        found = Path(path).expanduser()
        os.lstat(found)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return found  # opening the path raises the error
    except (OSError, ValueError, RuntimeError) as error:
        why = getattr(error, "strerror", error)
        raise RunError(f"{name} cannot be a file or directory ({why}); choose another name") from error
    return found


def make_directory(path: Path) -> None:
    """Make a directory and its parents; does nothing if the directory exists."""
    if path.is_dir():
        return
    make_directory(path.parent)
    try:
        os.mkdir(path, 0o755)  # noqa: PTH102 (all calls of os are in one place)
    except FileExistsError:  # another process made it first, or it is a file
        if not path.is_dir():
            raise
    sync_directory(path.parent)


def open_file(path: Path, flags: int = 0) -> int:
    """Open a file for reading and writing, with more ``flags`` of ``os.open``; creates it if it does not exist.

    Raises OSError for pipes, devices and links: a run from another person could contain a link to one of the user's
    files.
    """
    try:
        file = os.open(path, flags | os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP and path.is_symlink():
            raise OSError(errno.ELOOP, f"{path.name} is a link, which is not followed", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):  # opening a pipe for reading and writing does not block
        os.close(file)
        raise OSError(errno.EINVAL, f"{path.name} is a device or a pipe, not a file", str(path))
    return file


def copy_file(path: Path, new: Path) -> None:
    """Copy a file; makes the parent directories of the copy."""
    make_directory(new.parent)
    shutil.copyfile(path, new)


def write(file: int, data: Any, at: int | None = None) -> None:
    """Write all bytes of a buffer, at the offset ``at`` or at the current position.

    A disk that is almost full may accept only a part of the bytes; the next write then raises the error.
    """
    left = memoryview(data).cast("B")
    while len(left):
        written = os.write(file, left) if at is None else os.pwrite(file, left, at)
        left, at = left[written:], None if at is None else at + written


def sync(file: int) -> None:
    """Wait until all written data of a file are on the disk."""
    os.fsync(file)


def sync_directory(path: Path) -> None:
    """Wait until the entries of a directory are on the disk, if the file system supports this."""
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


def truncate(file: int, length: int) -> None:
    """Set the length of a file in bytes; added bytes read as zeros."""
    os.ftruncate(file, length)


def rename(path: Path, new: Path) -> None:
    """Rename a file; replaces an existing file of the new name."""
    os.replace(path, new)  # noqa: PTH105
    sync_directory(new.parent)


def remove(path: Path) -> None:
    """Remove a file; does nothing if the file does not exist."""
    with suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108


def remove_directory(path: Path) -> None:
    """Remove a directory; does nothing if the directory does not exist or is not empty."""
    try:
        os.rmdir(path)  # noqa: PTH106
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
            raise


def close(file: int) -> None:
    """Close a file."""
    os.close(file)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Replace the file ``path`` by what the block writes, once all of it is on the disk; not if the block fails."""
    path = place(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():  # root could replace /dev/null by a file
        raise OSError(errno.EINVAL, "It is a device or a pipe, not a file", str(path))
    new = temporary_name(path)
    if new.is_symlink():  # lvmrs makes no such link: an attack
        remove(new)
    try:
        file, content = open_file(new, os.O_TRUNC), io.BytesIO()
        try:
            yield content
            write(file, content.getbuffer())
            sync(file)
        finally:
            close(file)
        rename(new, path)
    except BaseException:
        remove(new)
        raise


def temporary_name(path: Path) -> Path:
    """The name of the new file in ``replacing``. A killed process leaves it, and the next process overwrites it."""
    return path.with_name(f".{path.name}.new")
