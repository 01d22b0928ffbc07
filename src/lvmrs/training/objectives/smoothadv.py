"""SmoothAdv (Salman et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Generator, Tensor
from torch.nn import functional

from lvmrs.kernel import checks
from lvmrs.training.objectives.attack import attacked
from lvmrs.training.objectives.base import Network, Objective, normal


@dataclass(frozen=True)
class SmoothAdv(Objective):
    """Cross-entropy on noisy copies of adversarial inputs for the smoothed classifier (Salman et al. 2019).

    An attack takes ``steps`` steps of projected gradient ascent within distance ``epsilon``, on −log of the softmax
    averaged over ``samples`` noisy copies. Every step and the training loss use the same noise.
    """

    sigma: float
    epsilon: float = 0.5
    steps: int = 2
    samples: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive_number("epsilon", self.epsilon)
        checks.count("steps", self.steps, least=1)
        checks.count("samples", self.samples, least=1)

    @property
    def passes(self) -> int:
        """Each step of the attack and the loss run every noisy copy."""
        return (self.steps + 1) * self.samples

    def loss(self, model: Network, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        """Cross-entropy of ``samples`` noisy copies of each adversarial input."""
        noise = self.sigma * normal(x.repeat_interleave(self.samples, dim=0), generator)
        step = 2 * self.epsilon / self.steps
        moved = attacked(model, x, y, noise, steps=self.steps, step=step, radius=self.epsilon)[-1]
        return functional.cross_entropy(
            model(moved.repeat_interleave(self.samples, dim=0) + noise), y.repeat_interleave(self.samples)
        )
