"""Training with Gaussian noise."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Generator, Tensor
from torch.nn import functional

from lvmrs.training.objectives.base import Network, Objective, noisy


@dataclass(frozen=True)
class Gaussian(Objective):
    """Cross-entropy on noisy inputs (Cohen et al. 2019)."""

    sigma: float

    def loss(self, model: Network, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        """Cross-entropy of one noisy copy of each input."""
        return functional.cross_entropy(model(noisy(x, self.sigma, generator)), y)
