"""Duels: the top class against each rival, with one classifier for all inputs and no search.

For each rival k, q_k is the probability that the top class beats k under noise. Each q_k is bounded at the full risk,
and the certified radius is min_k σ Φ⁻¹(q_k). For logits that are linear in the input this is the distance to the
decision boundary itself.

**Hard or soft.** Hard duels (``width=None``) need no choice and had the largest average radius wherever no Lipschitz
constant was known (docs/planners.md). Soft duels can be better in two cases:

- A Lipschitz constant of the network is known, and the ramp radius uses it. Take ``width="chosen"`` for the largest
  radius, or one number for all inputs if the classifier is to be deployed.
- Many inputs are close to a tie, and it matters most how many are certified at all. Take one number for all inputs,
  about half the typical standard deviation of the margin, as ``calibrated_width`` and ``lvmrs calibrate`` find it. The
  radii become smaller.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks
from lvmrs.kernel.bounds.base import Bound
from lvmrs.kernel.bounds.betting import Betting
from lvmrs.kernel.bounds.clopper_pearson import ClopperPearson
from lvmrs.kernel.checks import Floats
from lvmrs.kernel.maps import Duel, Map, SoftDuel
from lvmrs.kernel.method import Scope
from lvmrs.kernel.radius import R3, Form, Ramp
from lvmrs.kernel.scores import in_portions
from lvmrs.kernel.terms import Choice, Terms
from lvmrs.planners.base import Planner
from lvmrs.planners.search import geometric

# Number of classes among which the winner is searched.
_CANDIDATES = 16
# Number of samples that are compared at a time; widths are tried on the first portion.
_PORTION = 1024
# These widths are tried, in standard deviations of the margin to the nearest rival.
_WIDTHS = geometric(0.05, 20, 24)
# Number of nearest rivals on which widths are tried.
_NEAREST = 8


@dataclass(frozen=True)
class Duels(Planner):
    """Certifies the class with the best hardest duel, with each duel at the full risk.

    >>> Duels().scope, Duels("chosen").scope
    ('all inputs', 'this input')
    """

    width: float | Literal["chosen"] | None = None
    """None for hard duels, a positive number for soft ones, or "chosen" to choose it for each input.

    "chosen" needs a Lipschitz constant: without one, no width gains radius over hard duels.
    """

    settled: ClassVar[Mapping[str, str]] = {
        "bound": "hard duels have Clopper–Pearson's bound, which is exact, and soft ones that of betting",
        "map": "duels compare the logits themselves",
        "temperature": "duels compare the logits themselves, and have a width instead",
        "mass": "the two scores of a duel sum to 1",
        "form": "hard duels have R3, and soft ones the ramp radius where a Lipschitz constant is known",
    }

    def __post_init__(self) -> None:
        if isinstance(self.width, str):
            if self.width != "chosen":
                raise InvalidArgumentError(f"width must be a number, 'chosen' or None, got {self.width!r}")
        elif self.width is not None:
            object.__setattr__(self, "width", checks.positive_number("width", self.width))

    @property
    def needs_constant(self) -> bool:
        """Whether the width is chosen for each input, by the ramp radius."""
        return self.width == "chosen"

    @property
    def uses_constant(self) -> bool:
        """Whether the duels are soft: hard ones have no Lipschitz constant."""
        return self.width is not None

    @property
    def scope(self) -> Scope:
        """All inputs, unless the width is chosen for each input."""
        return "this input" if self.width == "chosen" else "all inputs"

    def classifier(self, noise: str) -> str:
        """Describes the classifier that answers with the winner of all duels."""
        widths = {"None": "duels", "chosen": "duels, hard or soft with a width chosen for each input,"}
        duels = widths.get(str(self.width), f"soft duels of width {self.width}")
        return f"the classifier that takes the winner of all {duels} under {noise}"

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """Choose the class with the best hardest duel, and the width of the duels."""
        wins = _Wins(logits)
        top, order = wins.winner()
        duel: Map = Duel()
        if self.width == "chosen" and not math.isinf(terms.lipschitz):  # without a constant, no width gains radius
            duel = _best_width(wins.first, top, order, terms)
        elif isinstance(self.width, float):
            duel = SoftDuel(self.width)
        bound, form = _proved_by(duel, terms)
        return Choice(
            top=top,
            classes=wins.classes,
            map=duel,
            bound=bound,
            form=form,
            risk_top=0.0,
            risk_rival=terms.alpha,
            alone=bound.alone(order, others=0),
        )


def calibrated_width(samples: Iterable[Iterable[Tensor]]) -> float:
    """Find one width of soft duels for all inputs, on held-out inputs.

    The width is half the median over the inputs of the standard deviation of the margin under noise: the margin of
    the input's top class over its strongest rival.

    Args:
        samples: for each held-out input, the logits of noisy copies in batches (samples, classes).

    Returns:
        The width, in units of the logits.

    >>> calibrated_width([[torch.tensor([[3.0, 0.0], [1.0, 0.0]])]])
    0.5
    """
    found = []
    for logits in samples:
        wins = _Wins(logits)
        top, order = wins.winner()
        found.append(float(_margins(wins.first, top, order[:1]).std()))
    if not found:
        raise InvalidArgumentError("no calibration inputs were given; give at least one")
    width = float(np.median(found)) / 2
    if not width > 0:
        raise InvalidArgumentError("the margins do not vary under noise, so no width can be calibrated; use hard duels")
    return width


class _Wins:
    """Counts how often each candidate beat each class, and keeps the logits of the first samples."""

    def __init__(self, logits: Iterable[Tensor]) -> None:
        portions = in_portions(logits, _PORTION)
        first = next(portions, None)
        if first is None:
            raise InvalidArgumentError("no selection scores were given; n0 must be at least 1")
        self.first, self.classes = first.clone(), first.shape[1]
        votes = torch.bincount(first.argmax(dim=1).cpu(), minlength=self.classes)
        # A class may win all its duels without any votes, so classes with the largest mean logits are candidates too.
        by_votes = votes.argsort(descending=True, stable=True)[: _CANDIDATES // 2]
        by_mean = first.double().mean(dim=0).cpu().argsort(descending=True, stable=True)[:_CANDIDATES]
        self._candidates = list(dict.fromkeys([*by_votes.tolist(), *by_mean.tolist()]))[:_CANDIDATES]
        self._counts = torch.zeros(len(self._candidates), self.classes, dtype=torch.long)
        for portion in itertools.chain([self.first], portions):
            for row, k in enumerate(self._candidates):
                self._counts[row] += (portion[:, k : k + 1] > portion).sum(dim=0).cpu()

    def winner(self) -> tuple[int, list[int]]:
        """The candidate with the best hardest duel, and its rivals, the hardest first."""
        counts = self._counts.clone()
        counts[torch.arange(len(counts)), self._candidates] = torch.iinfo(torch.long).max
        row = int(counts.min(dim=1).values.argmax())
        return self._candidates[row], counts[row].argsort(stable=True)[:-1].tolist()


def _proved_by(duel: Map, terms: Terms) -> tuple[Bound, Form]:
    bound: Bound = ClopperPearson() if duel.binary else Betting()
    return bound, R3() if math.isinf(float(duel.slopes(terms.lipschitz).one)) else Ramp()


def _margins(logits: Tensor, top: int, rivals: list[int]) -> Floats:
    exact = logits.double()
    return (exact[:, top : top + 1] - exact[:, rivals]).cpu().numpy()


def _best_width(logits: Tensor, top: int, order: list[int], terms: Terms) -> Map:
    """The soft or hard duel with the largest radius forecast for n samples."""
    nearest = order[:_NEAREST]
    spread = float(_margins(logits, top, nearest[:1]).std())
    tried: list[Map] = [Duel()]
    if spread > 0:
        tried += [SoftDuel(width * spread) for width in _WIDTHS]
    none = torch.tensor([], dtype=torch.long)
    expected = []
    for duel in tried:
        q = duel.columns(logits, top, torch.tensor(nearest), none).cpu().double().numpy()
        bound, form = _proved_by(duel, terms)
        low = bound.forecast(q.mean(axis=0), q.var(axis=0), terms.n, terms.alpha).min()
        low = np.maximum(low - terms.allowance(duel, form), 0.0)
        radius = form.radius(low, 1 - low, sigma=terms.sigma, slopes=duel.slopes(terms.lipschitz))
        expected.append(float(radius) if radius > 0 else min(0.0, 2 * float(low) - 1))
    return tried[int(np.argmax(expected))]
