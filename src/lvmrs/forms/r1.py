"""R1: the margin over a Lipschitz constant of the smoothed scores (Tsuzuku et al. 2018; Delattre et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lvmrs import lipschitz, radius
from lvmrs._checks import Floats
from lvmrs.forms.base import Form
from lvmrs.maps.base import Slopes

__all__ = ["R1", "R1Noise"]


@dataclass(frozen=True)
class R1(Form):
    """R1 with the constant that noise and scores have together, L erf(1/(2Lσ))."""

    name: ClassVar[str] = "r1"
    needs_constant: ClassVar[bool] = True
    uses_constant: ClassVar[bool] = True

    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        """(p_a − p_b)/(√2 L erf(1/(2Lσ)))."""
        return radius.r1(p_a, p_b, lipschitz=lipschitz.smoothed(slopes.vector, sigma=sigma, of="vector"))


@dataclass(frozen=True)
class R1Noise(Form):
    """R1 with the constant that noise gives to any scores, 1/(σ√π)."""

    name: ClassVar[str] = "r1-noise"

    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        """(p_a − p_b) σ √(π/2)."""
        return radius.r1(p_a, p_b, lipschitz=lipschitz.smoothed(np.inf, sigma=sigma, of="vector"))
