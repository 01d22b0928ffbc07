"""A method from its name and settings, and back: as the command line and manifests write them."""

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
    """A method by name.

    Args:
        name: a name of ``lvmrs.registry.METHODS``, or a class of yours.
        choices: settings of the method (``bound``, ``map``, …); what is None is left out. A setting that is searched
            over (``maps``) takes one value under its singular (``map``).

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
        elif f"{choice}s" in fields:  # a search over one alone
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
    """All settings of a method, for a manifest: its fields or, of a class that is no dataclass, its attributes.

    What JSON does not know is written as a hash of its pickle, so that a changed setting is seen.
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
            f"{name} is a {kind}, which cannot be written down in a manifest; make it numbers, words or lists of them"
        ) from error
    return {"type": type(value).__qualname__, "sha256 of its pickle": digest}


def own_code(chosen: Method, *parts: object) -> dict[str, str]:
    """Hashes of the files of the user's own classes that take part: method, parts, and what was registered."""
    registered = (part for names in PARTS for part in names.added)
    found = {part.__name__: code_hash(part) for part in (type(chosen), *map(type, parts), *registered)}
    return {name: known for name, known in found.items() if known is not None}


def made_again(name: str, stored: Mapping[str, Any]) -> Method:
    """The method of lvmrs with this class name and these settings, as a manifest has them."""
    maker = next((maker for maker in map(METHODS.find, METHODS) if maker.__name__ == name), None)
    if maker is None:
        raise InvalidArgumentError(f"method {name} is not one of lvmrs; choose a method")
    known = {field.name for field in dataclasses.fields(maker)}
    if odd := sorted(set(stored) - known):
        raise InvalidArgumentError(f"method {name} has no setting {odd[0]}; choose a method")
    made: Method = maker(**{key: tuple(value) if isinstance(value, list) else value for key, value in stored.items()})
    return made
