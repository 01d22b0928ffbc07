"""Questions about paths that have an answer for any text, also for names that are too long or hold a NUL."""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from lvmrs.errors import InvalidArgumentError, RunError, shown

__all__ = [
    "aside",
    "check_kind",
    "close",
    "copy_file",
    "cut",
    "errors",
    "expanded",
    "is_file",
    "is_folder",
    "is_now_at",
    "make_directory",
    "no_file",
    "open_directory",
    "open_file",
    "place",
    "remove",
    "remove_directory",
    "rename",
    "replacing",
    "size",
    "sync",
    "sync_directory",
    "where",
    "write",
]

# ruff: noqa: PTH110, PTH111, PTH112, PTH113, PTH116 (the methods of Path raise OSError, ValueError or RuntimeError for such names)

# Files that were sent to this process from a machine on which they had other paths.
_MOVED: dict[Path, Path] = {}


def is_now_at(path: Path, place: Path) -> None:
    """From now on, whoever names the first path is given the file at the second."""
    _MOVED[path] = place


def where(path: Path) -> Path:
    """Where the file of this absolute path is: there, unless it was sent to this process."""
    return _MOVED.get(path, path)


def expanded(path: str | Path) -> Path:
    """The path with a ~ at its beginning replaced by the home; what begins with ~ and is no user stays as it is."""
    return Path(os.path.expanduser(path))


def is_file(path: str | Path) -> bool:
    """Whether there is a file."""
    return os.path.isfile(path)


def is_folder(path: str | Path) -> bool:
    """Whether there is a folder."""
    return os.path.isdir(path)


def no_file(path: str | Path) -> str:
    """What is wrong with the path of something that is not a file, as the end of a sentence that begins with it."""
    if is_folder(path):
        return "is a folder, not a file"
    return "is a device or a pipe, not a file" if os.path.exists(path) else "does not exist"


def check_kind(path: str | Path) -> None:
    """Refuse to read a pipe or a device with an OSError: one would be waited for, and the other may have no end."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # to open a folder is an error that says so
        raise OSError(errno.EINVAL, "It is a device or a pipe, not a file", str(path))


# ---------------------------------------------------------------------------------------------------------------------
# Every change that lvmrs makes to the file system is made by a function of this module.
#
# Files are made with mode 0644 and directories with mode 0755, less what the umask takes away. What is renamed is on the
# disk when its function returns, so that a power cut does not undo it. Tests replace ``os`` in this module to let each
# single call fail.


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


# ---------------------------------------------------------------------------------------------------------------------
# Writing a file completely or not at all.


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a new file to write to. After the block it replaces ``path``; if the block fails, it is removed."""
    path = place(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():  # whoever may do anything would replace /dev/null by a file
        raise OSError(errno.EINVAL, "It is a device or a pipe, not a file", str(path))
    new = aside(path)
    if new.is_symlink():  # nobody but an attacker makes such a link
        remove(new)
    try:
        with io.BufferedWriter(_Opened(open_file(new, os.O_TRUNC))) as file:
            yield cast(BinaryIO, file)
            file.flush()
            sync(file.fileno())
        rename(new, path)
    except BaseException:
        remove(new)
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
        write(self._file, data)
        return length

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            super().close()
            close(self._file)
