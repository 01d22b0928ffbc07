"""What a command says to the person who typed it, on stderr, so that data have stdout to themselves."""

from __future__ import annotations

import shlex
import sys

__all__ = ["INCOMPLETE", "command_line", "tell"]

INCOMPLETE = 3
"""Exit code of a command that ended well but left inputs undone."""


def tell(text: str) -> None:
    """Print a line for people."""
    print(text, file=sys.stderr, flush=True)


def command_line(*more: str) -> str:
    """The command that was typed, with more words at its end, to be typed again."""
    return shlex.join(["lvmrs", *sys.argv[1:], *more])
