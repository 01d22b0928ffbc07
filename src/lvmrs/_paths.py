"""Questions about paths that have an answer for any text, also for names that are too long or hold a NUL."""

import os
from pathlib import Path

__all__ = ["expanded", "is_file", "is_folder"]

# ruff: noqa: PTH111, PTH112, PTH113 (the methods of Path raise OSError, ValueError or RuntimeError for such names)


def expanded(path: str | Path) -> Path:
    """The path with a ~ at its beginning replaced by the home; what begins with ~ and is no user stays as it is."""
    return Path(os.path.expanduser(path))


def is_file(path: str | Path) -> bool:
    """Whether there is a file."""
    return os.path.isfile(path)


def is_folder(path: str | Path) -> bool:
    """Whether there is a folder."""
    return os.path.isdir(path)
