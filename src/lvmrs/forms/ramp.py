"""The ramp radius: noise and a Lipschitz constant of the scores together; at least as large as R1, R2 and R3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lvmrs import radius
from lvmrs._checks import Floats
from lvmrs.forms.base import Form
from lvmrs.maps.base import Slopes

__all__ = ["Ramp"]


@dataclass(frozen=True)
class Ramp(Form):
    """The larger of the ramp radii per class and pairwise; R2 where there is no Lipschitz constant."""

    name: ClassVar[str] = "ramp"
    uses_constant: ClassVar[bool] = True

    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        """The larger of the two ramp radii."""
        return radius.ramp(p_a, p_b, sigma=sigma, lipschitz=slopes.vector, class_lipschitz=slopes.one)
