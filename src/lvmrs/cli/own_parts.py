"""Parts of a certificate by the names that a user typed: ours, or ``python:MODULE:NAME`` for code of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lvmrs._user_code import imported
from lvmrs.errors import InvalidArgumentError
from lvmrs.registry import NOISES, Names

if TYPE_CHECKING:
    from lvmrs.noise import Noise

__all__ = ["OWN", "known_name", "noise"]

OWN = "python:"


def known_name(names: Names, word: str | None) -> str | None:
    """A name of the table; a class of the user's own is added to it first. None stays None."""
    if word is None or not word.startswith(OWN):
        return word
    part = names.add(imported(word, word.removeprefix(OWN), error=InvalidArgumentError))
    name: str = part.name
    return name


def noise(word: str) -> Noise:
    """The noise of that name."""
    made: Noise = NOISES.find(known_name(NOISES, word), argument="noise")()
    return made
