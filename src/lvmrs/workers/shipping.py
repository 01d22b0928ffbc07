"""Files that go with a task to machines that do not see them: code, and weights that are not large.

A machine that has a file with the same path and the same bytes uses it. All code is taken from one place: if one file
of it is missing or different, none of those that are there is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from lvmrs import _disk
from lvmrs._paths import is_file, is_now_at
from lvmrs._replacing import replacing

__all__ = ["LARGEST", "lacking", "shipped", "unloaded"]

LARGEST = 1 << 30
"""Files of more bytes than this in all stay where they are: the smallest go."""


def shipped(files: Iterable[Path], largest: int = LARGEST) -> dict[str, bytes]:
    """The content of files, by their absolute paths.

    Args:
        files: the files. A Python file goes with the modules and packages beside it, which it may import. What is no
            readable file among these stays behind.
        largest: how many bytes all of them may have.
    """
    named = set(files)
    wanted = named.union(*(_neighbours(file) for file in named if file.suffix == ".py"))
    content: dict[str, bytes] = {}
    room = largest
    for path in sorted(wanted, key=lambda path: (path.stat().st_size, path)):
        room -= path.stat().st_size
        if room < 0:
            break
        content[str(path)] = path.read_bytes()
    return content


def _neighbours(file: Path) -> list[Path]:
    """The modules and packages beside a file; links to nothing, pipes and what may not be read are none."""
    packages = [folder.parent for folder in file.parent.glob("*/__init__.py")]
    found = [*file.parent.glob("*.py"), *(found for package in packages for found in package.rglob("*.py"))]
    return [path for path in found if is_file(path) and os.access(path, os.R_OK)]


def lacking(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Those of the files that are not here with the same content; all code, if that is so for some of it."""
    other = {name for name, content in files.items() if not _is_here(name, content)}
    code = {name for name in files if name.endswith(".py")}
    return {name: content for name, content in files.items() if name in other or (other & code and name in code)}


def _is_here(name: str, content: bytes) -> bool:
    try:
        return is_file(name) and Path(name).read_bytes() == content
    except OSError:  # it may not be read
        return False


def unloaded(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files into a folder, from which they are read from now on."""
    for name, content in files.items():
        place = folder / os.path.normpath(name).lstrip("/")  # all under their paths: neighbours stay neighbours
        _disk.make_directory(place.parent)
        with replacing(place) as out:
            out.write(content)
        is_now_at(Path(name), place)
