"""Cohen, Rosenfeld and Kolter (2019): the class that wins most often, Clopper–Pearson at the full risk, R3."""

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from lvmrs.plan import Plan, Terms
from lvmrs.planners.base import Planner
from lvmrs.planners.survey import Survey
from lvmrs.sampling import Stream

__all__ = ["Cohen"]


@dataclass(frozen=True)
class Cohen(Planner):
    """As published: the n0 samples pick the class, and nothing else is chosen."""

    def plan(self, scores: Iterable[Tensor], terms: Terms, origin: Stream) -> Plan:
        """Hardmax, Clopper–Pearson and R3 for the class with most votes; ties go to the lowest index."""
        votes = Survey.of(scores, maps=("hardmax",), temperatures=(), mass=1.0).mean[0]
        return Plan(
            planner="Cohen",
            top=int(votes.argmax()),
            classes=len(votes),
            map="hardmax",
            bound="clopper_pearson",
            radius="r3",
            risk_top=terms.alpha,
            origin=origin,
            scope="all inputs",
        )
