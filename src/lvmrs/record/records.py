"""Typed records in JSON files. Each field is checked against its type when it is read, and errors name the field.

Two records are compared field by field. ``metadata["compared"]`` of a field is its rule: "never" for a note for
readers, "to nine digits" for numbers whose last digits depend on the machine, "values" for a table whose keys may begin
with other modules. A field without a rule is always compared.

A field with the rule "when verified" affects no row but appears in reports: it is compared only when a run is verified.
With "at least", the first record may have a larger value; with "if known", records differ only if one value is missing.
When a run is verified, the keys of a table are compared too, without their modules.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from lvmrs._util.files import check_kind
from lvmrs.errors import LvmrsError, RunError
from lvmrs.kernel import checks

Record = TypeVar("Record")
_types_of = functools.cache(get_type_hints)
# Maximum number of characters of a value in a message, and how many of them precede the first difference.
_LONGEST, _BEFORE = 70, 20


class FileRecord:
    """A record with a JSON file of its own; a subclass is a dataclass as ``read_record`` takes it."""

    format: ClassVar[int | None]
    """Number of the only accepted format, which is the first entry of the file; None for files without this entry."""
    what: ClassVar[str]
    """The content of the file in error messages, such as "a manifest"."""

    def to_json(self) -> str:
        """The record as JSON, without loss, indented for readers."""
        fields = {"format": self.format, **dataclasses.asdict(self)}  # type: ignore[call-overload]
        return json.dumps(fields, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        """Read the record in a text, which ``where`` names in errors; raises a RunError if the text is wrong."""
        try:
            stored = json.loads(checks.text("text", text), object_pairs_hook=_each_once)
            json.dumps(stored, ensure_ascii=False).encode()  # raises for half of a surrogate pair
        except (ValueError, RecursionError) as error:
            raise RunError(f"{where} is not {cls.what}, or is damaged ({error}); put the right file back") from error
        found = stored.pop("format", None) if isinstance(stored, dict) else None
        if type(found) is not type(cls.format) or found != cls.format:
            raise RunError(
                f"{where} has format {found!r:.20}, and this version of lvmrs reads format {cls.format}; use the "
                "version that wrote it"
            )
        return read_record(cls, stored, where)

    @classmethod
    def from_file(cls, file: Path, *, absent: str, largest: int = -1) -> Self:
        """Read the record in a file; raises a RunError with one sentence if the file is wrong.

        ``absent`` is the sentence for a file that does not exist, and ``largest`` the maximum size in bytes, if any.
        """
        try:
            check_kind(file)
            with file.open("rb") as opened:
                content = opened.read(largest + 1 if largest >= 0 else -1)
            text = content.decode()
        except FileNotFoundError:
            raise RunError(absent) from None
        except UnicodeDecodeError as error:
            raise RunError(f"{file} is not {cls.what}, or is damaged ({error}); put the right file back") from error
        except OSError as error:
            raise RunError(f"{file} cannot be read: {error.strerror}") from error
        if 0 <= largest < len(content):
            raise RunError(f"{file} is not {cls.what}: it is too large")
        return cls.parse(text, str(file))

    def difference(self, other: Self, *, verifying: bool = False) -> list[str]:
        """The differing fields, one phrase each: first the value here, then that of ``other``.

        ``verifying`` compares also the fields that affect no row but appear in reports.
        """
        return [
            "{}: {}, now {}".format(name, *_texts(mine, theirs))
            for name, mine, theirs in _compared(self, other, verifying=verifying)
            if mine != theirs
        ]


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)} occurs twice")
    return found


def read_record(kind: type[Record], stored: object, where: str) -> Record:
    """Make a record of a JSON object. Raises if a field is missing or unknown; ``where`` is for error messages.

    ``kind`` is a dataclass whose fields are plain values, lists, tuples, dicts with texts as keys, or such dataclasses.

    >>> from lvmrs.record.manifest import DenoiserRecord
    >>> read_record(DenoiserRecord, {"name": "trained:d", "weights_hash": None}, "denoiser").name
    'trained:d'
    """
    if not isinstance(stored, dict):
        raise RunError(f"{where} is damaged: expected an object, got {stored!r:.40}")
    fields = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    if odd := sorted(map(str, set(stored) - set(fields))):
        raise RunError(f"{where} is damaged: {odd[0]} is not known to this version of lvmrs")
    if missing := [name for name in fields if name not in stored]:
        raise RunError(f"{where} is damaged: {missing[0]} is missing")
    hints = _types_of(kind)  # type: ignore[arg-type]
    values = {name: _value(hints[name], value, f"{where}, {name},") for name, value in stored.items()}
    try:
        return kind(**values)
    except LvmrsError as error:
        raise RunError(f"{where} is damaged: {error}") from error


def _value(hint: Any, value: object, where: str) -> Any:
    """Convert a JSON value to its type: objects become records, lists may become tuples, whole numbers floats."""
    for choice in _choices(hint):
        if dataclasses.is_dataclass(choice) and isinstance(value, dict):
            return read_record(choice, value, where.rstrip(","))  # type: ignore[arg-type]
    try:
        return _fitted(hint, value)
    except TypeError:
        raise RunError(f"{where} is damaged: expected {_words(hint)}, got {value!r:.40}") from None


def _choices(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _fitted(hint: Any, value: Any) -> Any:
    """Convert a JSON value to a type without records; raises a TypeError if it does not fit."""
    for choice in _choices(hint):
        origin, parts = get_origin(choice), get_args(choice)
        if origin is list and isinstance(value, list):
            return [_fitted(parts[0], part) for part in value]
        if origin is tuple and isinstance(value, list):
            kinds = parts[:1] * len(value) if parts[-1] is Ellipsis else parts
            if len(kinds) == len(value):
                return tuple(map(_fitted, kinds, value))
        if origin is dict and isinstance(value, dict):
            return {key: _fitted(parts[1], part) for key, part in value.items()}
        if choice is float and type(value) in (int, float) and abs(value) <= sys.float_info.max:
            return float(value)
        if choice is Any and _has_only_numbers(value):
            return value
        if (origin is Literal and value in parts) or (choice is not float and type(value) is choice):
            return value
    raise TypeError(value)


def _has_only_numbers(value: object) -> bool:
    """Whether a JSON value contains neither NaN nor infinity."""
    if isinstance(value, float):
        return math.isfinite(value)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(map(_has_only_numbers, inner))


def _words(hint: Any) -> str:
    names = {int: "a whole number", float: "a finite number", str: "a text", bool: "true or false", type(None): "null"}
    known = {list: "a list", tuple: "a list"}
    return " or ".join(
        ", ".join(map(repr, get_args(part)))
        if get_origin(part) is Literal
        else names.get(part) or known.get(get_origin(part), "an object")
        for part in _choices(hint)
    )


def _compared(one: Any, other: Any, of: str = "", *, verifying: bool) -> Iterator[tuple[str, Any, Any]]:
    """Name and both values of each field to compare."""
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
    """The sorted values of a table; with ``named``, each with its key without the module."""
    return sorted({(name.rpartition(".")[2], value) if named else value for name, value in table.items()})


def _to_nine_digits(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [_to_nine_digits(part) for part in value]
    return {key: _to_nine_digits(part) for key, part in value.items()} if isinstance(value, dict) else value


def _texts(*values: object) -> list[str]:
    """Values as JSON; long texts are cut to the part around their first difference."""
    texts = [json.dumps(value, ensure_ascii=False, default=dataclasses.asdict) for value in values]
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False)))
    return [_part(text, same - _BEFORE if same > _LONGEST // 2 else 0) for text in texts]


def _part(text: str, start: int) -> str:
    if len(text) <= _LONGEST:
        return text
    end = start + _LONGEST - 3
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
