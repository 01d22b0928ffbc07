"""MACER (Zhai et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional

from lvmrs.kernel import checks
from lvmrs.training.objectives.base import Network, Objective, log_mean_softmax, nearest, noisy

_LBD = {0.25: 12.0, 0.5: 4.0, 1.0: 12.0}  # published for CIFAR-10


@dataclass(frozen=True)
class MACER(Objective):
    """Cross-entropy of the smoothed classifier, with a penalty for small certified radii (Zhai et al. 2020).

    The cross-entropy is that of the softmax averaged over ``samples`` noisy copies. The penalty takes the average of
    the softmax of ``beta`` times the logits. With p_A and p_B its two largest scores, an input whose label has p_A adds
    ``lbd`` · σ/2 · max(0, ``gamma`` − (Φ⁻¹(p_A) − Φ⁻¹(p_B))).
    """

    sigma: float
    samples: int = 16
    """Noisy copies of an input (k in the paper)."""
    lbd: float = None  # type: ignore[assignment]  # __post_init__ replaces None
    """Weight of the penalty (λ). None: the published value of the nearest ``sigma``, 12 for 0.25, 4 for 0.5, 12 for 1.
    For ``sigma`` = 1 the paper starts without the penalty, which this class does not do."""
    beta: float = 16.0
    """Inverse temperature of the softmax in the penalty (β)."""
    gamma: float = 8.0
    """Difference of quantiles above which there is no penalty (γ)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.count("samples", self.samples, least=1)
        if self.lbd is None:
            object.__setattr__(self, "lbd", nearest(self.sigma, _LBD))
        checks.nonnegative_number("lbd", self.lbd)
        checks.positive_number("beta", self.beta)
        checks.positive_number("gamma", self.gamma)

    @property
    def passes(self) -> int:
        """The noisy copies of an input."""
        return self.samples

    def loss(self, model: Network, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        """Cross-entropy of the averaged softmax of ``samples`` noisy copies of each input, and the penalty."""
        logits = model(noisy(x.repeat_interleave(self.samples, dim=0), self.sigma, generator))
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        cross_entropy = functional.nll_loss(log_mean_softmax(logits, self.samples), y)
        top, classes = log_mean_softmax(self.beta * logits, self.samples).exp().topk(2, dim=1)
        with torch.no_grad():  # gaps of scores that round to 0 or 1 are infinite, and have no gradient
            penalised = (classes[:, 0] == y) & (_gap(top) < self.gamma)
        penalty = (self.gamma - _gap(top[penalised])).sum() / len(x)
        return cross_entropy + self.lbd * self.sigma / 2 * penalty


def _gap(top: Tensor) -> Tensor:
    """The difference of Gaussian quantiles of the two largest scores."""
    quantiles: Tensor = torch.special.ndtri(top)
    return quantiles[:, 0] - quantiles[:, 1]
