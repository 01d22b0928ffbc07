"""Comparison of two records field by field, by the rule that each field states in its metadata.

The rule of a field is ``metadata["compared"]``: "never" for a note for readers, "to nine digits" for numbers whose last
digits depend on the machine, "values" for a table whose keys do not matter. A field without a rule is always compared.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from lvmrs.runs.records import plain

__all__ = ["differences"]


def differences(one: Any, other: Any) -> list[str]:
    """The fields that decide rows and that differ, in words: first the value of ``one``, then that of ``other``."""
    return [
        f"{name}: {_text(mine)}, now {_text(theirs)}" for name, mine, theirs in _compared(one, other) if mine != theirs
    ]


def _compared(one: Any, other: Any, of: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The fields that decide rows: their names, and the values in both records."""
    for entry in dataclasses.fields(one):
        mine, theirs = getattr(one, entry.name), getattr(other, entry.name)
        rule = entry.metadata.get("compared", "always")
        if rule == "never":
            continue
        if rule == "values":
            mine, theirs = sorted(set(mine.values())), sorted(set(theirs.values()))
        if rule == "to nine digits":
            mine, theirs = _to_nine_digits(mine), _to_nine_digits(theirs)
        if dataclasses.is_dataclass(mine) and dataclasses.is_dataclass(theirs):
            yield from _compared(mine, theirs, "" if entry.name in ("terms", "selection") else f"{of}{entry.name} ")
        else:
            yield f"{of}{entry.name}".replace("_", " "), mine, theirs


def _to_nine_digits(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [_to_nine_digits(part) for part in value]
    return {key: _to_nine_digits(part) for key, part in value.items()} if isinstance(value, dict) else value


def _text(value: object) -> str:
    shown = plain(value) if dataclasses.is_dataclass(value) else value
    text = json.dumps(shown, ensure_ascii=False)
    return text if len(text) <= 70 else f"{text[:67]}…"
