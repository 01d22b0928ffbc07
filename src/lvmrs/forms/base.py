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
    """Whether it needs scores with a Lipschitz constant."""
    uses_constant: ClassVar[bool] = False
    """Whether it relies on a Lipschitz constant if there is one."""

    @property
    def one_sided(self) -> Form:
        """The form to use where the bound on all rivals is 1 − p_a; by default the same."""
        return self

    @abstractmethod
    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        """The certified radius.

        It must grow with p_a and fall with p_b, so that the worst rival decides. Planners ask for many radii at once.

        Args:
            p_a: lower bound on the score of the top class, as a share of the mass; an array of any shape.
            p_b: upper bound on the score of every other class, as a share of the mass.
            sigma: standard deviation of the noise.
            slopes: Lipschitz constants of the scores before smoothing, as shares of the mass; infinite where there are
                none.

        Returns:
            The radius; 0 if p_a ≤ p_b.
        """
