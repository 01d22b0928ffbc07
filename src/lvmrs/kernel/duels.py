"""Duels: the top class against one rival at a time.

A duel measures, for each rival k, how often the top class A beats k: q_k = E ψ(f_A − f_k), with ψ the step (``Duel``)
or a ramp of some width (``SoftDuel``). Votes count only the winner of each sample, and lose this pairwise information.
**The duel classifier** answers with the class whose q_k exceeds ½ for every rival k (the Condorcet winner), and
abstains if there is none. Since ψ(m) + ψ(−m) ≤ 1, two classes cannot both win.

The pair (q_k, 1 − q_k) is a smoothed classifier of two classes, so every form of the radius holds for it, with 1 − q_k
as the score of the rival. Ties of logits count as lost. Several rivals are pooled by their largest logit: a duel with
the best of them is won no more often than a duel with each of them.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks
from lvmrs.kernel.checks import Numbers
from lvmrs.kernel.maps import Map, Slopes
from lvmrs.kernel.moments import statistics_device

__all__ = ["Duel", "SoftDuel"]


def _rivals(logits: Tensor, alone: Tensor, pooled: Tensor) -> Tensor:
    """The logits of each class of ``alone``, and the largest logit of ``pooled``."""
    parts = [logits[:, alone.to(logits.device)]]
    if len(pooled):
        parts.append(logits[:, pooled.to(logits.device)].amax(dim=1, keepdim=True))
    return torch.cat(parts, dim=1)


class _Duels(Map):
    paired: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mass != 1.0:
            raise InvalidArgumentError(f"mass must be 1 for a duel, got {self.mass:g}")


class Duel(_Duels):
    """The step: 1 where the logit of the top class is the larger one, 0 elsewhere.

    >>> logits = torch.tensor([[2.0, 0.0, 1.0], [0.5, 0.0, 1.0]])
    >>> Duel().columns(logits, top=0, alone=torch.tensor([1, 2]), pooled=torch.tensor([], dtype=torch.long)).tolist()
    [[True, True], [True, False]]
    """

    name: ClassVar[str] = "duel"
    binary: ClassVar[bool] = True
    tempered: ClassVar[bool] = False

    def columns(self, logits: Tensor, top: int, alone: Tensor, pooled: Tensor) -> Tensor:
        """Whether the top class beats each rival."""
        return logits[:, top : top + 1] > _rivals(logits, alone, pooled)

    @classmethod
    def constants(cls, lipschitz: Numbers, *, temperature: Numbers = 1.0, mass: Numbers = 1.0) -> Slopes:
        """Infinite constants, since the step is discontinuous."""
        unknown = np.full(np.shape(checks.constant(lipschitz)), np.inf)
        return Slopes(unknown, unknown)

    def classifier(self, noise: str) -> str:
        """The duel classifier."""
        return f"the classifier that takes the winner of all duels under {noise}"


class SoftDuel(_Duels):
    """The ramp: clip(½ + m/(2t), 0, 1) of the margin m, rising over the width −t … t.

    If the logits have the Lipschitz constant L, the margin has √2 L, and the score L/(√2 t).

    >>> logits = torch.tensor([[2.0, 0.0, 1.5]])
    >>> SoftDuel(2.0).columns(logits, top=0, alone=torch.tensor([1]), pooled=torch.tensor([2])).tolist()
    [[1.0, 0.625]]
    """

    name: ClassVar[str] = "soft-duel"

    def columns(self, logits: Tensor, top: int, alone: Tensor, pooled: Tensor) -> Tensor:
        """By how much the top class beats each rival."""
        exact = logits.to(statistics_device(logits.device)).to(torch.float64)
        margins = exact[:, top : top + 1] - _rivals(exact, alone, pooled)
        return margins.div_(2 * self.temperature).add_(0.5).clamp_(0.0, 1.0)

    @classmethod
    def constants(cls, lipschitz: Numbers, *, temperature: Numbers = 1.0, mass: Numbers = 1.0) -> Slopes:
        """L/(√2 t) for the score, √2 times as much for the pair (q, 1 − q)."""
        slope, t = checks.constant(lipschitz), checks.positive("temperature", temperature)
        checks.broadcast(lipschitz=slope, temperature=t)
        return Slopes(slope / t, slope / t / np.sqrt(2))

    def classifier(self, noise: str) -> str:
        """The soft duel classifier."""
        width = f"{self.temperature:.4g}"
        return f"the classifier that takes the winner of all soft duels of width {width} under {noise}"
