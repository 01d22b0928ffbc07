"""Numbers for people: what is printed never claims more than was proved."""

import math
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal

__all__ = ["percent", "rounded_down"]


def rounded_down(value: float, digits: int = 4) -> str:
    """In decimals, rounded down."""
    if not math.isfinite(value):
        return str(value)
    step = Decimal(1).scaleb(-digits)
    return f"{Decimal(value).quantize(step, ROUND_FLOOR, Context(prec=400 + digits)):f}"


def percent(share: float) -> str:
    """A share of inputs in %, with one digit; 22.15 is 22.2, as one rounds by hand."""
    return str((100 * Decimal(repr(float(share)))).quantize(Decimal("0.1"), ROUND_HALF_UP))
