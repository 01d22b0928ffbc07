"""The procedures of the paper's first table, for a classifier of known Lipschitz constant, and the ramp radius.

===================  ==============================================================================================
``"deterministic"``  margin/(√2 L) of the logits, no sampling
``"noise"``          R1 of the smoothed scores with what noise alone does for their constant, r/(σ√π)
``"both"``           R1 with the bound that uses noise and constant, L erf(r/(2Lσ))
``"ramp"``           the ramp radius
===================  ==============================================================================================
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor

from lvmrs import _checks
from lvmrs.errors import InvalidArgumentError
from lvmrs.plan import BoundName, Plan, RadiusName, Terms
from lvmrs.planners.base import Planner, check_search
from lvmrs.planners.forecast import best, forecasts, plan_of
from lvmrs.planners.survey import Survey
from lvmrs.sampling import Stream
from lvmrs.simplex import MapName

__all__ = ["Lipschitz", "Procedure"]

Procedure = Literal["deterministic", "noise", "both", "ramp"]
_FORMS: dict[Procedure, RadiusName] = {"noise": "r1-noise", "both": "r1", "ramp": "ramp"}


@dataclass(frozen=True)
class Lipschitz(Planner):
    """One of the four procedures, with a fixed map, temperature and mass: sparsemax, as the paper takes it."""

    procedure: Procedure = "ramp"
    map: MapName = "sparsemax"
    temperature: float = 1.0
    mass: float = 1.0
    bounds: tuple[BoundName, ...] = ("betting",)

    def __post_init__(self) -> None:
        _checks.one_of("procedure", self.procedure, get_args(Procedure))
        check_search((self.map,), (self.temperature,), self.mass, self.bounds)
        if self.map == "hardmax":
            raise InvalidArgumentError("map must be softmax or sparsemax: hardmax keeps no Lipschitz constant")

    def plan(self, scores: Iterable[Tensor], terms: Terms, origin: Stream) -> Plan:
        """The class with the largest mean score; the groups with the largest forecast."""
        if self.procedure == "deterministic":
            raise InvalidArgumentError("the deterministic procedure takes no samples; SmoothedClassifier.certify knows")
        survey = Survey.of(scores, maps=(self.map,), temperatures=(self.temperature,), mass=self.mass)
        row, forecast = best(forecasts(survey, terms, bounds=self.bounds, forms=(_FORMS[self.procedure],)))
        return plan_of(survey, row, forecast, terms, planner="Lipschitz", origin=origin, scope="all inputs")
