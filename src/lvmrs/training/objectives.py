"""Training objectives: each defines the loss of one batch.

The loss takes the model, inputs in [0, 1], labels and a random generator, and draws fresh noise at each call. The
settings of an objective are its fields. A new objective is a subclass of ``Objective`` with ``sigma`` and ``loss``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from lvmrs.errors import InvalidArgumentError, ModelError
from lvmrs.kernel import checks
from lvmrs.models.lipschitz.stated import known_lipschitz

__all__ = ["Denoising", "Diffusion", "Gaussian", "Margin", "Objective", "SmoothAdv"]

_Network = Callable[[Tensor], Tensor]


class Objective(ABC):
    """Base class: the loss of one batch, and whether it trains a classifier or a denoiser."""

    sigma: float
    """Standard deviation of the noise for which the model is trained and evaluated."""
    classifies = True
    """True if the model returns logits, False if it returns images."""

    def __post_init__(self) -> None:
        self.check_sigma()

    def check_sigma(self) -> None:
        """Raise if the standard deviation is missing, negative or not finite."""
        checks.single("sigma", checks.at_least_zero("sigma", getattr(self, "sigma", None)))  # type: ignore[arg-type]

    def check(self, model: object) -> None:  # noqa: B027
        """Raise if the objective cannot train this model; by default every model is accepted."""

    @abstractmethod
    def loss(self, model: _Network, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        """The mean loss over the batch.

        Args:
            model: the network, in training mode.
            x: a batch of inputs in [0, 1].
            y: their labels.
            generator: the source of all random numbers, so that a training can be resumed exactly.

        Returns:
            A differentiable tensor of one number.
        """


@dataclass(frozen=True)
class Gaussian(Objective):
    """Cross-entropy on noisy inputs (Cohen et al. 2019)."""

    sigma: float

    def loss(self, model: _Network, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        """Cross-entropy of one noisy copy of each input."""
        return functional.cross_entropy(model(_noisy(x, self.sigma, generator)), y)


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

    def loss(self, model: _Network, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        """Cross-entropy of ``samples`` noisy copies of each adversarial input."""
        copies = x.repeat_interleave(self.samples, dim=0)
        noise = self.sigma * _normal(copies, generator)
        moved = self._adversarial(model, x, y, noise)
        return functional.cross_entropy(
            model(moved.repeat_interleave(self.samples, dim=0) + noise), y.repeat_interleave(self.samples)
        )

    def _adversarial(self, model: _Network, x: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        """The adversarial inputs; the attack does not change the running statistics of batch normalisation."""
        step = 2 * self.epsilon / self.steps
        delta = torch.zeros_like(x)
        with _frozen_statistics(model):
            for _ in range(self.steps):
                delta.requires_grad_(True)
                logits = model((x + delta).repeat_interleave(self.samples, dim=0) + noise)
                log_mean = _log_of_mean_softmax(logits, self.samples)
                (slope,) = torch.autograd.grad(functional.nll_loss(log_mean, y, reduction="sum"), delta)
                delta = _within(delta.detach() + step * _unit(slope), self.epsilon)
                delta = (x + delta).clamp(0, 1) - x
        return (x + delta).detach()


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
        checks.single("margin", checks.at_least_zero("margin", self.margin))
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

    def loss(self, model: _Network, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        """Cross-entropy with a margin, of one noisy copy of each input."""
        logits = model(_noisy(x, self.sigma, generator))
        scale = self._constant(model)
        lowered = logits / scale - math.sqrt(2) * self.margin * functional.one_hot(y, logits.shape[1])
        return functional.cross_entropy(lowered / self.temperature, y) * self.temperature


@dataclass(frozen=True)
class Denoising(Objective):
    """Mean squared error of the denoised image (Salman et al. 2020)."""

    sigma: float
    classifies = False

    def loss(self, model: _Network, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        """Squared error of one noisy copy of each input; labels are not used."""
        return functional.mse_loss(model(_noisy(x, self.sigma, generator)), x)


@dataclass(frozen=True)
class Diffusion(Objective):
    """Mean squared error of the noise that a diffusers UNet predicts, at a random step of a schedule (Ho et al. 2020).

    ``kept`` is ᾱ of each step: numbers, or a scheduler of diffusers with the attribute ``alphas_cumprod``.
    """

    kept: Any
    sigma: float = 0.0
    classifies = False

    def __post_init__(self) -> None:
        try:
            kept = tuple(float(share) for share in getattr(self.kept, "alphas_cumprod", self.kept))
        except (TypeError, ValueError):
            raise InvalidArgumentError(f"kept must be numbers or a scheduler, got {self.kept!r:.60}") from None
        object.__setattr__(self, "kept", kept)
        super().__post_init__()

    def loss(self, model: Callable[..., object], x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        """Squared error at one random step for each input, scaled to [−1, 1]; labels are not used."""
        kept = torch.tensor(self.kept, device=x.device)
        step = torch.randint(len(kept), (len(x),), generator=generator, device=x.device)
        share = kept[step].view(-1, *[1] * (x.dim() - 1))
        noise = _normal(x, generator)
        seen = share.sqrt() * (2 * x - 1) + (1 - share).sqrt() * noise
        return functional.mse_loss(model(seen, step).sample, noise)  # type: ignore[attr-defined]


def _normal(x: Tensor, generator: Generator) -> Tensor:
    return torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)


def _noisy(x: Tensor, sigma: float, generator: Generator) -> Tensor:
    return x + sigma * _normal(x, generator)


def _log_of_mean_softmax(logits: Tensor, samples: int) -> Tensor:
    logs = functional.log_softmax(logits, dim=1).view(-1, samples, logits.shape[1])
    return torch.logsumexp(logs, dim=1).sub(math.log(samples))


def _lengths(x: Tensor) -> Tensor:
    sizes: Tensor = torch.linalg.vector_norm(x.flatten(1), dim=1)
    return sizes.clamp_min(1e-12).view(-1, *[1] * (x.dim() - 1))


def _unit(x: Tensor) -> Tensor:
    return x / _lengths(x)


def _within(x: Tensor, radius: float) -> Tensor:
    return x * (radius / _lengths(x)).clamp_max(1)


class _frozen_statistics:  # noqa: N801
    """In this block, batch normalisation uses batch statistics and does not update its running statistics."""

    def __init__(self, model: object) -> None:
        modules = model.modules() if isinstance(model, nn.Module) else iter(())
        kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
        self.counting = [m for m in modules if isinstance(m, kinds) and m.track_running_stats]

    def __enter__(self) -> None:
        for layer in self.counting:
            layer.track_running_stats = False

    def __exit__(self, *failure: object) -> None:
        for layer in self.counting:
            layer.track_running_stats = True
