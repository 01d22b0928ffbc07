"""Votes with a bound for each rival: the simple method that other methods should be compared with.

Cohen et al. (2019) state the radius R2 and then use R3, which supposes that one rival has all votes that the top class
does not have. Here each rival has its own bound, which costs the risk only once, so that R2 can be used. On the
networks of docs/planners.md, this is nearly all that LVM-RS gains over Cohen.
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
    """Certifies the class with most votes by R2 with a bound for each rival, or by R3 where its forecast is larger."""

    scope: ClassVar[Scope] = "all inputs"

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """Choose the class with most votes, and R2 or R3, whichever has the larger forecast."""
        survey = Survey.of(logits, maps=("hardmax",))
        row, forecast = best(forecasts(survey, terms, bounds=(), forms=(R2(),)))
        return forecast.choice(survey, row, terms)
