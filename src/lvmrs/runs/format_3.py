"""Conversion of manifests of format 3, which had a batch size and not how the model is run besides."""

from __future__ import annotations

from typing import Any

__all__ = ["FORMAT", "migrated"]

FORMAT = 3
# How models ran before there was a choice.
_AS_IT_IS = {"folded": False, "channels_last": False, "compiled": False}


def migrated(stored: dict[str, Any]) -> dict[str, Any]:
    """Put the batch size into the record of how the model is run; ``read_record`` then checks all fields."""
    if "batch" not in stored:
        return stored  # it is refused as it is
    found = dict(stored)
    batch = found.pop("batch")
    return found | {"running": None if batch is None else {"batch": batch, **_AS_IT_IS}}
