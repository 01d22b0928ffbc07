"""Votes with a bound for each rival: the plain alternative that every other method is to be compared with.

Cohen et al. (2019) state the radius R2 and then use R3, which takes all that the top class leaves for one rival. With a
bound of its own for each rival, which costs the risk only once, R2 is within reach: on the networks measured in
docs/planners.md this is nearly all that LVM-RS gains over Cohen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from lvmrs.forms import R2
from lvmrs.plan import Choice, Scope, Terms
from lvmrs.planners.base import Planner
from lvmrs.planners.forecast import best, forecasts
from lvmrs.planners.survey import Survey

__all__ = ["Votes"]


@dataclass(frozen=True)
class Votes(Planner):
    """The class with most votes; R2 with a bound for each rival, or R3 where that promises more."""

    scope: ClassVar[Scope] = "all inputs"

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """R2 or R3, whichever has the larger forecast."""
        survey = Survey.of(logits, maps=("hardmax",))
        row, forecast = best(forecasts(survey, terms, bounds=(), forms=(R2(),)))
        return forecast.choice(survey, row, terms)
