"""Cohen, Rosenfeld and Kolter (2019): the class that wins most often, Clopper–Pearson at the full risk, R3."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from lvmrs.confidence.clopper_pearson import ClopperPearson
from lvmrs.forms import R3
from lvmrs.maps import Hardmax
from lvmrs.plan import Choice, Scope, Terms
from lvmrs.planners.base import Planner
from lvmrs.planners.survey import Survey

__all__ = ["Cohen"]


@dataclass(frozen=True)
class Cohen(Planner):
    """As published: the n0 samples pick the class, and nothing else is chosen."""

    scope: ClassVar[Scope] = "all inputs"

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """Votes, Clopper–Pearson and R3 for the class with most votes; ties go to the lowest index."""
        votes = Survey.of(logits, maps=("hardmax",)).mean[0]
        return Choice(
            top=int(votes.argmax()),
            classes=len(votes),
            map=Hardmax(),
            bound=ClopperPearson(),
            form=R3(),
            risk_top=terms.alpha,
        )
