"""Numbers for people: what is printed never claims more than was proved."""

import math
from decimal import ROUND_FLOOR, Context, Decimal

__all__ = ["rounded_down"]


def rounded_down(value: float, digits: int = 4) -> str:
    """In decimals, rounded down."""
    if not math.isfinite(value):
        return str(value)
    step = Decimal(1).scaleb(-digits)
    return f"{Decimal(value).quantize(step, ROUND_FLOOR, Context(prec=400 + digits)):f}"
