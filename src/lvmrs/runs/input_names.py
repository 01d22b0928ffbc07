r"""Names of inputs as one field of a line: what a line cannot hold is written as an escape, and can be read again.

A backslash and every character that is not printable (tabs, ends of lines, control and format characters, bytes that
are no UTF-8) become an escape as in Python: ``\\``, ``\x09``, ``\u2028``, ``\U000e0001``. So do a space at either end,
and a name that is only "-", which would stand for no name.
"""

from __future__ import annotations

import re

__all__ = ["escaped", "unescaped"]

_ESCAPE = re.compile(r"\\(\\|x[0-9a-f]{2}|u[0-9a-f]{4}|U000[0-9a-f]{5}|U0010[0-9a-f]{4}|)")


def escaped(name: str) -> str:
    r"""The name as it is written.

    >>> print(escaped("cats/one\ttwo.png"))
    cats/one\x09two.png
    """
    if name == "-":
        return _escape(name)
    ends = (0, len(name) - 1)
    return "".join(
        character if _plain(character) and (character != " " or k not in ends) else _escape(character)
        for k, character in enumerate(name)
    )


def unescaped(text: str) -> str:
    """The name that was written; a ValueError says that it has a backslash that belongs to no escape."""
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _plain(character: str) -> bool:
    return character.isprintable() and character != "\\"


def _escape(character: str) -> str:
    number = ord(character)
    if character == "\\":
        return "\\\\"
    return f"\\x{number:02x}" if number < 1 << 8 else f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"


def _character(found: re.Match[str]) -> str:
    if not found[1]:
        raise ValueError("a backslash must begin an escape")
    return "\\" if found[1] == "\\" else chr(int(found[1][1:], 16))
