"""The interface of the kinds of noise."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor

from lvmrs.errors import InvalidArgumentError, shown
from lvmrs.registry import NOISES

__all__ = ["Noise", "check_noise"]


@dataclass(frozen=True)
class Noise(ABC):
    """A distribution of noise, which is scaled by σ and added to an input.

    A noise has no settings, and its name stands for its class: two objects of one class are the same noise. The proof
    refuses a plan whose form of the radius is not a theorem about this noise (``Form.noises``).
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


def check_noise(noise: object) -> None:
    """Refuse what is no noise, or does not stand for its name alone: certificates and runs record the name."""
    if not isinstance(noise, Noise):
        raise InvalidArgumentError(f"noise must be a Noise such as Gaussian(), got {shown(noise)}")
    kind = type(noise)
    if dataclasses.fields(noise) or vars(noise):
        raise InvalidArgumentError(f"{kind.__name__} has settings, and a noise must have none: its scale is sigma")
    if noise.name not in NOISES or NOISES.find(noise.name) is not kind:
        raise InvalidArgumentError(
            f"{kind.__name__} is not the noise {noise.name!r} of the registry; give it a name of its own and add it "
            "with lvmrs.registry.NOISES.add"
        )
