"""A good call of a public function."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Public"]


class Public(NamedTuple):
    """A function, good arguments made from the world, and the kind of each argument that is tried."""

    function: Callable[..., Any]
    good: Callable[[Path], dict[str, Any]]
    kinds: dict[str, str]
    good_too: frozenset[tuple[str, str]] = frozenset()
    """Values of a kind that this function may take: (argument, label)."""
