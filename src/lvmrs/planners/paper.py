"""LVM-RS as its paper describes it, but sound; it is here for comparison.

Maps and temperatures are compared by R2 from empirical Bernstein bounds with their width at n0 samples. The paper
states its bound for one class; a statement about all c classes at once needs a union over them, so each class is
bounded at the risk α/c. No certificate needs this union (``lvmrs.prove`` says why), but it is kept here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from lvmrs import radius
from lvmrs.confidence.bernstein import Bernstein
from lvmrs.forms import R2
from lvmrs.plan import Choice, Terms
from lvmrs.planners.base import Planner, check_search
from lvmrs.planners.survey import TEMPERATURES, Survey

__all__ = ["Paper"]


@dataclass(frozen=True)
class Paper(Planner):
    """Chooses a map and temperature for each input as the paper does; bounds by Bernstein with a union, and R2."""

    maps: tuple[str, ...] = ("hardmax", "softmax", "sparsemax")
    """Names of the simplex maps to try."""
    temperatures: tuple[float, ...] = TEMPERATURES
    """Temperatures to try for each soft map."""
    mass: float = 1.0
    """What the scores of the maps sum to."""

    def __post_init__(self) -> None:
        check_search(self.maps, self.temperatures, self.mass, ("bernstein",))

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """Choose the map and temperature with the largest R2 that n0 samples certify."""
        survey = Survey.of(logits, maps=self.maps, temperatures=self.temperatures, mass=self.mass)
        risk = terms.alpha / survey.classes
        log, n0 = np.log(2 / risk), max(survey.n0, 2)
        width = np.sqrt(2 * survey.variance * log / n0) + 7 * log / (3 * (n0 - 1))
        tops = survey.mean.argmax(axis=1)
        rows = np.arange(len(tops))
        p_a = np.clip((survey.mean - width)[rows, tops], 0.0, 1.0)
        others = survey.mean + width
        others[rows, tops] = -np.inf
        p_b = np.clip(others.max(axis=1), 0.0, 1.0)
        expected = radius.r2(p_a, p_b, sigma=terms.sigma)
        row = int(np.where(expected > 0, expected, np.minimum(p_a - p_b, 0.0)).argmax())
        return Choice(
            top=int(tops[row]),
            classes=survey.classes,
            map=survey.maps[row],
            bound=Bernstein(),
            form=R2(),
            risk_top=risk,
            risk_rival=risk,
        )
