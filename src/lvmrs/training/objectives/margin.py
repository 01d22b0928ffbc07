"""Training with a margin, for networks of known Lipschitz constant."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Generator, Tensor
from torch.nn import functional

from lvmrs.errors import ModelError
from lvmrs.kernel import checks
from lvmrs.models.lipschitz.stated import known_lipschitz
from lvmrs.training.objectives.base import Network, Objective, noisy


@dataclass(frozen=True)
class Margin(Objective):
    """Cross-entropy with a margin on noisy inputs, for networks with a fixed Lipschitz constant.

    The loss subtracts √2 ``margin`` · L from the logit of the true class, and applies cross-entropy at the temperature
    ``temperature`` · L. L is the constant of the model: the logits of a γ-Lipschitz network scale with γ, and so does
    the margin for a radius. For L = 1 this is the loss of Prach and Lampert (2022), used by Wang and Manchester (2023).
    """

    sigma: float
    margin: float = 1.0
    temperature: float = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.nonnegative_number("margin", self.margin)
        checks.positive_number("temperature", self.temperature)

    def check(self, model: object) -> None:
        """Raise if the Lipschitz constant of the model is not known."""
        self._constant(model)

    def _constant(self, model: object) -> float:
        known = known_lipschitz(model)
        if known is None:
            raise ModelError(
                "margins are distances in networks of a known Lipschitz constant, and the model has none; take a "
                "sandwich network, or give the module an attribute lipschitz"
            )
        return known

    def loss(self, model: Network, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        """Cross-entropy with a margin, of one noisy copy of each input."""
        logits = model(noisy(x, self.sigma, generator))
        lowered = logits / self._constant(model) - math.sqrt(2) * self.margin * functional.one_hot(y, logits.shape[1])
        return functional.cross_entropy(lowered / self.temperature, y) * self.temperature
