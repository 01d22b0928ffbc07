"""Methods by name: a method from a name and settings, as the command line has them, and settings for a manifest."""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
from collections.abc import Mapping
from typing import Any

from lvmrs._user_code import code_hash
from lvmrs.errors import InvalidArgumentError
from lvmrs.method import Method
from lvmrs.registry import MAPS, METHODS, PARTS

__all__ = ["made_again", "method", "own_code", "settings"]


def method(name: str | type[Method], **choices: Any) -> Method:
    """Make a method by name.

    Args:
        name: a name of ``lvmrs.registry.METHODS``, or your own class.
        choices: settings of the method (``bound``, ``map``, …); those that are None are left out. A setting with
            several values (``maps``) can be given one value under its singular (``map``).

    Returns:
        The method.

    >>> method("lvm", map="softmax").maps
    ('softmax',)
    """
    maker, chosen = (METHODS.find(name), METHODS.settings(name)) if isinstance(name, str) else (name, {})
    name = name if isinstance(name, str) else name.__name__
    fields = {field.name: field for field in dataclasses.fields(maker)} if dataclasses.is_dataclass(maker) else {}
    for choice, value in choices.items():
        if value is None:
            continue
        if choice in fields:
            chosen[choice] = value
        elif f"{choice}s" in fields:  # a search over one value
            chosen[f"{choice}s"] = (value,)
        else:
            raise InvalidArgumentError(f"{choice} cannot be chosen with method {name}; leave it out")
    for field in fields.values():
        if field.name not in chosen and field.default is field.default_factory is dataclasses.MISSING:
            known = f": {', '.join(MAPS.having('simplex'))}" if field.name == "map" else ""
            raise InvalidArgumentError(f"{field.name} must be given with method {name}{known}")
    made: Method = maker(**chosen)
    return made


def settings(chosen: Method) -> dict[str, Any]:
    """All settings of a method, as values that JSON can hold, for a manifest.

    They are its fields, or its attributes if its class is no dataclass. A value that JSON cannot hold is replaced by a
    hash of its pickle, so that a changed setting is noticed.

    >>> settings(method("fixed", map="softmax"))["temperature"]
    1.0
    """
    fields = dataclasses.asdict(chosen) if dataclasses.is_dataclass(chosen) else dict(vars(chosen))
    return {name: _plain(f"{type(chosen).__name__}.{name}", value) for name, value in fields.items()}


def _plain(name: str, value: object) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(name, part) for part in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(name, part) for key, part in value.items()}
    try:
        digest = hashlib.sha256(pickle.dumps(value)).hexdigest()
    except Exception as error:
        kind = type(value).__name__
        raise InvalidArgumentError(
            f"{name} is a {kind}, which a manifest cannot hold; make it a number, a text or a list of them"
        ) from error
    return {"type": type(value).__qualname__, "sha256 of its pickle": digest}


def own_code(chosen: Method, *parts: object) -> dict[str, str]:
    """Hashes of the files of the user's own classes: of the method, of ``parts``, and of all registered parts."""
    registered = (part for names in PARTS for part in names.added)
    found = {part.__name__: code_hash(part) for part in (type(chosen), *map(type, parts), *registered)}
    return {name: known for name, known in found.items() if known is not None}


def made_again(name: str, stored: Mapping[str, Any]) -> Method:
    """Make the method of lvmrs that a manifest describes.

    Args:
        name: the name of its class.
        stored: its settings, as ``settings`` gave them.
    """
    maker = next((maker for maker in map(METHODS.find, METHODS) if maker.__name__ == name), None)
    if maker is None:
        raise InvalidArgumentError(f"method {name} does not come with lvmrs; choose a method")
    known = {field.name for field in dataclasses.fields(maker)}
    if odd := sorted(set(stored) - known):
        raise InvalidArgumentError(f"method {name} has no setting {odd[0]}; choose a method")
    made: Method = maker(**{key: tuple(value) if isinstance(value, list) else value for key, value in stored.items()})
    return made
