"""LVM-RS as its paper describes it, made sound, for comparisons.

Maps and temperatures are compared by R2 from empirical Bernstein bounds with their width at n0 samples. The paper
bounds each class at the risk α, and does not say why all c bounds hold together. They need not: a certificate is false
only if the bound on the top class fails, or that on one certain rival (``lvmrs.kernel.proof``). So the top class and
every rival are bounded at α/2. With ``union``, each class is bounded at α/c, so that all c bounds hold together with
probability 1 − α, as the paper states; radii are smaller, and no certificate needs it. Another bound can replace
Bernstein's, as in the paper's comparison of bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from lvmrs.kernel import checks, radius
from lvmrs.kernel.bounds.base import Bound
from lvmrs.kernel.bounds.bernstein import Bernstein
from lvmrs.kernel.checks import Floats
from lvmrs.kernel.radius import R2
from lvmrs.kernel.terms import Choice, Terms
from lvmrs.planners.base import Planner, check_search
from lvmrs.planners.search import MANY_CLASSES, TEMPERATURES, ScoreMoments
from lvmrs.registry import BOUNDS


@dataclass(frozen=True)
class Paper(Planner):
    """Chooses a map and temperature for each input as the paper does, and certifies R2."""

    maps: tuple[str, ...] = ("hardmax", "softmax", "sparsemax")
    """Names of the simplex maps to try."""
    temperatures: tuple[float, ...] = TEMPERATURES
    """Temperatures to try for each soft map."""
    mass: float = 1.0
    """The sum of the scores of a map."""
    bound: str = "bernstein"
    """Name of the bound for all maps, including votes; the paper uses Bernstein's."""
    union: bool = False
    """Whether each class is bounded at the risk α/c, which no certificate needs, instead of α/2."""

    uses_constant: ClassVar[bool] = False
    settled: ClassVar[Mapping[str, str]] = {"form": "its radius is R2, as published", "width": "a width is for duels"}

    def __post_init__(self) -> None:
        check_search(self.maps, self.temperatures, self.mass, (self.bound,), usual=TEMPERATURES)
        checks.instance("union", self.union, bool, "True or False")

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """Choose the map and temperature with the largest R2 that n0 samples certify."""
        moments = ScoreMoments.of(
            logits, maps=self.maps, temperatures=self.temperatures, mass=self.mass, most=MANY_CLASSES
        )
        risk, bound = terms.alpha / (moments.classes if self.union else 2), BOUNDS.find(self.bound)()
        lower, upper = _at_n0(bound, moments, risk)
        tops = moments.order[:, 0]
        rows = np.arange(len(tops))
        p_a = np.clip(lower[rows, tops], 0.0, 1.0)
        upper[rows, tops] = -np.inf
        p_b = np.clip(upper.max(axis=1), 0.0, 1.0)
        expected = radius.r2(p_a, p_b, sigma=terms.sigma)
        row = int(np.where(expected > 0, expected, np.minimum(p_a - p_b, 0.0)).argmax())
        return Choice(
            top=int(moments.tops[row]),
            classes=moments.classes,
            map=moments.maps[row],
            bound=bound,
            form=R2(),
            risk_top=risk,
            risk_rival=risk,
            alone=bound.alone(moments.ranked(row)[1:], others=1),
        )


def _at_n0(bound: Bound, moments: ScoreMoments, risk: float) -> tuple[Floats, Floats]:
    """Lower and upper bounds on the mean of each class from the n0 samples, for each candidate."""
    n0, mean, variance = max(moments.n0, 2), moments.mean, moments.variance
    if isinstance(bound, Bernstein):  # the formula of the paper
        log = np.log(2 / risk)
        width = np.sqrt(2 * variance * log / n0) + 7 * log / (3 * (n0 - 1))
        return mean - width, mean + width
    return bound.forecast(mean, variance, n0, risk), 1 - bound.forecast(1 - mean, variance, n0, risk)
