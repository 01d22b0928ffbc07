"""Which noise suits an input, where the user names none."""

from __future__ import annotations

import math

from lvmrs.noise.base import Noise
from lvmrs.noise.exact import ExactGaussian
from lvmrs.noise.gaussian import GAUSSIAN

__all__ = ["suited_noise"]


def suited_noise(levels: int | None, lipschitz: float | None = None) -> Noise:
    """The noise for inputs on a grid, unless a Lipschitz constant is to be used.

    Rounding to the grid has no Lipschitz constant, so exact noise would give up the radius that the constant brings.

    Args:
        levels: inputs are multiples of 1/levels; None if they are not known to be on a grid.
        lipschitz: a Lipschitz constant of the network that certificates may rely on; None or infinite if there is none.

    Returns:
        Exact noise on that grid, or Gaussian noise in floating point.

    >>> suited_noise(255), suited_noise(None), suited_noise(255, lipschitz=2.0)
    (ExactGaussian(levels=255), Gaussian(), Gaussian())
    """
    constant = lipschitz is not None and math.isfinite(lipschitz)
    return GAUSSIAN if levels is None or constant else ExactGaussian(levels)
