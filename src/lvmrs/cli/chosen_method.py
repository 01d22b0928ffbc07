"""From the words of a command line to a method of certifying."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from lvmrs._util.user_code import called
from lvmrs.cli import parsing
from lvmrs.cli.own_parts import OWN, known_name, own, whole_class
from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel.method import Method
from lvmrs.planners import settings as method_settings
from lvmrs.registry import BOUNDS, FORMS, MAPS

__all__ = ["chosen_method"]

_READERS: dict[str, Callable[[Any], Any]] = {
    "bound": partial(known_name, BOUNDS),
    "map": partial(known_name, MAPS),
    "form": partial(known_name, FORMS),
    "width": parsing.width,
}


def chosen_method(method: str | None, **choices: Any) -> Method | None:
    """The method with these choices; None if the user chose nothing. Choices that are not of duels are of ``lvm``.

    ``python:MODULE:NAME`` names a class of the user's own, or a function that makes such an object.
    """
    given = [name for name, word in choices.items() if word is not None]
    if method is None and not given:
        return None
    if method is None:
        method = "duels" if given == ["width"] else "lvm"
    choices = {name: _READERS[name](word) if name in _READERS else word for name, word in choices.items()}
    if not method.startswith(OWN):
        return method_settings.method(method, **choices)
    named = own(method)
    if isinstance(named, type):
        whole = whole_class(method, named, Method, "Planner", "lvmrs.planners")
        named = partial(method_settings.method, whole, **choices)
    elif given:
        raise InvalidArgumentError(f"{given[0]} cannot be chosen with method {method}; choose it in that function")
    made = called(method, named, error=InvalidArgumentError) if callable(named) else named
    if not isinstance(made, Method):
        raise InvalidArgumentError(f"{method} is {type(made).__name__}, not a planner; see lvmrs.planners")
    return made
