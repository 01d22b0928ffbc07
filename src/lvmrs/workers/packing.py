"""Packing of objects for another process, which must import the user's own code before it can unpickle them."""

from __future__ import annotations

import io
import pickle
from types import FunctionType
from typing import Any, NamedTuple

from lvmrs._user_code import Origin, import_again, origin_of
from lvmrs.errors import ModelError
from lvmrs.registry import PARTS

__all__ = ["Packed", "packed", "unpacked"]


class Packed(NamedTuple):
    """Packed objects, and the modules that are needed before they can be unpickled."""

    modules: tuple[Origin, ...]
    """The modules of the user that the objects are from."""
    content: bytes
    """A pickle of the parts that were added to the registry, and of the objects."""


def packed(content: object) -> Packed:
    """Pack anything that can be pickled."""
    out = io.BytesIO()
    pickler = _Noting(out)
    pickler.dump(([names.added for names in PARTS], content))
    return Packed(tuple(pickler.origins), out.getvalue())


class _Noting(pickle.Pickler):
    """Notes from which modules of the user the pickled classes and functions are."""

    def __init__(self, out: io.BytesIO) -> None:
        super().__init__(out)
        self.origins: dict[Origin, None] = {}

    def persistent_id(self, value: object) -> None:
        """Called for each object; it has no id of ours, and is pickled as it is."""
        if isinstance(value, (type, FunctionType)) and (origin := origin_of(value.__module__)) is not None:
            self.origins[origin] = None


def unpacked(given: Packed) -> Any:
    """Import the user's modules, register their parts, and give the object that was packed."""
    import_again(given.modules, error=ModelError)
    added, content = pickle.loads(given.content)  # noqa: S301 (it comes from a pickle that was trusted already)
    for names, parts in zip(PARTS, added, strict=True):
        for part in parts:
            names.add(part)
    return content
