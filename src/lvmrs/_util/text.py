"""Text from outside (names of files and runs, messages of other code), made safe to print."""

__all__ = ["printable"]

_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def printable(text: str) -> str:
    r"""The text with everything that is not a visible character or a space written as an escape.

    So nothing that is printed can move the cursor, change colours, reverse the direction of writing, or begin a line.

    >>> printable("run\x1b[31m \u202eσ")
    'run\\x1b[31m \\u202eσ'
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # how Python keeps a byte of a file name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    escape = f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return _SHORT.get(character, escape)
