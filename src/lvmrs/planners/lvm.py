"""LVM-RS (Delattre et al. 2024), choosing by the radius that n samples should certify.

The paper searches maps and temperatures by the radius that n0 samples would certify, with empirical Bernstein bounds
and R2. Here the search goes over more (bounds, groups of rivals, splits of the risk, forms of the radius) and is judged
by the widths of n, which does not over-penalise variance.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from lvmrs.plan import BoundName, Plan, RadiusName, Terms
from lvmrs.planners.base import Planner, check_search
from lvmrs.planners.forecast import best, forecasts, plan_of
from lvmrs.planners.survey import TEMPERATURES, Survey
from lvmrs.sampling import Stream
from lvmrs.simplex import MapName

__all__ = ["LVM"]


@dataclass(frozen=True)
class LVM(Planner):
    """The map, temperature, bound, groups and form of the radius with the largest forecast for this input.

    With hardmax among the maps, Cohen's plan is the first candidate: it is left only for one that promises more.
    """

    maps: tuple[MapName, ...] = ("hardmax", "softmax", "sparsemax")
    temperatures: tuple[float, ...] = TEMPERATURES
    mass: float = 1.0
    bounds: tuple[BoundName, ...] = ("betting", "bernstein", "hoeffding")

    def __post_init__(self) -> None:
        check_search(self.maps, self.temperatures, self.mass, self.bounds)

    def plan(self, scores: Iterable[Tensor], terms: Terms, origin: Stream) -> Plan:
        """The candidate with the largest forecast."""
        survey = Survey.of(scores, maps=self.maps, temperatures=self.temperatures, mass=self.mass)
        forms: tuple[RadiusName, ...] = ("r2",) if math.isinf(terms.lipschitz) else ("r2", "ramp")
        row, forecast = best(forecasts(survey, terms, bounds=self.bounds, forms=forms))
        return plan_of(survey, row, forecast, terms, planner="LVM", origin=origin, scope="this input")
