"""The interface of the forms of the radius."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from lvmrs._checks import Floats
from lvmrs.maps.base import Slopes

__all__ = ["Form"]


@dataclass(frozen=True)
class Form(ABC):
    """A theorem: within this radius, scores that obey the bounds at x cannot change their order."""

    name: ClassVar[str]
    noises: ClassVar[tuple[str, ...]] = ("gaussian",)
    """The noises that the theorem is about, by name."""
    needs_constant: ClassVar[bool] = False
    """Whether it says nothing for scores without a Lipschitz constant."""
    uses_constant: ClassVar[bool] = False
    """Whether it relies on a Lipschitz constant where there is one."""

    @property
    def one_sided(self) -> Form:
        """The form to take where all rivals are bounded by what the top class leaves; by default the same."""
        return self

    @abstractmethod
    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        """The radius for p_a ≤ the top score and p_b ≥ every other one, as shares of the mass; 0 if p_a ≤ p_b.

        It grows with p_a and falls with p_b, so that the worst rival decides. ``slopes`` are Lipschitz constants of the
        scores before smoothing, infinite where there are none.
        """
