"""Consistency regularization (Jeong and Shin 2020)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Generator, Tensor
from torch.nn import functional

from lvmrs.kernel import checks
from lvmrs.training.objectives.base import Network, Objective, log_mean, log_softmaxes, nearest, noisy

_LBD = {0.25: 20.0, 0.5: 10.0, 1.0: 10.0}  # published for CIFAR-10


@dataclass(frozen=True)
class Consistency(Objective):
    """Cross-entropy on noisy copies, with a penalty if the copies of an input disagree (Jeong and Shin 2020).

    With F_i the softmax of copy i and F̄ the mean over the copies, the loss of an input is the mean cross-entropy plus
    ``lbd`` · mean KL(F̄ ‖ F_i) plus ``eta`` · the entropy of F̄.
    """

    sigma: float
    samples: int = 2
    """Noisy copies of an input (m in the paper)."""
    lbd: float = None  # type: ignore[assignment]  # __post_init__ replaces None
    """Weight of the divergence (λ). None: the published value of the nearest ``sigma``, 20 for 0.25, 10 for 0.5, 1."""
    eta: float = 0.5
    """Weight of the entropy (η)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.count("samples", self.samples, least=2)
        if self.lbd is None:
            object.__setattr__(self, "lbd", nearest(self.sigma, _LBD))
        checks.nonnegative_number("lbd", self.lbd)
        checks.nonnegative_number("eta", self.eta)

    @property
    def passes(self) -> int:
        """The noisy copies of an input."""
        return self.samples

    def loss(self, model: Network, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        """Cross-entropy, divergence and entropy of ``samples`` noisy copies of each input."""
        copies = noisy(x.repeat_interleave(self.samples, dim=0), self.sigma, generator)
        logs = log_softmaxes(model(copies), self.samples)
        mean = log_mean(logs)
        shares = mean.exp()
        cross_entropy = functional.nll_loss(logs.flatten(0, 1), y.repeat_interleave(self.samples))
        divergence = (shares.unsqueeze(1) * (mean.unsqueeze(1) - logs)).sum(dim=2).mean()
        entropy = -(shares * mean).sum(dim=1).mean()
        return cross_entropy + self.lbd * divergence + self.eta * entropy
