"""Makes text from outside the program, such as file names and messages, safe to print."""

__all__ = ["printable"]

_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def printable(text: str) -> str:
    r"""Replace all characters except visible ones and spaces by escape sequences.

    The result cannot move the cursor, change colours, reverse the writing direction, or start a new line.

    >>> printable("run\x1b[31m \u202eσ")
    'run\\x1b[31m \\u202eσ'
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # surrogate for a byte of a file name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    escape = f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return _SHORT.get(character, escape)
