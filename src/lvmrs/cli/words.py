"""Words of a command line, read and said."""

from __future__ import annotations

import shlex
import sys

from lvmrs.errors import InvalidArgumentError

__all__ = ["command_line", "numbers", "shard", "tell"]


def tell(text: str) -> None:
    """A line for people: on stderr, so that data have stdout to themselves."""
    print(text, file=sys.stderr, flush=True)


def command_line(*more: str) -> str:
    """What was typed, to be typed again."""
    return shlex.join(["lvmrs", *sys.argv[1:], *more])


def numbers(name: str, text: str | None) -> list[float] | None:
    """Numbers with commas between them."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidArgumentError(f"{name} must be numbers with commas between them, got {text!r}") from None


def shard(text: str | None) -> tuple[int, int]:
    """2/8 is the second of eight."""
    number, slash, count = (text or "1/1").partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise InvalidArgumentError(f"shard must be like 2/8, the second of eight, got {text!r}")
    return int(number), int(count)
