"""Settings of objects (construction and JSON values), and source names such as ``onnx:net.onnx``."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import math
import os
import pickle
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lvmrs._util.files import expanded, is_file, is_folder, no_file, redirected
from lvmrs.errors import InvalidArgumentError, LvmrsError, shown
from lvmrs.registry import Names

Made = TypeVar("Made")
_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def attributes(chosen: object) -> dict[str, Any]:
    """The fields of a dataclass instance, or all attributes of an object of another class."""
    cls = type(chosen)
    fields = dataclasses.fields(chosen) if dataclasses.is_dataclass(chosen) else ()
    found = {field.name: getattr(chosen, field.name) for field in fields}
    if "__dataclass_params__" not in vars(cls):
        slots = [name for base in cls.__mro__ for name in _words(vars(base).get("__slots__", ()))]
        found |= {name: getattr(chosen, name) for name in slots if hasattr(chosen, name)}
        found |= getattr(chosen, "__dict__", {})
    return found


def made(maker: Callable[..., Made], what: str, choices: Mapping[str, Any], hints: Mapping[str, str]) -> Made:
    """Make an object from its settings. Raises InvalidArgumentError for unknown or missing settings.

    Args:
        maker: the class of the object. Its optional attribute ``settled`` explains why it lacks some settings.
        what: the name of the object in error messages, such as ``method lvm``.
        choices: settings by name; None means not given. A setting with several values (``maps``) also accepts one value
            under the singular name (``map``).
        hints: advice for a missing setting, by its name.
    """
    known = inspect.signature(maker).parameters
    given: dict[str, Any] = {}
    for name, value in choices.items():
        if value is None:
            continue
        if name in known:
            given[name] = value
        elif f"{name}s" in known:  # a search over one value
            given[f"{name}s"] = (value,)
        else:
            reason = getattr(maker, "settled", {}).get(name)
            why = "" if reason is None else f": {reason}"
            raise InvalidArgumentError(f"{name} is not a setting of {what}{why}; leave it out")
    for name, parameter in known.items():
        if name not in given and parameter.default is parameter.empty and parameter.kind not in _OPEN:
            remedy = hints.get(name, "give it, or give the class a default")
            raise InvalidArgumentError(f"{what} needs {name}; {remedy}")
    return maker(**given)


def as_json(value: object, replaced: Callable[[object], Any]) -> Any:
    """Convert a value to JSON types; calls ``replaced`` for each part that JSON cannot represent."""
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, (list, tuple)):
        return [as_json(part, replaced) for part in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: as_json(part, replaced) for key, part in value.items()}
    return replaced(value)


def recorded(name: str, value: object) -> Any:
    """Convert a setting to JSON types for a manifest; ``name`` is for error messages.

    An object that JSON cannot represent becomes its type with its own settings, or with a hash of its pickle, so that a
    changed value is detected.
    """
    return as_json(value, partial(_replaced, name))


def _replaced(name: str, value: object) -> Any:
    if isinstance(value, float):
        raise InvalidArgumentError(f"{name} is {value}, which a manifest cannot hold; make it a finite number")
    if isinstance(value, (set, frozenset)):
        return {"type": "set", "values": sorted(map(repr, value))}
    if isinstance(value, type):
        return {"type": "class", "name": f"{value.__module__}.{value.__qualname__}"}
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if dataclasses.is_dataclass(value):
        return {"type": kind, **{key: recorded(f"{name}.{key}", part) for key, part in attributes(value).items()}}
    try:
        digest = hashlib.sha256(pickle.dumps(value)).hexdigest()
    except Exception as error:
        raise InvalidArgumentError(
            f"{name} is a {type(value).__name__}, which a manifest cannot hold; make it a number, a text or a list of "
            "them"
        ) from error
    return {"type": kind, "sha256 of its pickle": digest}


def is_word(split: object) -> bool:
    """Whether this is the name of a split: it may come from a manifest, and becomes a part of a path."""
    return isinstance(split, str) and split not in ("", ".", "..") and not set(split) & set("/\\\0")


def _words(names: object) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)  # type: ignore[arg-type]


# The sources of files that are named without one.
_SUFFIXES = {
    ".onnx": "onnx",
    ".pt2": "export",
    ".safetensors": "trained",
    ".npz": "npz",
    ".npy": "npy",
    ".png": "images",
    ".jpg": "images",
    ".jpeg": "images",
}


def parse_name(names: Names, name: str, directory: Path, *, error: type[LvmrsError]) -> tuple[str, str]:
    """Split a name such as ``onnx:net.onnx`` into its source and the text after the colon, with paths made absolute.

    Raises ``error`` for a source that is not in ``names``, or a missing file. ``directory`` is the base of relative
    paths.
    """
    if not isinstance(name, str):
        raise error(f"a {names.kind} must be given by its name, one of {names.listed}, got {shown(name)}")
    source, _, rest = name.partition(":")
    if source not in names:
        similar = get_close_matches(source, (each for each in names if names.written(each) != each), n=1)
        suffix = _SUFFIXES.get(Path(name).suffix.lower())
        fix = f"did you mean {suffix}:{name}?" if suffix in names else f"write one of {names.listed}"
        if "images" in names and is_folder(absolute(name, directory)):
            fix = f"did you mean images:{name}, or imagefolder:{name} with a folder for each class?"
        if "export" in names and Path(name).suffix.lower() in (".pt", ".pth"):
            fix = (
                f"give a network with {name} as its weights, such as ready:NAME or python:MODULE:FUNCTION; for a "
                "program, export:FILE.pt2 or onnx:FILE"
            )
        if rest and similar:
            fix = f"did you mean {similar[0]}:{rest}?"
        raise error(f"{name}: no {names.kind} of that name; {fix}")
    written = names.written(source)
    if rest and written == source:
        raise error(f"{name}: {source} takes no path; write just {source}")
    if not rest and written != source:
        raise error(f"{name}: a name is missing after the colon; write {written}")
    if source in names.having("members"):
        _check_members(names, name, directory, error)
        return source, rest
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


def member_names(names: Names, name: str) -> list[str]:
    """The names of the members of an ensemble; the name alone for other sources."""
    source, _, rest = name.partition(":")
    return rest.split("+") if source in names.having("members") else [name]


def _check_members(names: Names, name: str, directory: Path, error: type[LvmrsError]) -> None:
    members = member_names(names, name)
    if len(members) < 2:
        raise error(f"{name}: an ensemble has at least two members; write them with + between them")
    for number, member in enumerate(members, start=1):
        if not member:
            raise error(f"{name}: the name of member {number} is empty; write one model between two +")
        if member.partition(":")[0] in names.having("members"):
            raise error(f"{name}: member {number} is an ensemble itself; name all members in one ensemble")
        parse_name(names, member, directory, error=error)


def check_folder(name: str, folder: str | Path, *, error: type[LvmrsError]) -> None:
    """Raise if a folder or its subfolders contain a pipe or a device, before a library reads all files in the folder.

    ``name`` is what the user typed, for error messages. A path that is not a folder is accepted.
    """
    for place, _, files in os.walk(folder):
        for path in (Path(place, file) for file in files):
            if not is_file(path) and path.exists():  # the library reports broken links
                raise error(f"{name}: {path} {no_file(path)}; remove it")


def absolute(path: str | Path, directory: Path) -> Path:
    """An absolute path on this machine; ``directory`` is the base of relative paths."""
    return redirected(directory / expanded(path))


def files_of(names: Names, name: str, directory: Path) -> list[Path]:
    """The file that a name refers to, as given and with links resolved; empty if the name refers to no file.

    An ensemble refers to the files of its members. The arguments are those of ``parse_name``.
    """
    files = list[Path]()
    for member in member_names(names, name):
        source, _, rest = member.partition(":")
        found = absolute(rest.rpartition(":")[0] if source in names.having("code") else rest, directory)
        files += [found, found.resolve()] if is_file(found) else []
    return files
