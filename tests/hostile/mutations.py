"""Random damage to bytes, JSON and tables. Each function takes a random generator and what is to be damaged."""
# ruff: noqa: E501

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from lvmrs.record.manifest import FORMAT

__all__ = ["of_bytes", "of_json", "of_table"]

_TEXTS = (
    "", " ", "NaN", "nan", "inf", "-inf", "-1", "0", "1e999", "1e-999", "9" * 400, "null", "None", "true", "x", "\0", "٣", "٫٥", "½",
    "é", "😀", "\u202e", "0x10", "1_000", "1,5", "+1", " 1", "1 ", "-0.0", "1e3", "2.0", "-", "*", "=1+1", "\x1b[31m",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 1.5, -0.0, 1e308, float("nan"), float("inf"), -float("inf"), 10**400, 2**63, 2**53, "", "x", "1",
    "\0", "😀", "\ud800", "python:os:getcwd", [], [1], ["x"], [[]], {}, {"a": 1}, {"": None}, "x" * 10_000,
)  # fmt: skip


def of_bytes(random: Random, whole: bytes) -> bytes:
    """Bits flipped; bytes changed, removed, repeated, put in, swapped or cut."""
    data = bytearray(whole)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        size = max(1, len(data))
        place, length = random.randrange(size), random.choice((1, 1, 2, 8, 64, 1000))
        kind = random.randrange(8)
        if kind == 0 and data:
            data[place % len(data)] ^= 1 << random.randrange(8)
        elif kind == 1 and data:
            data[place % len(data)] = random.randrange(256)
        elif kind == 2:
            del data[place : place + length]
        elif kind == 3:
            data[place:place] = data[place : place + length]
        elif kind == 4:
            data[place:place] = random.randbytes(length)
        elif kind == 5:
            other = random.randrange(size)
            data[place : place + length], data[other : other + length] = (
                data[other : other + length],
                data[place : place + length],
            )
        elif kind == 6:
            del data[place:]
        else:
            data[place:place] = random.choice(_TEXTS).encode("utf-8")
    return bytes(data)


def of_json(random: Random, whole: bytes) -> bytes:
    """Fields removed, renamed, repeated, moved, nested, or given another value; now and then damaged bytes."""
    if random.random() < 0.25:
        return of_bytes(random, whole)
    stored = json.loads(whole)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        holder, key = random.choice(_places(stored)) if _places(stored) else (None, None)
        if holder is None:
            break
        kind = random.randrange(6)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[random.choice((f"{key} ", f"{key}".upper(), "magic", ""))] = holder.pop(key)
        elif kind == 2:
            other, name = random.choice(_places(stored))
            holder[key] = json.loads(json.dumps(other[name]))
        elif kind == 3:
            holder[key] = _nested(random, holder[key])
        else:
            holder[key] = random.choice(_VALUES)
    text = json.dumps(stored)
    if random.random() < 0.1:  # a field twice
        at = text.find("{") + 1
        text = text[:at] + f'"format": {FORMAT}, "sigma": 3, ' + text[at:]
    if random.random() < 0.05:
        text = text.replace(
            '"sigma": 0.5', f'"sigma": {random.choice(("1e999", "-1e999", "5e-1", "0.50", "05", ".5"))}'
        )
    return text.encode("utf-8", errors="surrogatepass")


def _nested(random: Random, value: Any) -> Any:
    for _ in range(random.choice((1, 5, 300))):
        value = [value] if random.random() < 0.5 else {"a": value}
    return value


def _places(stored: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    waiting = [stored]
    while waiting:
        value = waiting.pop()
        keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
        found += [(value, key) for key in keys]
        waiting += [value[key] for key in keys]
    return found


def of_table(random: Random, whole: bytes) -> bytes:
    """Lines and columns cut, repeated, swapped or renamed, fields given other texts; now and then damaged bytes."""
    if random.random() < 0.3:
        return of_bytes(random, whole)
    lines = [line.split("\t") for line in whole.decode().splitlines()]
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        random.choice(_OF_LINES)(random, lines)
    end = random.choice(("\n", "\n", "\n", "\r\n", "\r", "\n\n"))
    text = end.join("\t".join(line) for line in lines) + random.choice((end, end, end, ""))
    return (random.choice(("", "", "", "\ufeff")) + text).encode("utf-8")


def _line(random: Random, lines: list[list[str]]) -> int:
    return random.randrange(max(1, len(lines)))


def _remove(random: Random, lines: list[list[str]]) -> None:
    del lines[_line(random, lines) :][:1]
    if lines:
        lines.pop(_line(random, lines))


def _repeat(random: Random, lines: list[list[str]]) -> None:
    if lines:
        lines.insert(_line(random, lines), list(lines[_line(random, lines)]))


def _swap(random: Random, lines: list[list[str]]) -> None:
    if lines:
        a, b = _line(random, lines), _line(random, lines)
        lines[a], lines[b] = lines[b], lines[a]


def _field(random: Random, lines: list[list[str]]) -> None:
    if lines and (line := lines[_line(random, lines)]):
        line[random.randrange(len(line))] = random.choice(_TEXTS)


def _other_field(random: Random, lines: list[list[str]]) -> None:
    if lines and (line := lines[_line(random, lines)]):
        line[random.randrange(len(line))] = random.choice(line)


def _shorten(random: Random, lines: list[list[str]]) -> None:
    if lines and (line := lines[_line(random, lines)]):
        del line[random.randrange(len(line)) :]


def _lengthen(random: Random, lines: list[list[str]]) -> None:
    if lines:
        lines[_line(random, lines)].append(random.choice(_TEXTS))


def _column(random: Random, lines: list[list[str]]) -> None:
    place, doubled = random.randrange(6), random.random() < 0.5
    for line in lines:
        if place < len(line):
            if doubled:
                line.insert(place, line[place])
            else:
                del line[place]


def _name(random: Random, lines: list[list[str]]) -> None:
    if lines and lines[0]:
        place = random.randrange(len(lines[0]))
        lines[0][place] = random.choice((*_TEXTS, lines[0][place].upper(), f" {lines[0][place]}", "idx", "radius"))


_OF_LINES: tuple[Callable[[Random, list[list[str]]], None], ...] = (
    _remove, _repeat, _swap, _field, _field, _field, _other_field, _shorten, _lengthen, _column, _name,
)  # fmt: skip
