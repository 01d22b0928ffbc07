"""Numbers as text. They are rounded so that a text never claims more than was proved."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

__all__ = ["outward", "percent", "rounded_down", "rounded_up"]


def rounded_down(value: float, digits: int = 4) -> str:
    """Write a number with ``digits`` decimals, rounded down.

    >>> rounded_down(0.38119)
    '0.3811'
    """
    return _rounded(value, digits, ROUND_FLOOR)


def rounded_up(value: float, digits: int = 4) -> str:
    """Write a number with ``digits`` decimals, rounded up.

    >>> rounded_up(0.38111)
    '0.3812'
    """
    return _rounded(value, digits, ROUND_CEILING)


def _rounded(value: float, digits: int, towards: str) -> str:
    if not math.isfinite(value):
        return str(value)
    step = Decimal(1).scaleb(-digits)
    return f"{Decimal(value).quantize(step, towards, Context(prec=400 + digits)):f}"


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
    if not math.isfinite(high):
        return "no interval"
    step = Decimal(1).scaleb(-digits)
    ends = (Decimal(low).quantize(step, ROUND_FLOOR), Decimal(high).quantize(step, ROUND_CEILING))
    return ("{:f} to {:f}" if low < 0 else "{:f}–{:f}").format(*ends)
