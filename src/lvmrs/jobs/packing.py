"""Objects that may be of the user's own code, packed for a process that knows nothing of that code yet."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

from lvmrs._user_code import import_again, imported_so_far
from lvmrs.errors import ModelError
from lvmrs.registry import PARTS

__all__ = ["Packed", "packed", "unpacked"]


class Packed(NamedTuple):
    """What is needed first, and then the objects themselves."""

    modules: tuple[tuple[str, str], ...]
    """The modules that were imported for the user."""
    content: bytes
    """A pickle of the parts that were added to the registry, and of the objects."""


def packed(content: object) -> Packed:
    """Pack anything that can be pickled."""
    return Packed(imported_so_far(), pickle.dumps(([names.added for names in PARTS], content)))


def unpacked(given: Packed) -> Any:
    """What was packed, once the user's modules are imported and their parts are registered here."""
    import_again(given.modules, error=ModelError)
    added, content = pickle.loads(given.content)  # noqa: S301 (it comes from a pickle that was opened already)
    for names, parts in zip(PARTS, added, strict=True):
        for part in parts:
            names.add(part)
    return content
