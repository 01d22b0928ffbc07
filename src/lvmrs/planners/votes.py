"""Votes with a bound for each rival: the baseline for other methods.

Cohen et al. (2019) state the radius R2 and then use R3, which assumes that one rival has all remaining votes. Here each
rival has its own bound; all of them together cost the risk of one, so that R2 can be used. On the
networks of docs/planners.md, this is nearly all that LVM-RS gains over Cohen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import scipy
from torch import Tensor

from lvmrs.kernel.method import ABSTAIN, Scope
from lvmrs.kernel.radius import R2
from lvmrs.kernel.terms import Choice, Terms
from lvmrs.planners.base import Planner
from lvmrs.planners.search import ScoreMoments, best, forecasts

OF_VOTES = {
    "bound": "votes have Clopper–Pearson's bound, which is exact (method fixed takes another one with map hardmax)",
    "map": "it counts votes, which are the map hardmax",
    "temperature": "votes are the same at every temperature",
    "mass": "votes are shares of 1",
    "width": "it counts votes, and a width is for duels",
}
"""Why votes do not take the settings of other methods, by the names of the settings."""


@dataclass(frozen=True)
class Votes(Planner):
    """Certifies the class with most votes by R2 with a bound for each rival, or by R3 where its forecast is larger."""

    scope: ClassVar[Scope] = "all inputs"
    uses_constant: ClassVar[bool] = False
    settled: ClassVar[Mapping[str, str]] = {**OF_VOTES, "form": "it takes R2 or R3, whichever has the larger forecast"}

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """Choose the class with most votes, and R2 or R3, whichever has the larger forecast."""
        moments = ScoreMoments.of(logits, maps=("hardmax",))
        row, forecast = best(forecasts(moments, terms, bounds=("clopper_pearson",), forms=(R2(),)))
        return forecast.choice(moments, row, terms)


def winner_of_votes(logits: Iterable[Tensor], alpha: float) -> int:
    """The class with most votes, or −1 if the test does not reject a tie (Cohen et al. 2019, Predict).

    The votes of the two leading classes are compared by an exact binomial test, which is wrong with probability at most
    ``alpha``.
    """
    moments = ScoreMoments.of(logits, maps=("hardmax",))
    votes = moments.mean[0] * moments.n0
    first, second = (int(k) for k in (-votes).argsort(kind="stable")[:2])
    won, lost = round(votes[first]), round(votes[second])
    return first if sign_test(won, lost) <= alpha else ABSTAIN


def sign_test(won: int, lost: int) -> float:
    """The two-sided p-value of the sign test: the probability of a result at least as far from a tie by chance.

    >>> print(f"{sign_test(9, 1):.4f}, {sign_test(5, 5):g}")
    0.0215, 1
    """
    return min(1.0, 2 * float(scipy.special.betainc(max(won, lost), min(won, lost) + 1, 0.5)))
