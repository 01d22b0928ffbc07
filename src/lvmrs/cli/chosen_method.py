"""From the words of a command line to a method; what a user typed may name code of theirs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import isabstract
from typing import Any

from lvmrs import method_settings
from lvmrs._python import called, imported
from lvmrs.cli import parsing
from lvmrs.errors import InvalidArgumentError
from lvmrs.method import Method
from lvmrs.registry import BOUNDS, MAPS, Names

__all__ = ["chosen_method"]

_OWN = "python:"


def chosen_method(method: str | None, **choices: Any) -> Method | None:
    """The method with these choices; None if the user chose nothing. Choices that are not of duels are of ``lvm``.

    ``python:MODULE:NAME`` names a planner, map or bound of the user's own.
    """
    given = [name for name, word in choices.items() if word is not None]
    if method is None and not given:
        return None
    if method is None:
        method = "duels" if given == ["width"] else "lvm"
    readers: dict[str, Callable[[Any], Any]] = {
        "bound": partial(_known, BOUNDS),
        "map": partial(_known, MAPS),
        "width": parsing.width,
    }
    choices = {name: readers[name](word) if name in readers else word for name, word in choices.items()}
    if not method.startswith(_OWN):
        return method_settings.method(method, **choices)
    own = imported(method, method.removeprefix(_OWN), error=InvalidArgumentError)
    if not isinstance(own, type) or not issubclass(own, Method):
        raise InvalidArgumentError(f"{method} is not a class derived from Planner; see lvmrs.planners")
    if isabstract(own):
        raise InvalidArgumentError(f"{method} has no method choose; write it: see lvmrs.planners")
    made: Method = called(method, partial(method_settings.method, own, **choices), error=InvalidArgumentError)
    return made


def _known(names: Names, word: str | None) -> str | None:
    if word is None or not word.startswith(_OWN):
        return word
    part = names.add(imported(word, word.removeprefix(_OWN), error=InvalidArgumentError))
    name: str = part.name
    return name
