"""Reading of typed records from JSON. Each field is checked against its type, and errors name the field."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import sys
import types
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from lvmrs.errors import LvmrsError, RunError

__all__ = ["parsed", "plain", "read_record"]

Record = TypeVar("Record")
_types_of = functools.cache(get_type_hints)


def parsed(text: str) -> Any:
    """What a JSON text holds; a ValueError or RecursionError says why it is damaged.

    A field that occurs twice is refused, and so is half a character, which cannot be written.
    """
    stored = json.loads(text, object_pairs_hook=_each_once)
    json.dumps(stored, ensure_ascii=False).encode()
    return stored


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)} occurs twice")
    return found


def read_record(kind: type[Record], stored: object, where: str) -> Record:
    """Make a record from a JSON object.

    Args:
        kind: a dataclass whose fields are plain values, lists, dicts with texts as keys, or dataclasses of this kind.
        stored: the JSON object.
        where: what is being read, for errors.

    Returns:
        An object of that class. Every field must be there, and an unknown field is refused.

    >>> from lvmrs.runs.manifest import DenoiserRecord
    >>> read_record(DenoiserRecord, {"name": "trained:d", "weights_hash": None}, "denoiser").name
    'trained:d'
    """
    if not isinstance(stored, dict):
        raise RunError(f"{where} is damaged: expected an object, got {stored!r:.40}")
    fields = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    if odd := sorted(map(str, set(stored) - set(fields))):
        raise RunError(f"{where} is damaged: {odd[0]} is not known to this version of lvmrs")
    if missing := [name for name in fields if name not in stored]:
        raise RunError(f"{where} is damaged: {missing[0]} is missing")
    hints = _types_of(kind)  # type: ignore[arg-type]
    values = {name: _value(hints[name], value, f"{where}, {name},") for name, value in stored.items()}
    try:
        return kind(**values)
    except LvmrsError as error:
        raise RunError(f"{where} is damaged: {error}") from error


def plain(record: object) -> dict[str, Any]:
    """The JSON object that ``read_record`` reads."""
    return dataclasses.asdict(record)  # type: ignore[call-overload, no-any-return]


def _value(hint: Any, value: object, where: str) -> Any:
    """Convert a value to its type: objects become records, and whole numbers become floats if the type is float."""
    for choice in get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,):
        if dataclasses.is_dataclass(choice) and isinstance(value, dict):
            return read_record(choice, value, where.rstrip(","))  # type: ignore[arg-type]
        if _fits(choice, value):
            return _converted(choice, value)
    raise RunError(f"{where} is damaged: expected {_words(hint)}, got {value!r:.40}")


def _converted(hint: Any, value: Any) -> Any:
    """A value from JSON that fits its type, in that type."""
    if get_origin(hint) is tuple:
        return tuple(_converted(part, entry) for part, entry in zip(_parts(hint, value), value, strict=True))
    return float(value) if hint is float else value


def _parts(hint: Any, value: list[object]) -> tuple[Any, ...]:
    """The type of each entry of a tuple that is stored as this list."""
    parts = get_args(hint)
    return parts[:1] * len(value) if parts[-1] is Ellipsis else parts


def _fits(hint: Any, value: object) -> bool:
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return _has_only_numbers(value)
    if hint is type(None):
        return value is None
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    if hint in (int, str, bool):
        return type(value) is hint
    if origin is Literal:
        return value in parts
    if origin is list:
        return isinstance(value, list) and all(_fits(parts[0], part) for part in value)
    if origin is tuple:
        if not isinstance(value, list) or len(kinds := _parts(hint, value)) != len(value):
            return False
        return all(map(_fits, kinds, value))
    if origin is dict:
        return isinstance(value, dict) and all(
            isinstance(key, str) and _fits(parts[1], part) for key, part in value.items()
        )
    if origin in (Union, types.UnionType):
        return any(_fits(part, value) for part in parts)
    return False


def _has_only_numbers(value: object) -> bool:
    """Whether a value from JSON has no NaN and no infinity in it."""
    if isinstance(value, float):
        return math.isfinite(value)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(map(_has_only_numbers, inner))


def _words(hint: Any) -> str:
    names = {int: "a whole number", float: "a finite number", str: "a text", bool: "true or false", type(None): "null"}
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    known = {list: "a list", tuple: "a list", dict: "an object"}
    return " or ".join(
        names.get(part)
        or known.get(get_origin(part))
        or (", ".join(map(repr, get_args(part))) if get_origin(part) is Literal else "an object")
        for part in parts
    )
