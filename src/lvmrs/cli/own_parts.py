"""Parts of a certificate by the names that a user typed: ours, or ``python:MODULE:NAME`` for code of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lvmrs._util.user_code import called, imported
from lvmrs.errors import InvalidArgumentError
from lvmrs.registry import NOISES, Names

if TYPE_CHECKING:
    from lvmrs.kernel.noise import Noise

__all__ = ["OWN", "known_name", "noise", "own", "whole_class"]

OWN = "python:"


def own(word: str) -> Any:
    """The object that ``python:MODULE:NAME`` names."""
    return imported(word, word.removeprefix(OWN), error=InvalidArgumentError)


def whole_class(word: str, named: object, base: type, kind: str, home: str) -> type:
    """A class of the user's own that can be used; refused if it is none of that kind, or not written to its end."""
    if not isinstance(named, type) or not issubclass(named, base):
        raise InvalidArgumentError(f"{word} is not a class derived from {kind}; see {home}")
    if missing := sorted(getattr(named, "__abstractmethods__", ())):
        raise InvalidArgumentError(f"{word} has no method {missing[0]}; write it: see {home}")
    return named


def known_name(names: Names, word: str | None) -> str | None:
    """A name of the table; a class of the user's own is added to it first. None stays None."""
    if word is None:
        return None
    if word.startswith(OWN):
        name: str = names.add(own(word)).name
        return name
    names.find(word, argument=names.kind)
    return word


def noise(word: str) -> Noise:
    """The noise of that name."""
    from lvmrs.registry import noise_named

    if not word.startswith(OWN):
        return noise_named(word)
    made: Noise = called(word, NOISES.find(known_name(NOISES, word), argument="noise"), error=InvalidArgumentError)
    return made
