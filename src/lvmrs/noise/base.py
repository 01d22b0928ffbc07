"""The interface of the kinds of noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor

__all__ = ["Noise"]


@dataclass(frozen=True)
class Noise(ABC):
    """A distribution of noise, which is scaled by σ and added to an input.

    Two objects of one class are the same noise. The proof refuses a plan whose form of the radius is not a theorem
    about this noise (``Form.noises``).
    """

    name: ClassVar[str]
    """The name in ``lvmrs.registry.NOISES``."""
    distance: ClassVar[str]
    """The distance in which radii are measured, in words that fit after "in"."""
    length: ClassVar[str]
    """The distance between x' and x, as a formula."""

    @abstractmethod
    def fill(self, out: Tensor, generator: Generator) -> None:
        """Overwrite ``out`` with independent draws at σ = 1; all randomness must come from this generator."""

    @abstractmethod
    def words(self, sigma: float) -> str:
        """The noise at this σ, in words that fit after "smoothed with"."""
