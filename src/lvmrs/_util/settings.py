"""Settings of an object: making it by them, and everything that it was made with as values that JSON can hold."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import math
import os
import pickle
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lvmrs._util.files import expanded, is_file, is_folder, no_file, where
from lvmrs.errors import InvalidArgumentError, LvmrsError, shown
from lvmrs.registry import Names

__all__ = ["absolute", "as_json", "attributes", "check_folder", "files_of", "made", "recorded", "taken_apart"]

Made = TypeVar("Made")
_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def attributes(chosen: object) -> dict[str, Any]:
    """The fields of a dataclass; all attributes of an object whose own class is not a dataclass."""
    cls = type(chosen)
    found = {field.name: getattr(chosen, field.name) for field in _fields(chosen)}
    if "__dataclass_params__" not in vars(cls):
        slots = [name for base in cls.__mro__ for name in _words(vars(base).get("__slots__", ()))]
        found |= {name: getattr(chosen, name) for name in slots if hasattr(chosen, name)}
        found |= getattr(chosen, "__dict__", {})
    return found


def made(maker: Callable[..., Made], what: str, choices: Mapping[str, Any], hints: Mapping[str, str]) -> Made:
    """Make an object by its settings; a setting that it does not have, or that is missing, is refused.

    Args:
        maker: the class of the object; its attribute ``settled``, if it has one, says why it lacks some settings.
        what: names it in the refusals, such as ``method lvm``.
        choices: settings by name; those that are None are left out. A setting with several values (``maps``) can be
            given one value under its singular (``map``).
        hints: what to do about a setting that is missing, by its name, where there is more to say than "give it".
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
    """A value as JSON can hold it; each part that JSON does not have is ``replaced``."""
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, (list, tuple)):
        return [as_json(part, replaced) for part in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: as_json(part, replaced) for key, part in value.items()}
    return replaced(value)


def recorded(name: str, value: object) -> Any:
    """A value as JSON can hold it; ``name`` is for the sentence in which it is refused.

    What JSON does not have is replaced by its type with its own settings, or by a hash of its pickle, so that another
    value is noticed.
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


def _fields(chosen: object) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(chosen) if dataclasses.is_dataclass(chosen) else ()


def _words(names: object) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------------------------------------------
# Names of sources, such as ``onnx:net.onnx``: the source is in the registry, and the rest is what it is asked for.


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
