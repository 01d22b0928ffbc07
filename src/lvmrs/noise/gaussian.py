"""Gaussian noise, equally strong in every direction, as Cohen et al. (2019) and LVM-RS use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmrs.noise.base import Noise

__all__ = ["GAUSSIAN", "Gaussian"]


@dataclass(frozen=True)
class Gaussian(Noise):
    """Independent normal numbers of standard deviation σ, in floating point; radii are Euclidean.

    x + δ is rounded to a floating-point number, which the theorems do not know of. For inputs on a grid,
    ``ExactGaussian`` has no such rounding.

    >>> Gaussian().words(0.5)
    'Gaussian noise of σ = 0.5'
    """

    name: ClassVar[str] = "gaussian"
    distance: ClassVar[str] = "the Euclidean distance"
    length: ClassVar[str] = "‖x' − x‖₂"
    drawn_on_device: ClassVar[bool] = True

    def fill(self, out: NDArray[Any], generator: np.random.Generator, sigma: float) -> None:
        """Overwrite ``out`` with standard normal numbers, whose tails reach beyond 8σ."""
        generator.standard_normal(dtype=out.dtype, out=out)

    def fill_there(self, out: Tensor, generator: torch.Generator) -> None:
        """Overwrite ``out`` with standard normal numbers on its device."""
        out.normal_(generator=generator)

    def words(self, sigma: float) -> str:
        """The name and standard deviation, in words."""
        return f"Gaussian noise of σ = {sigma:g}"


GAUSSIAN = Gaussian()
