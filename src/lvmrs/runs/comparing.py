"""Comparison of two records field by field, by the rule that each field states in its metadata.

The rule of a field is ``metadata["compared"]``: "never" for a note for readers, "to nine digits" for numbers whose last
digits depend on the machine, "values" for a table whose keys may begin with other modules. A field without a rule is
always compared.

"when verified" is for a field that decides no row and that reports state: it is compared when a run is verified ("at
least": the first record may have more; "if known": only whether there is a value). The keys of a table are then
compared too, without their modules.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator
from typing import Any

from lvmrs.runs.records import plain

__all__ = ["differences"]

# Characters of a value that are shown, and those of them before the first difference.
_LONGEST, _BEFORE = 70, 20


def differences(one: Any, other: Any, *, verifying: bool = False) -> list[str]:
    """The fields that differ, in words: first the value of ``one``, then that of ``other``.

    Args:
        one: a record.
        other: a record of the same class.
        verifying: compare all fields that reports state, and not only those that decide rows.
    """
    return [
        "{}: {}, now {}".format(name, *_texts(mine, theirs))
        for name, mine, theirs in _compared(one, other, verifying=verifying)
        if mine != theirs
    ]


def _compared(one: Any, other: Any, of: str = "", *, verifying: bool) -> Iterator[tuple[str, Any, Any]]:
    """The fields that are compared: their names, and the values in both records."""
    for entry in dataclasses.fields(one):
        mine, theirs = getattr(one, entry.name), getattr(other, entry.name)
        rule = entry.metadata.get("compared", "always")
        if not _is_compared(rule, mine, theirs, verifying=verifying):
            continue
        if rule == "values":
            mine, theirs = _values(mine, named=verifying), _values(theirs, named=verifying)
        if rule == "to nine digits":
            mine, theirs = _to_nine_digits(mine), _to_nine_digits(theirs)
        if dataclasses.is_dataclass(mine) and dataclasses.is_dataclass(theirs):
            inner = "" if entry.name in ("terms", "selection") else f"{of}{entry.name} "
            yield from _compared(mine, theirs, inner, verifying=verifying)
        else:
            yield f"{of}{entry.name}".replace("_", " "), mine, theirs


def _is_compared(rule: str, mine: Any, theirs: Any, *, verifying: bool) -> bool:
    known = None not in (mine, theirs)
    if rule == "never" or (rule.startswith("when verified") and not verifying):
        return False
    return not known or not (rule == "when verified, if known" or (rule == "when verified, at least" and mine > theirs))


def _values(table: dict[str, Any], *, named: bool) -> list[Any]:
    """The values of a table; ``named`` with the last parts of their names, which have modules before them."""
    return sorted({(name.rpartition(".")[2], value) if named else value for name, value in table.items()})


def _to_nine_digits(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [_to_nine_digits(part) for part in value]
    return {key: _to_nine_digits(part) for key, part in value.items()} if isinstance(value, dict) else value


def _texts(*values: object) -> list[str]:
    """Values as JSON; of long texts, the part where they begin to differ."""
    shown = [plain(value) if dataclasses.is_dataclass(value) else value for value in values]
    texts = [json.dumps(value, ensure_ascii=False) for value in shown]
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False)))
    return [_part(text, same - _BEFORE if same > _LONGEST // 2 else 0) for text in texts]


def _part(text: str, start: int) -> str:
    if len(text) <= _LONGEST:
        return text
    end = start + _LONGEST - 3
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
