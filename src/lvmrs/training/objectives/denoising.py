"""Training of denoisers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional

from lvmrs.errors import InvalidArgumentError
from lvmrs.training.objectives.base import Network, Objective, noisy, normal


@dataclass(frozen=True)
class Denoising(Objective):
    """Mean squared error of the denoised image (Salman et al. 2020)."""

    sigma: float
    classifies = False

    def loss(self, model: Network, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        """Squared error of one noisy copy of each input; labels are not used."""
        return functional.mse_loss(model(noisy(x, self.sigma, generator)), x)


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
        noise = normal(x, generator)
        seen = share.sqrt() * (2 * x - 1) + (1 - share).sqrt() * noise
        return functional.mse_loss(model(seen, step).sample, noise)  # type: ignore[attr-defined]
