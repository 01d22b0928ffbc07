"""The text of a field of a result file, and the number that it stands for."""

from __future__ import annotations

import functools
import math

__all__ = ["UNKNOWN", "found", "measured"]

UNKNOWN = "-"
"""The text of a field whose value is not known."""


@functools.cache
def measured(field: str) -> float:
    """A whole number; NaN where it is not known. A ValueError is for any other text."""
    return math.nan if field == UNKNOWN else int(_plain(field))


def found(field: str) -> float:
    """A finite number; NaN where it is not known. A ValueError is for any other text."""
    number = math.nan if field == UNKNOWN else float(_plain(field))
    if field != UNKNOWN and not math.isfinite(number):
        raise ValueError(field)
    return number


def _plain(field: str) -> str:
    """The text of a number, without what only Python takes for one: digits of other scripts, and underscores."""
    if not field.isascii() or "_" in field:
        raise ValueError(field)
    return field
