"""Procedures of the paper's first table that use samples, for a known Lipschitz constant, and the ramp radius.

===================  ==============================================================================================
``"noise"``          R1 of the smoothed scores with what noise alone does for their constant, r/(σ√π)
``"both"``           R1 with the bound that uses noise and constant, L erf(r/(2Lσ))
``"ramp"``           the ramp radius
===================  ==============================================================================================

The table's first procedure, without noise, is ``lvmrs.deterministic``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from lvmrs import _checks
from lvmrs.errors import InvalidArgumentError
from lvmrs.forms import R1, Form, R1Noise, Ramp
from lvmrs.plan import Choice, Scope, Terms
from lvmrs.planners.base import Planner, check_search
from lvmrs.planners.forecast import best, forecasts
from lvmrs.planners.survey import Survey
from lvmrs.simplex import simplex_map

__all__ = ["Lipschitz", "Procedure"]

Procedure = Literal["noise", "both", "ramp"]
_FORMS: dict[str, Form] = {"noise": R1Noise(), "both": R1(), "ramp": Ramp()}


@dataclass(frozen=True)
class Lipschitz(Planner):
    """One of the three procedures, with a fixed map, temperature and mass: sparsemax, as the paper takes it."""

    procedure: Procedure = "ramp"
    map: str = "sparsemax"
    temperature: float = 1.0
    mass: float = 1.0
    bounds: tuple[str, ...] = ("betting",)

    scope: ClassVar[Scope] = "all inputs"
    needs_constant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _checks.one_of("procedure", self.procedure, _FORMS)
        check_search((self.map,), (self.temperature,), self.mass, self.bounds)
        if math.isinf(float(simplex_map(self.map)().slopes(1.0).vector)):
            raise InvalidArgumentError(f"map must be another one: {self.map} keeps no Lipschitz constant")

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """The class with the largest mean score, proved in the way with the largest forecast."""
        survey = Survey.of(logits, maps=(self.map,), temperatures=(self.temperature,), mass=self.mass)
        row, forecast = best(forecasts(survey, terms, bounds=self.bounds, forms=(_FORMS[self.procedure],)))
        return forecast.choice(survey, row, terms)
