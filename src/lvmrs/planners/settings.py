"""Makes methods from names and settings, as the command line gives them, and writes settings for a manifest."""

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


def method(name: str | type[Method], **choices: Any) -> Method:
    """Make a method by a name of ``lvmrs.registry.METHODS``, or from a class of the user.

    A setting of None means the default. A setting with several values (``maps``) can be given one value under its
    singular (``map``).

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
    """All settings of a method as JSON values, for a manifest.

    The settings are the fields of a dataclass, or the attributes of another class. A value without a JSON form is
    replaced by a hash of its pickle, so that a change is noticed.

    >>> settings(method("fixed", map="softmax"))["temperature"]
    1.0
    """
    return {name: recorded(f"{type(chosen).__name__}.{name}", value) for name, value in attributes(chosen).items()}


def own_code(chosen: Method, *parts: object) -> dict[str, str]:
    """Hashes of the source files of all user-defined classes in use, by class name.

    They include the method, the ``parts``, their base classes, and the registered parts named in the settings of the
    method; all registered parts if the method itself is user-defined.
    """
    is_own, named = code_hash(type(chosen)), set(_words(settings(chosen)))
    added = [part for names in PARTS for part in names.added if is_own or getattr(part, "name", "") in named]
    given = [base for part in (chosen, *parts) for base in type(part).__mro__]
    used = [part for part in (*given, *added) if part.__module__ not in ("abc", "builtins", "typing")]
    found = {f"{part.__module__}.{part.__qualname__}": code_hash(part) for part in used}
    return {name: known for name, known in found.items() if known is not None}


def _words(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _words(part)


def from_record(name: str, stored: Mapping[str, Any], own_code: Iterable[str] = ()) -> Method:
    """Make the built-in method that a manifest describes, by the name of its class and its ``settings``.

    ``own_code`` has names of user-defined classes, which must not run because a manifest names them.
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
