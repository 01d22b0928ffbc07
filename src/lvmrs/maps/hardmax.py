"""Hardmax: all mass on the largest logit, so that a mean score is a share of votes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from lvmrs import _checks
from lvmrs._checks import Numbers
from lvmrs.maps.base import SimplexMap, Slopes, usable

__all__ = ["Hardmax", "hardmax"]


def hardmax(logits: Tensor, *, temperature: float = 1.0, mass: float = 1.0) -> Tensor:
    """All mass on the largest logit; of equal logits the one with the lowest index counts as largest.

    Args:
        logits: finite logits; the last dimension is the classes.
        temperature: has no effect.
        mass: what the scores sum to.

    Returns:
        Scores of the same shape and precision (float32 for 16-bit logits).

    >>> hardmax(torch.tensor([0.5, 2.0, 2.0])).tolist()
    [0.0, 1.0, 0.0]
    """
    logits, _, mass = usable(logits, temperature, mass)
    return torch.zeros_like(logits).scatter_(-1, logits.argmax(dim=-1, keepdim=True), mass)


class Hardmax(SimplexMap):
    """Votes: 0/1 scores that have no Lipschitz constant."""

    name: ClassVar[str] = "hardmax"
    binary: ClassVar[bool] = True
    tempered: ClassVar[bool] = False

    def apply(self, logits: Tensor) -> Tensor:
        """All mass on the largest logit."""
        return hardmax(logits, mass=self.mass)

    @classmethod
    def over_temperatures(cls, shifted: Tensor, temperatures: Sequence[float], mass: float) -> Iterator[Tensor]:
        """The same scores for each temperature."""
        p = hardmax(shifted, mass=mass).t().contiguous()
        return (p for _ in temperatures)

    def columns(self, logits: Tensor, top: int, alone: Tensor, pooled: Tensor) -> Tensor:
        """Which column has the largest logit, as booleans; the columns are those of every simplex map."""
        width = 1 + len(alone) + bool(len(pooled))
        column = torch.full((logits.shape[1],), width)  # one column more for classes that are in none
        column[top] = 0
        column[alone] = torch.arange(1, 1 + len(alone))
        column[pooled] = width - 1
        won = column.to(logits.device)[logits.argmax(dim=1)]
        shares = torch.zeros(len(logits), width + 1, dtype=torch.bool, device=logits.device)
        return shares.scatter_(1, won[:, None], True)[:, :width]

    @classmethod
    def constants(cls, lipschitz: Numbers, *, temperature: Numbers = 1.0, mass: Numbers = 1.0) -> Slopes:
        """Infinite constants, since votes jump."""
        arguments = _checks.constant(lipschitz), _checks.positive("temperature", temperature), _checks.mass(mass)
        _checks.broadcast(lipschitz=arguments[0], temperature=arguments[1], mass=arguments[2])
        unknown = np.full(np.broadcast_shapes(*(array.shape for array in arguments)), np.inf)
        return Slopes(unknown, unknown)
