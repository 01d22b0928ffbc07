"""Questions about paths that have an answer for any text, also for names that are too long or hold a NUL."""

import errno
import os
import stat
from pathlib import Path

__all__ = ["check_kind", "expanded", "is_file", "is_folder", "is_now_at", "no_file", "where"]

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
