"""Grids of settings that are the same numbers on every machine."""

import math

import numpy as np

__all__ = ["geometric"]


def geometric(first: float, last: float, count: int) -> tuple[float, ...]:
    """``count`` numbers from ``first`` to ``last`` with equal ratios.

    NumPy computes powers of whole arrays with other last digits on other processors. One power at a time is computed in
    the same way on all of them, so that one machine can go on with the run that another began.

    >>> geometric(0.01, 1, 3)
    (0.01, 0.1, 1.0)
    """
    exponents = np.linspace(math.log10(first), math.log10(last), count).tolist()
    return (float(first), *(math.pow(10, exponent) for exponent in exponents[1:-1]), float(last))
