"""R3: the Gaussian quantile of the top score alone (Cohen et al. 2019); for a duel, of the share of duels won."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lvmrs import radius
from lvmrs._checks import Floats
from lvmrs.forms.base import Form
from lvmrs.maps.base import Slopes

__all__ = ["R3"]


@dataclass(frozen=True)
class R3(Form):
    """σ Φ⁻¹(p_a), since all other scores are at most 1 − p_a."""

    name: ClassVar[str] = "r3"

    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        """σ Φ⁻¹(p_a), or 0 where p_a is at most ½."""
        return radius.r3(p_a, sigma=sigma)
