"""The method of Cohen, Rosenfeld and Kolter (2019): votes, Clopper–Pearson at the full risk, and R3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from lvmrs.kernel.bounds.clopper_pearson import ClopperPearson
from lvmrs.kernel.maps import Hardmax
from lvmrs.kernel.radius import R3
from lvmrs.kernel.terms import Choice, Terms
from lvmrs.planners.search import ScoreMoments
from lvmrs.planners.votes import OF_VOTES, Votes


@dataclass(frozen=True)
class Cohen(Votes):
    """The method as published: the n0 samples decide the class, and nothing else is chosen."""

    settled: ClassVar[Mapping[str, str]] = {**OF_VOTES, "form": "its radius is R3, as published"}

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """Choose the class with most votes (the lowest index in a tie), Clopper–Pearson and R3."""
        votes = ScoreMoments.of(logits, maps=("hardmax",)).mean[0]
        return Choice(
            top=int(votes.argmax()),
            classes=len(votes),
            map=Hardmax(),
            bound=ClopperPearson(),
            form=R3(),
            risk_top=terms.alpha,
        )
