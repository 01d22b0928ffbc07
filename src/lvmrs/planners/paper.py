"""LVM-RS as its paper writes it, made sound: for comparison.

Maps and temperatures are judged by R2 from empirical Bernstein bounds with the width of n0, and the risk is shared by
all classes (the paper's bound is per class, and its statement about all classes needs this union).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from lvmrs import radius
from lvmrs.plan import Plan, Terms
from lvmrs.planners.base import Planner, check_search
from lvmrs.planners.survey import TEMPERATURES, Survey
from lvmrs.sampling import Stream
from lvmrs.simplex import MapName

__all__ = ["Paper"]


@dataclass(frozen=True)
class Paper(Planner):
    """Softmax, sparsemax and hardmax; Bernstein with the width of n0; every rival alone; R2."""

    maps: tuple[MapName, ...] = ("hardmax", "softmax", "sparsemax")
    temperatures: tuple[float, ...] = TEMPERATURES
    mass: float = 1.0

    def __post_init__(self) -> None:
        check_search(self.maps, self.temperatures, self.mass, ("bernstein",))

    def plan(self, scores: Iterable[Tensor], terms: Terms, origin: Stream) -> Plan:
        """The map and temperature with the largest R2 at the width of n0."""
        survey = Survey.of(scores, maps=self.maps, temperatures=self.temperatures, mass=self.mass)
        classes = survey.mean.shape[1]
        risk = terms.alpha / classes
        log, n0 = np.log(2 / risk), max(survey.n0, 2)
        width = np.sqrt(2 * survey.variance * log / n0) + 7 * self.mass * log / (3 * (n0 - 1))
        tops = survey.mean.argmax(axis=1)
        rows = np.arange(len(tops))
        p_a = np.clip((survey.mean - width)[rows, tops], 0.0, self.mass)
        others = survey.mean + width
        others[rows, tops] = -np.inf
        p_b = np.clip(others.max(axis=1), 0.0, self.mass)
        expected = radius.r2(p_a, p_b, sigma=terms.sigma, mass=self.mass)
        row = int(np.where(expected > 0, expected, np.minimum(p_a - p_b, 0.0)).argmax())
        top = int(tops[row])
        return Plan(
            planner="Paper",
            top=top,
            classes=classes,
            map=survey.maps[row],
            bound="bernstein",
            radius="r2",
            risk_top=risk,
            groups=tuple((k,) for k in range(classes) if k != top),
            risk_groups=(risk,) * (classes - 1),
            temperature=float(survey.temperatures[row]),
            mass=self.mass,
            origin=origin,
        )
