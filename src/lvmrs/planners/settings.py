"""Methods by name: a method from a name and settings, as the command line has them, and settings for a manifest."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lvmrs._util.settings import attributes, made, recorded
from lvmrs._util.user_code import code_hash
from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks
from lvmrs.kernel.method import Method
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
    maker, fixed = (name, {}) if isinstance(name, type) else (METHODS.find(name), METHODS.settings(name))
    shown = name.__name__ if isinstance(name, type) else name
    hints = {"map": f"give one of {', '.join(MAPS.having('simplex'))}"}
    given = {key: value for key, value in choices.items() if value is not None}
    chosen: Method = made(maker, f"method {shown}", {**fixed, **given}, hints)
    return chosen


def settings(chosen: Method) -> dict[str, Any]:
    """All settings of a method, as values that JSON can hold, for a manifest.

    They are its fields, or its attributes if its class is not a dataclass. A value that JSON cannot hold is replaced by
    a hash of its pickle, so that a changed setting is noticed.

    >>> settings(method("fixed", map="softmax"))["temperature"]
    1.0
    """
    return {name: recorded(f"{type(chosen).__name__}.{name}", value) for name, value in attributes(chosen).items()}


def own_code(chosen: Method, *parts: object) -> dict[str, str]:
    """Hashes of the files of the user's own classes that take part, by the names of the classes.

    These are the method, the ``parts`` and their base classes; and the registered parts that the settings of the
    method name, or all of them if the method is the user's own and may use any.
    """
    named = set(_words(settings(chosen)))
    registered = [
        part for names in PARTS for part in names.added if code_hash(type(chosen)) or getattr(part, "name", "") in named
    ]
    given = [base for part in (chosen, *parts) for base in type(part).__mro__]
    found = {f"{part.__module__}.{part.__qualname__}": _hash(part) for part in (*given, *registered)}
    return {name: known for name, known in found.items() if known is not None}


def _hash(part: type) -> str | None:
    """None for classes of lvmrs and of Python itself."""
    return None if part.__module__ in ("abc", "builtins", "typing") else code_hash(part)


def _words(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _words(part)
    elif isinstance(value, list):
        for part in value:
            yield from _words(part)


def made_again(name: str, stored: Mapping[str, Any], own_code: Iterable[str] = ()) -> Method:
    """Make the method of lvmrs that a manifest describes.

    Args:
        name: the name of its class.
        stored: its settings, as ``settings`` gave them.
        own_code: the user's own classes that took part, which a manifest must not name to be run.
    """
    checks.text("name", name)
    checks.instance("stored", stored, Mapping, "the settings of a method, by name")
    maker = next((maker for maker in map(METHODS.find, METHODS) if maker.__name__ == name), None)
    if maker is None or any(own.rpartition(".")[2] == name for own in own_code):
        raise InvalidArgumentError(f"method {name} does not come with lvmrs; choose a method")
    known = {field.name for field in dataclasses.fields(maker)}
    if odd := sorted(set(stored) - known):
        raise InvalidArgumentError(f"method {name} has no setting {odd[0]}; choose a method")
    again: Method = maker(**{key: tuple(value) if isinstance(value, list) else value for key, value in stored.items()})
    return again
