"""Votes with the risk shared by all classes. A run records a hash of this file, so it holds nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from lvmrs import Choice, Cohen, Planner, Terms
from lvmrs.kernel.bounds.clopper_pearson import ClopperPearson
from lvmrs.kernel.maps import Hardmax
from lvmrs.kernel.radius import R2

__all__ = ["VotesWithUnion"]


@dataclass(frozen=True)
class VotesWithUnion(Planner):
    """Votes with Clopper–Pearson for every class at the risk α/c, and R2."""

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """The class with most votes."""
        plain = Cohen().choose(logits, terms)
        share = terms.alpha / plain.classes
        return Choice(
            top=plain.top,
            classes=plain.classes,
            map=Hardmax(),
            bound=ClopperPearson(),
            form=R2(),
            risk_top=share,
            risk_rival=share,
        )
