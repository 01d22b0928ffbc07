"""Words of a command line as values: lists of numbers, shards, radii, widths and choices."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from lvmrs.errors import InvalidArgumentError

__all__ = ["choice", "numbers", "radii", "shard", "width"]

_MOST_RADII = 10_000


def numbers(name: str, text: str | None) -> list[float] | None:
    """Numbers with commas between them; None stays None."""
    if text is None:
        return None
    try:
        return [_number(part) for part in text.split(",")]
    except ValueError:
        raise InvalidArgumentError(f"{name} must be numbers with commas between them, got {text!r:.80}") from None


def _number(text: str) -> float:
    """A number in plain digits: Python also takes 0_5, which is 5, and the digits of all scripts."""
    if not text.isascii() or "_" in text:
        raise ValueError(text)
    return float(text)


def shard(text: str | None) -> tuple[int, int]:
    """2/8 is the second of eight; None is the whole."""
    if text is None:
        return 1, 1
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= count:
        raise InvalidArgumentError(f"shard must be like 2/8, the second of eight, got {text!r:.80}")
    return number, count


def radii(text: str) -> list[float]:
    """0:1.5:0.25 goes from 0 to 1.5 in steps of 0.25; 0,0.5,1 is a list."""
    values = numbers("radii", text.replace(":", ",")) or []
    if ":" in text:
        if len(values) != 3 or not (values[2] > 0 and values[1] >= values[0]):
            raise InvalidArgumentError(f"radii must be FIRST:LAST:STEP with a positive step, got {text!r:.80}")
        first, last, step = values
        if not (last - first) / step < _MOST_RADII:
            raise InvalidArgumentError(f"radii {text!r:.80} are more than {_MOST_RADII}; take a larger step")
        values = [round(first + k * step, 12) for k in range(math.floor((last - first) / step + 1e-9) + 1)]
    if len(values) > _MOST_RADII:
        raise InvalidArgumentError(f"radii are {len(values)}, and must be at most {_MOST_RADII}; take fewer")
    if any(not 0 <= value < math.inf for value in values):
        raise InvalidArgumentError(f"radii must be numbers from 0, got {text!r:.80}")
    return values


def width(word: str | None) -> float | str | None:
    """A width of soft duels: a number, or the word ``chosen``; None stays None."""
    if word in (None, "chosen"):
        return word
    try:
        return _number(str(word))
    except ValueError:
        raise InvalidArgumentError(f"width must be a number or chosen, got {word!r}") from None


def choice(name: str, word: str, known: Sequence[str]) -> str:
    """The word, if it is one of those that are known."""
    if word not in known:
        raise InvalidArgumentError(f"{name} must be one of {', '.join(known)}, got {word!r}")
    return word
