"""Settings of an object, for records: everything that it was made with, as values that JSON can hold."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import pickle
from collections.abc import Mapping
from typing import Any

from lvmrs.errors import InvalidArgumentError

__all__ = ["attributes", "recorded"]


def attributes(chosen: object) -> dict[str, Any]:
    """The fields of a dataclass, and the attributes of what is no dataclass or merely derived from one."""
    cls = type(chosen)
    found = {field.name: getattr(chosen, field.name) for field in _fields(chosen)}
    if "__dataclass_params__" not in vars(cls):
        slots = [name for base in cls.__mro__ for name in _words(vars(base).get("__slots__", ()))]
        found |= {name: getattr(chosen, name) for name in slots if hasattr(chosen, name)}
        found |= getattr(chosen, "__dict__", {})
    return found


def recorded(name: str, value: object) -> Any:
    """A value as JSON can hold it; ``name`` is for the sentence in which it is refused.

    What JSON does not know is replaced by its type with its own settings, or by a hash of its pickle, so that another
    value is noticed.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidArgumentError(f"{name} is {value}, which a manifest cannot hold; make it a finite number")
        return value
    if isinstance(value, (list, tuple)):
        return [recorded(name, part) for part in value]
    if isinstance(value, (set, frozenset)):
        return {"type": "set", "values": sorted(map(repr, value))}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: recorded(name, part) for key, part in value.items()}
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
