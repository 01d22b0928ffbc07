"""The forms of the radius, as objects that the proof and the planners call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lvmrs.kernel import lipschitz, radius
from lvmrs.kernel.checks import Floats
from lvmrs.kernel.maps import Slopes

__all__ = ["R1", "R2", "R3", "Form", "R1Noise", "Ramp"]


@dataclass(frozen=True)
class Form(ABC):
    """A theorem: within this radius, scores that satisfy the bounds at x cannot change their order."""

    name: ClassVar[str]
    noises: ClassVar[tuple[str, ...]] = ("gaussian",)
    """The laws of noise for which the theorem holds, by name."""
    needs_constant: ClassVar[bool] = False
    """Whether the theorem needs a Lipschitz constant of the scores."""
    uses_constant: ClassVar[bool] = False
    """Whether the theorem uses a Lipschitz constant if there is one."""

    @property
    def one_sided(self) -> Form:
        """The form to use if the bound on all rivals is 1 − p_a; by default the same form."""
        return self

    @abstractmethod
    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        """The certified radius.

        It must grow with p_a and fall with p_b, so that the worst rival decides. Planners pass arrays of many bounds.

        Args:
            p_a: lower bound on the score of the top class, as a share of the mass; an array of any shape.
            p_b: upper bound on the score of every other class, as a share of the mass.
            sigma: standard deviation of the noise.
            slopes: Lipschitz constants of the scores before smoothing, as shares of the mass; infinite if unknown.

        Returns:
            The radius; 0 if p_a ≤ p_b.
        """


# ---------------------------------------------------------------------------------------------------------------------
# R1: the margin over a Lipschitz constant of the smoothed scores (Tsuzuku et al. 2018; Delattre et al. 2024).


@dataclass(frozen=True)
class R1(Form):
    """R1 with the constant of the smoothed scores from noise and network together, L erf(1/(2Lσ))."""

    name: ClassVar[str] = "r1"
    needs_constant: ClassVar[bool] = True
    uses_constant: ClassVar[bool] = True

    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        """(p_a − p_b)/(√2 L erf(1/(2Lσ)))."""
        return radius.r1(p_a, p_b, lipschitz=lipschitz.smoothed(slopes.vector, sigma=sigma, of="vector"))


@dataclass(frozen=True)
class R1Noise(Form):
    """R1 with the constant of smoothed scores from noise alone, 1/(σ√π)."""

    name: ClassVar[str] = "r1-noise"

    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        """(p_a − p_b) σ √(π/2)."""
        return radius.r1(p_a, p_b, lipschitz=lipschitz.smoothed(np.inf, sigma=sigma, of="vector"))


# ---------------------------------------------------------------------------------------------------------------------
# R2: Gaussian quantiles of both bounds (Cohen et al. 2019; Salman et al. 2019).


@dataclass(frozen=True)
class R2(Form):
    """σ/2 (Φ⁻¹(p_a) − Φ⁻¹(p_b))."""

    name: ClassVar[str] = "r2"

    @property
    def one_sided(self) -> Form:
        """R3, which equals R2 for p_b = 1 − p_a."""
        return R3()

    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        """σ/2 (Φ⁻¹(p_a) − Φ⁻¹(p_b))."""
        return radius.r2(p_a, p_b, sigma=sigma)


# ---------------------------------------------------------------------------------------------------------------------
# R3: the Gaussian quantile of the top score alone (Cohen et al. 2019); for a duel, of the share of duels won.


@dataclass(frozen=True)
class R3(Form):
    """σ Φ⁻¹(p_a), since all other scores are at most 1 − p_a."""

    name: ClassVar[str] = "r3"

    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        """σ Φ⁻¹(p_a), or 0 where p_a is at most ½."""
        return radius.r3(p_a, sigma=sigma)


# ---------------------------------------------------------------------------------------------------------------------
# The ramp radius: noise and a Lipschitz constant of the scores together; at least as large as R1, R2 and R3.


@dataclass(frozen=True)
class Ramp(Form):
    """The larger of the ramp radii per class and pairwise; equal to R2 without a Lipschitz constant."""

    name: ClassVar[str] = "ramp"
    uses_constant: ClassVar[bool] = True

    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        """The larger of the two ramp radii."""
        return radius.ramp(p_a, p_b, sigma=sigma, lipschitz=slopes.vector, class_lipschitz=slopes.one)
