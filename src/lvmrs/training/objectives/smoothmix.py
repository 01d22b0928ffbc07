"""SmoothMix (Jeong et al. 2021)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks
from lvmrs.training.objectives.attack import attacked
from lvmrs.training.objectives.base import Network, Objective, log_mean, log_softmaxes, normal


@dataclass(frozen=True)
class SmoothMix(Objective):
    """Cross-entropy on noisy inputs, and on mixtures with adversarial inputs (Jeong et al. 2021).

    An attack on the smoothed classifier takes ``steps`` steps of length ``step_size`` without a limit on the distance.
    A mixture is (1 − λ) of the input and λ of the adversarial input, λ uniform in [0, ½]. Its label is (1 − λ) of the
    softmax averaged over the noisy copies of the input, and λ of the uniform distribution. The loss of an input is its
    mean cross-entropy plus ``eta`` · the mean KL divergence of the mixture from its label, if the averaged softmax of
    the input is largest at the correct class. Attack, inputs and mixtures use the same noise. The published training
    raises ``eta`` from 0 in its first 10 epochs; here it is constant.
    """

    sigma: float
    samples: int = 2
    """Noisy copies of an input (m in the paper)."""
    steps: int = 4
    """Steps of the attack (T)."""
    step_size: float = None  # type: ignore[assignment]  # __post_init__ replaces None
    """Length of a step (α). None: 2 ``sigma``, which is the published value for 0.25, 0.5 and 1."""
    eta: float = 5.0
    """Weight of the mixtures (η)."""
    mix_step: int = 0
    """Replaces each input by its adversarial input after this number of steps, 0 or 1 in the paper."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.count("samples", self.samples, least=1)
        checks.count("steps", self.steps, least=1)
        if self.step_size is None:
            if not self.sigma:
                raise InvalidArgumentError("step_size must be given: its default is 2 sigma, and sigma is 0")
            object.__setattr__(self, "step_size", 2.0 * self.sigma)
        checks.positive_number("step_size", self.step_size)
        checks.nonnegative_number("eta", self.eta)
        checks.count("mix_step", self.mix_step, least=0, most=self.steps - 1)

    @property
    def passes(self) -> int:
        """Each step of the attack, the inputs and the mixtures run every noisy copy."""
        return (self.steps + 2) * self.samples

    def loss(self, model: Network, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        """Cross-entropy of ``samples`` noisy copies of each input, and divergence of those of its mixture."""
        noise = self.sigma * normal(x.repeat_interleave(self.samples, dim=0), generator)
        shares = torch.rand(len(x), generator=generator, device=x.device, dtype=x.dtype) / 2
        places = attacked(model, x, y, noise, steps=self.steps, step=self.step_size)
        start, end = places[self.mix_step], places[-1]

        logs = self._logs(model, start, noise)
        mean = log_mean(logs)
        cross_entropy = functional.nll_loss(logs.flatten(0, 1), y.repeat_interleave(self.samples))

        mixed = torch.lerp(start, end, shares.view(-1, *[1] * (x.dim() - 1)))
        share = shares.unsqueeze(1)
        label = torch.logaddexp(mean + torch.log1p(-share), share.log() - math.log(mean.shape[1])).unsqueeze(1)
        divergence = (label.exp() * (label - self._logs(model, mixed, noise))).sum(dim=2)
        correct = (mean.argmax(dim=1) == y).unsqueeze(1)
        return cross_entropy + self.eta * (correct * divergence).mean()

    def _logs(self, model: Network, x: Tensor, noise: Tensor) -> Tensor:
        return log_softmaxes(model(x.repeat_interleave(self.samples, dim=0) + noise), self.samples)
