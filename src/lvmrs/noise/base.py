"""The interface of the kinds of noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor

__all__ = ["Noise"]


@dataclass(frozen=True)
class Noise(ABC):
    """A distribution of noise that is added to an input, scaled by σ.

    Two noises of one class are the same noise. What is proved depends on it: a certificate is refused if the theorem of
    its form of the radius is not about this noise (``Form.noises``).
    """

    name: ClassVar[str]
    distance: ClassVar[str]
    """The distance in which radii are measured, in words that fit after "in"."""
    length: ClassVar[str]
    """The same distance between x' and x, as a formula."""

    @abstractmethod
    def fill(self, out: Tensor, generator: Generator) -> None:
        """Overwrite ``out`` with independent draws at σ = 1, from this generator and nothing else."""

    @abstractmethod
    def words(self, sigma: float) -> str:
        """The noise at this σ, in words that fit after "smoothed with"."""
