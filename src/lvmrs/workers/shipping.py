"""Files that go with a task to machines that do not see them: code, and weights that are not large.

A machine that has a file of that name uses it, and a file with another content is refused where its hash is compared.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from lvmrs import _disk
from lvmrs._paths import is_file, is_now_at

__all__ = ["LARGEST", "shipped", "unloaded"]

LARGEST = 1 << 30
"""Files of more bytes than this in all stay where they are: the smallest go."""


def shipped(files: Iterable[Path], largest: int = LARGEST) -> dict[str, bytes]:
    """The content of files, by their absolute paths.

    Args:
        files: the files. A Python file goes with the modules and packages beside it, which it may import.
        largest: how many bytes all of them may have.
    """
    wanted = {path for file in files for path in (_with_neighbours(file) if file.suffix == ".py" else [file])}
    content: dict[str, bytes] = {}
    room = largest
    for path in sorted(wanted, key=lambda path: (path.stat().st_size, path)):
        room -= path.stat().st_size
        if room < 0:
            break
        content[str(path)] = path.read_bytes()
    return content


def _with_neighbours(file: Path) -> list[Path]:
    packages = [folder.parent for folder in file.parent.glob("*/__init__.py")]
    return [file, *file.parent.glob("*.py"), *(found for package in packages for found in package.rglob("*.py"))]


def unloaded(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files that are not here into a folder, from which they are read from now on."""
    for name, content in files.items():
        if is_file(name):
            continue
        place = folder / os.path.normpath(name).lstrip("/")  # all under their paths: neighbours stay neighbours
        _disk.make_directory(place.parent)
        place.write_bytes(content)
        is_now_at(Path(name), place)
