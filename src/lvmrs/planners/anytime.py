"""Plans for sampling that may stop at any time: the choice of another planner, proved with an anytime bound."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks
from lvmrs.kernel.bounds import beta_mixture
from lvmrs.kernel.bounds.base import Bound
from lvmrs.kernel.bounds.beta_mixture import BetaMixture
from lvmrs.kernel.bounds.betting_mixture import BettingMixture
from lvmrs.kernel.bounds.clopper_pearson import Staged
from lvmrs.kernel.checks import Floats
from lvmrs.kernel.terms import Choice, Scope, Terms
from lvmrs.planners.base import Planner

__all__ = ["Anytime"]

# The prior is the selection sample and this part of a sample beside: both ends must stay possible. The less it is, the
# larger the radius of inputs that win every duel, which have most of the average radius.
_BESIDE = 0.1
# Only a share of the selection sample is taken where it is so large that the prior could not be computed with.
_MOST = beta_mixture.MOST / 2


@dataclass(frozen=True)
class Anytime(Planner):
    """Chooses as another planner does, and proves with bounds that hold at every moment at once.

    The selection sample also says what the bounds expect, and which rival is the nearest: it comes first in the plan.
    """

    planner: Planner
    """The planner that chooses class, map and form."""
    staged: bool = False
    """Whether 0/1 scores have bounds at a few stages, to compare others with, and not at every moment."""

    def __post_init__(self) -> None:
        checks.instance("planner", self.planner, Planner, "a planner such as Duels()")
        if isinstance(self.planner, Anytime):
            raise InvalidArgumentError("planner is for sampling that may stop at any time already; use it as it is")

    @classmethod
    def of(cls, planner: Planner) -> Anytime:
        """The planner itself if it is for sampling that may stop at any time; else one that chooses as it does."""
        return planner if isinstance(planner, cls) else cls(planner)

    @property
    def needs_constant(self) -> bool:
        """As of the planner."""
        return self.planner.needs_constant

    @property
    def uses_constant(self) -> bool:
        """As of the planner."""
        return self.planner.uses_constant

    @property
    def scope(self) -> Scope:
        """As of the planner."""
        return self.planner.scope

    def classifier(self, noise: str) -> str:
        """As of the planner."""
        return self.planner.classifier(noise)

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """Choose as the planner does, with the nearest rival first, and an anytime bound that expects what was seen."""
        shown = [batch.clone() for batch in logits]
        choice = self.planner.choose(shown, terms)
        if not isinstance(choice, Choice):  # the one who calls says so
            return choice
        together, (alone, pooled) = torch.cat(shown), choice.rivals
        tops = int(not choice.map.paired)
        bound: Bound = BetaMixture() if choice.map.binary else BettingMixture()
        if alone:
            means = _columns(choice, together).double().mean(dim=0)[tops : tops + len(alone)]
            order = (means if tops else -means).argsort(descending=True, stable=True)
            nearest = [alone[place] for place in order.tolist()]
            choice = dataclasses.replace(choice, alone=bound.alone(nearest, tops + bool(pooled)) or tuple(nearest))
        if choice.map.binary and self.staged:
            bound = Staged()
        elif choice.map.binary:
            wins = (columns := _columns(choice, together)).sum(dim=0).double().numpy()
            bound = BetaMixture(*(tuple(part.tolist()) for part in _prior(wins, len(columns))))
        return dataclasses.replace(choice, bound=bound)


def _prior(wins: Floats, n0: int) -> tuple[Floats, Floats]:
    """The ones and zeros that are expected after so many ones among n0 other samples: a and b of Beta priors."""
    share = min(1.0, _MOST / n0)
    return share * wins + _BESIDE, share * (n0 - wins) + _BESIDE


def _columns(choice: Choice, logits: Tensor) -> Tensor:
    """The columns that will be bounded, of the selection sample."""
    alone, pooled = (torch.tensor(rivals, dtype=torch.long) for rivals in choice.rivals)
    return choice.map.columns(logits, choice.top, alone, pooled).cpu()
