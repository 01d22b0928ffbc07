"""Conversion of manifests of format 2, which version 0.3 wrote, to the present format."""

from __future__ import annotations

from typing import Any

from lvmrs.errors import RunError

__all__ = ["FORMAT", "migrated"]

FORMAT = 2
# What the records of the present format have and those of format 2 have not, with what it was then.
_ADDED: dict[str, dict[str, Any]] = {"terms": {"dimensions": None, "rounding": None}}


def migrated(stored: dict[str, Any], where: str) -> dict[str, Any]:
    """Add the fields that format 2 does not have; ``read_record`` then checks all fields."""
    found = dict(stored)
    for record, added in _ADDED.items():
        if not isinstance(given := found.get(record), dict):
            continue  # it is refused as it is
        if odd := sorted(set(given) & set(added)):
            raise RunError(f"{where} is damaged: {odd[0]} is not known in format {FORMAT}")
        found[record] = given | added
    return found
