"""Gaussian noise, the same in every direction: the noise of Cohen et al. (2019) and of LVM-RS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor

from lvmrs.noise.base import Noise

__all__ = ["GAUSSIAN", "Gaussian"]


@dataclass(frozen=True)
class Gaussian(Noise):
    """Independent normal numbers of standard deviation σ; radii are Euclidean."""

    name: ClassVar[str] = "gaussian"
    distance: ClassVar[str] = "the Euclidean distance"
    length: ClassVar[str] = "‖x' − x‖₂"

    def fill(self, out: Tensor, generator: Generator) -> None:
        """Standard normal numbers."""
        out.normal_(generator=generator)

    def words(self, sigma: float) -> str:
        """Its name and standard deviation."""
        return f"Gaussian noise of σ = {sigma:g}"


GAUSSIAN = Gaussian()
