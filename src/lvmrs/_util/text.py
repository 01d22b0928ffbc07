"""Text: escapes for text from outside the program, numbers rounded on the safe side, and optional libraries."""

import math
from decimal import Decimal
from importlib import import_module
from typing import Any

from lvmrs.errors import LvmrsError

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


def optional(module: str, *, extra: str, error: type[LvmrsError]) -> Any:
    """Import a module. If it is missing, raise ``error`` with the pip command that installs it."""
    try:
        return import_module(module)
    except ImportError as missing:
        raise error(
            f"{module} cannot be imported ({missing}); install it with: pip install 'lvmrs[{extra}]'"
        ) from missing


def percent(share: float) -> str:
    """Write a share in percent with one decimal; a share below 1 is never written as 100.

    >>> percent(0.9999)
    '99.9'
    """
    shown = 100 * Decimal(f"{share:.3f}")
    return f"{min(shown, Decimal('99.9')) if share < 1 else shown:.1f}"


def outward(low: float, high: float, digits: int = 4) -> str:
    """Write an interval, with its lower end rounded down and its upper end rounded up.

    >>> outward(0.38119, 0.5)
    '0.3811–0.5000'
    """
    from lvmrs.kernel.radius import rounded_down, rounded_up  # which imports NumPy

    if not math.isfinite(high):
        return "no interval"
    return f"{rounded_down(low, digits)}{' to ' if low < 0 else '–'}{rounded_up(high, digits)}"
