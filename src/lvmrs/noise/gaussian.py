"""Gaussian noise, equally strong in every direction, as Cohen et al. (2019) and LVM-RS use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor

from lvmrs.noise.base import Noise

__all__ = ["GAUSSIAN", "Gaussian"]


@dataclass(frozen=True)
class Gaussian(Noise):
    """Independent normal numbers of standard deviation σ; radii are Euclidean.

    >>> Gaussian().words(0.5)
    'Gaussian noise of σ = 0.5'
    """

    name: ClassVar[str] = "gaussian"
    distance: ClassVar[str] = "the Euclidean distance"
    length: ClassVar[str] = "‖x' − x‖₂"

    def fill(self, out: Tensor, generator: Generator) -> None:
        """Overwrite ``out`` with standard normal numbers."""
        out.normal_(generator=generator)

    def words(self, sigma: float) -> str:
        """The name and standard deviation, in words."""
        return f"Gaussian noise of σ = {sigma:g}"


GAUSSIAN = Gaussian()
