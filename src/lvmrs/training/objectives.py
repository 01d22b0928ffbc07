"""What networks are trained for: each objective is a loss of one batch.

An objective is given the model, inputs in [0, 1], labels and a random generator, and draws fresh noise each time. Its
settings are its fields. One of your own is a class derived from ``Objective`` that has ``sigma`` and writes ``loss``.
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
    """The loss of one batch, and whether the model that it trains is a classifier or a denoiser."""

    sigma: float
    """Standard deviation of the noise that the model is for; it is measured with that."""
    classifies = True
    """True if the model answers with logits, False if it answers with images."""

    def __post_init__(self) -> None:
        self.check_sigma()

    def check_sigma(self) -> None:
        """Refuse a standard deviation that is missing, negative or not finite."""
        checks.single("sigma", checks.at_least_zero("sigma", getattr(self, "sigma", None)))  # type: ignore[arg-type]

    def check(self, model: object) -> None:  # noqa: B027
        """Refuse a model that it is not for; most objectives are for any model."""

    @abstractmethod
    def loss(self, model: _Network, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        """The mean loss over the batch.

        Args:
            model: the network, in training mode.
            x: a batch of inputs in [0, 1].
            y: their labels.
            generator: all random numbers come from it, so that a training can be resumed exactly.

        Returns:
            A tensor of one number, to be differentiated.
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
    """Cross-entropy on noisy copies of inputs that were moved to fool the smoothed classifier (Salman et al. 2019).

    An attack takes ``steps`` steps of projected gradient ascent within distance ``epsilon``, on −log of the softmax
    averaged over ``samples`` noisy copies; the same copies serve for every step and for training.
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
        """Cross-entropy of ``samples`` noisy copies of each moved input."""
        copies = x.repeat_interleave(self.samples, dim=0)
        noise = self.sigma * _normal(copies, generator)
        moved = self._moved(model, x, y, noise)
        return functional.cross_entropy(
            model(moved.repeat_interleave(self.samples, dim=0) + noise), y.repeat_interleave(self.samples)
        )

    def _moved(self, model: _Network, x: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        """The inputs after the attack, which leaves batch statistics alone."""
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
    """Cross-entropy that asks for a margin, on noisy inputs: for networks whose Lipschitz constant is fixed.

    The logit of the right class is lowered by √2 ``margin`` · L before cross-entropy at ``temperature`` · L, where L is
    the constant of the model: logits of a γ-Lipschitz network scale with γ, and so does the margin
    that makes a radius. The form for L = 1 is that of Prach and Lampert (2022), used by Wang and Manchester (2023).
    """

    sigma: float
    margin: float = 1.0
    temperature: float = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.single("margin", checks.at_least_zero("margin", self.margin))
        checks.positive_number("temperature", self.temperature)

    def check(self, model: object) -> None:
        """Refuse a model whose Lipschitz constant is not known."""
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
    """Mean squared error of the noise that a diffusers UNet finds, at a random step of a schedule (Ho et al. 2020).

    ``kept`` is ᾱ of each step: numbers, or a scheduler of diffusers, which has them as ``alphas_cumprod``.
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
        """Squared error at one step for each input, which is scaled to [−1, 1]; labels are not used."""
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
    """Within it, normalisation layers use their batch as in training, and do not add it to their statistics."""

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
