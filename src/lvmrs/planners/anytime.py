"""Plans for sampling that may stop at any time: wraps another planner, and uses an anytime bound."""

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
from lvmrs.kernel.method import Scope
from lvmrs.kernel.terms import Choice, Terms
from lvmrs.planners.base import Planner

# Pseudo-counts added to the ones and zeros of the selection sample for the prior, so that means near 0 and 1 stay
# possible. Smaller values give larger radii to inputs that win every duel, which dominate the average radius.
_BESIDE = 0.1
# A larger selection sample is scaled down, since the bound limits the parameters of its prior.
_MOST = beta_mixture.MOST / 2


@dataclass(frozen=True)
class Anytime(Planner):
    """Delegates the choice to another planner, and replaces its bound by an anytime bound.

    The selection sample also gives the prior of the bound, and the strongest rival, which comes first in the plan.
    """

    planner: Planner
    """The planner that chooses class, map and form."""
    staged: bool = False
    """Whether 0/1 scores use ``Staged``, with bounds at a few stages only, for comparisons."""

    def __post_init__(self) -> None:
        checks.instance("planner", self.planner, Planner, "a planner such as Duels()")
        if isinstance(self.planner, Anytime):
            raise InvalidArgumentError("planner is Anytime already; use it without wrapping it again")

    @classmethod
    def of(cls, planner: Planner) -> Anytime:
        """The planner itself if it is an ``Anytime``, else the planner wrapped in one."""
        return planner if isinstance(planner, cls) else cls(planner)

    @property
    def needs_constant(self) -> bool:
        """Delegates to the wrapped planner."""
        return self.planner.needs_constant

    @property
    def uses_constant(self) -> bool:
        """Delegates to the wrapped planner."""
        return self.planner.uses_constant

    @property
    def scope(self) -> Scope:
        """Delegates to the wrapped planner."""
        return self.planner.scope

    def classifier(self, noise: str) -> str:
        """Delegates to the wrapped planner."""
        return self.planner.classifier(noise)

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """The choice of the wrapped planner, with the strongest rival first, and an anytime bound with a prior."""
        shown = [batch.clone() for batch in logits]
        choice = self.planner.choose(shown, terms)
        if not isinstance(choice, Choice):  # Planner.plan raises
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
            ones = (columns := _columns(choice, together)).sum(dim=0).double().numpy()
            share = min(1.0, _MOST / len(columns))
            counts = (share * ones + _BESIDE, share * (len(columns) - ones) + _BESIDE)
            bound = BetaMixture(*(tuple(part.tolist()) for part in counts))
        return dataclasses.replace(choice, bound=bound)


def _columns(choice: Choice, logits: Tensor) -> Tensor:
    """The columns of the selection sample that the proof will bound."""
    alone, pooled = (torch.tensor(rivals, dtype=torch.long) for rivals in choice.rivals)
    return choice.map.columns(logits, choice.top, alone, pooled).cpu()
