"""Conversion of manifests of format 3, which had a batch size and not how the model is run besides, and no goals."""

from __future__ import annotations

from typing import Any

__all__ = ["FORMAT", "migrated"]

FORMAT = 3
# How models ran before there was a choice.
_AS_IT_IS = {"folded": False, "channels_last": False, "compiled": False}


def migrated(stored: dict[str, Any]) -> dict[str, Any]:
    """Put the batch size into the record of how the model is run, and say that all samples were taken.

    ``read_record`` then checks all fields.
    """
    found = dict(stored)
    if isinstance(terms := found.get("terms"), dict):
        found["terms"] = {"goal": None, **terms}
    if "batch" in found:  # else it is refused as it is
        batch = found.pop("batch")
        found["running"] = None if batch is None else {"batch": batch, **_AS_IT_IS}
    return found
