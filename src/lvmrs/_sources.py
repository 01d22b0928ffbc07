"""Names of sources, such as ``onnx:net.onnx``: the source is in the registry, and the rest is what it is asked for."""

from __future__ import annotations

import os
from pathlib import Path

from lvmrs._paths import expanded, is_file, is_folder, no_file, where
from lvmrs.errors import LvmrsError, shown
from lvmrs.registry import Names

__all__ = ["absolute", "check_folder", "files_of", "taken_apart"]


def taken_apart(names: Names, name: str, directory: Path, *, error: type[LvmrsError]) -> tuple[str, str]:
    """Take a name apart, and refuse a source that is not known.

    Args:
        names: the sources that are known.
        name: such as ``onnx:net.onnx``.
        directory: where relative paths begin.
        error: what is raised.

    Returns:
        The source, and what follows the colon, with paths made absolute.

    """
    if not isinstance(name, str):
        raise error(f"a {names.kind} must be given by its name, one of {names.listed}, got {shown(name)}")
    source, _, rest = name.partition(":")
    if source not in names:
        raise error(f"{name}: no {names.kind} of that name; write one of {names.listed}")
    written = names.written(source)
    if rest and written == source:
        raise error(f"{name}: {source} takes no path; write just {source}")
    if not rest and written != source:
        raise error(f"{name}: a name is missing after the colon; write {written}")
    if source in names.having("code"):
        module, colon, attribute = rest.rpartition(":")
        return source, f"{absolute(module, directory)}{colon}{attribute}" if module.endswith(".py") else rest
    if source in names.having("file"):
        path = absolute(rest, directory)
        if not is_file(path):
            raise error(f"{name}: {rest if directory == Path.cwd() else path} {no_file(path)}")
        return source, str(path)
    if source in names.having("path") and (is_file(path := absolute(rest, directory)) or is_folder(path)):
        return source, str(path)
    return source, rest


def check_folder(name: str, folder: str | Path, *, error: type[LvmrsError]) -> None:
    """Refuse a pipe or a device in a folder, or in a folder within it, before a library reads all that it finds there.

    Args:
        name: the whole name that the user typed, for errors.
        folder: the folder; anything else is not looked at.
        error: what is raised.
    """
    for place, _, files in os.walk(folder):
        for path in (Path(place, file) for file in files):
            if not is_file(path) and path.exists():  # a link to nothing is for the library to tell
                raise error(f"{name}: {path} {no_file(path)}; remove it")


def absolute(path: str | Path, directory: Path) -> Path:
    """A path that holds in any working directory."""
    return where(directory / expanded(path))


def files_of(names: Names, name: str, directory: Path) -> list[Path]:
    """The files that loading a name reads, as far as the name says which they are; folders are left out.

    The arguments are those of ``taken_apart``.
    """
    source, _, rest = name.partition(":")
    found = absolute(rest.rpartition(":")[0] if source in names.having("code") else rest, directory)
    return [found, found.resolve()] if is_file(found) else []
