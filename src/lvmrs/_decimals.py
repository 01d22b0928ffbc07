"""Numbers for people: what is printed never claims more than was proved."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

__all__ = ["outward", "percent", "rounded_down"]


def rounded_down(value: float, digits: int = 4) -> str:
    """In decimals, rounded down."""
    if not math.isfinite(value):
        return str(value)
    step = Decimal(1).scaleb(-digits)
    return f"{Decimal(value).quantize(step, ROUND_FLOOR, Context(prec=400 + digits)):f}"


def percent(share: float) -> str:
    """A share of inputs in %, with one digit; what is not all is never shown as 100."""
    shown = 100 * Decimal(f"{share:.3f}")
    return f"{min(shown, Decimal('99.9')) if share < 1 else shown:.1f}"


def outward(low: float, high: float, digits: int = 4) -> str:
    """An interval, rounded so that it loses nothing."""
    if not math.isfinite(high):
        return "no interval"
    step = Decimal(1).scaleb(-digits)
    ends = (Decimal(low).quantize(step, ROUND_FLOOR), Decimal(high).quantize(step, ROUND_CEILING))
    return ("{:f} to {:f}" if low < 0 else "{:f}–{:f}").format(*ends)
