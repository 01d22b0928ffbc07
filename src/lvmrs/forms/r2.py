"""R2: Gaussian quantiles of both bounds (Cohen et al. 2019; Salman et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lvmrs import radius
from lvmrs._checks import Floats
from lvmrs.forms.base import Form
from lvmrs.forms.r3 import R3
from lvmrs.maps.base import Slopes

__all__ = ["R2"]


@dataclass(frozen=True)
class R2(Form):
    """σ/2 (Φ⁻¹(p_a) − Φ⁻¹(p_b))."""

    name: ClassVar[str] = "r2"

    @property
    def one_sided(self) -> Form:
        """R3, which R2 equals for p_b = 1 − p_a."""
        return R3()

    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        """σ/2 (Φ⁻¹(p_a) − Φ⁻¹(p_b))."""
        return radius.r2(p_a, p_b, sigma=sigma)
