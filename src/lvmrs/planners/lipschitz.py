"""Procedures for a known Lipschitz constant: those of the paper's first table that use samples, and the ramp radius.

===================  ==============================================================================================
``"noise"``          R1 with the constant that noise alone gives the smoothed scores, r/(σ√π)
``"both"``           R1 with the constant that noise and network give them together, L erf(r/(2Lσ))
``"ramp"``           the ramp radius
===================  ==============================================================================================

The first procedure of that table, without noise, is ``lvmrs.kernel.deterministic``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks
from lvmrs.kernel.method import Scope
from lvmrs.kernel.radius import R1, Form, R1Noise, Ramp
from lvmrs.kernel.terms import Choice, Terms
from lvmrs.planners.base import Planner, check_search, keeps_constant
from lvmrs.planners.search import ScoreMoments, best, forecasts

Procedure = Literal["noise", "both", "ramp"]
_FORMS: dict[str, Form] = {"noise": R1Noise(), "both": R1(), "ramp": Ramp()}


@dataclass(frozen=True)
class Lipschitz(Planner):
    """Certifies by one of three procedures, with the same map, temperature and mass for all inputs."""

    procedure: Procedure = "ramp"
    """The radius; see the table at the top of this module."""
    map: str = "sparsemax"
    """Name of a simplex map that preserves Lipschitz constants; the paper uses sparsemax."""
    temperature: float = 1.0
    mass: float = 1.0
    """The sum of the scores of the map."""
    bounds: tuple[str, ...] = ("betting",)
    """Names of the bounds to choose from."""

    scope: ClassVar[Scope] = "all inputs"
    settled: ClassVar[Mapping[str, str]] = {"form": "each procedure has its own", "width": "a width is for duels"}

    def __post_init__(self) -> None:
        checks.one_of("procedure", self.procedure, _FORMS)
        check_search((self.map,), (self.temperature,), self.mass, self.bounds, usual=(1.0,))
        if not keeps_constant(self.map):
            raise InvalidArgumentError(f"map must preserve a Lipschitz constant, and {self.map} does not; take another")

    @property
    def needs_constant(self) -> bool:
        """Whether the procedure uses the constant of the network."""
        return self.procedure != "noise"

    uses_constant = needs_constant

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """Choose the class with the largest mean score, and the bound with the largest forecast."""
        moments = ScoreMoments.of(logits, maps=(self.map,), temperatures=(self.temperature,), mass=self.mass)
        row, forecast = best(forecasts(moments, terms, bounds=self.bounds, forms=(_FORMS[self.procedure],)))
        return forecast.choice(moments, row, terms)
