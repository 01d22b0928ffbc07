"""Packing of objects for another process, which must import the user's own code before it can unpickle them."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

from lvmrs._user_code import import_again, imported_so_far
from lvmrs.errors import ModelError
from lvmrs.registry import PARTS

__all__ = ["Packed", "packed", "unpacked"]


class Packed(NamedTuple):
    """Packed objects, and the modules that are needed before they can be unpickled."""

    modules: tuple[tuple[str, str], ...]
    """The modules of the user that were imported."""
    content: bytes
    """A pickle of the parts that were added to the registry, and of the objects."""


def packed(content: object) -> Packed:
    """Pack anything that can be pickled."""
    return Packed(imported_so_far(), pickle.dumps(([names.added for names in PARTS], content)))


def unpacked(given: Packed) -> Any:
    """Import the user's modules, register their parts, and give the object that was packed."""
    import_again(given.modules, error=ModelError)
    added, content = pickle.loads(given.content)  # noqa: S301 (it comes from a pickle that was trusted already)
    for names, parts in zip(PARTS, added, strict=True):
        for part in parts:
            names.add(part)
    return content
