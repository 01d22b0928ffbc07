"""A diffusion model as a denoiser: one step back to the clean image, as in Carlini et al. (2023)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lvmrs.errors import InvalidArgumentError, ModelError

__all__ = ["DiffusionDenoiser", "noise_step"]

_PREDICTIONS = ("epsilon", "sample", "v_prediction")


def noise_step(kept: Sequence[float], sigma: float) -> int:
    """The first step of a diffusion whose noise, in images in [−1, 1], is at least 2σ: √((1 − ᾱ)/ᾱ) ≥ 2σ.

    ``kept`` is ᾱ of each step, which falls.
    """
    for step, share in enumerate(kept):
        if share <= 0 or math.sqrt((1 - share) / share) >= 2 * sigma:
            return step
    last = math.sqrt((1 - kept[-1]) / kept[-1]) / 2
    raise InvalidArgumentError(f"sigma {sigma:g} is beyond the diffusion's schedule, which ends at {last:.4g}")


class DiffusionDenoiser(nn.Module):
    """One step of a diffusion model back to the clean image, for noise of deviation ``sigma`` on images in [0, 1].

    ``kept`` is ᾱ of each step, ``prediction`` what the UNet answers with: epsilon, sample or v_prediction. The UNet is
    told the step of the schedule that is next above the noise; all scaling is by the noise itself.
    """

    def __init__(self, unet: Any, kept: Sequence[float], sigma: float, prediction: str = "epsilon") -> None:
        super().__init__()
        if not (math.isfinite(sigma) and sigma > 0):
            raise InvalidArgumentError(f"sigma must be positive, got {sigma!r}")
        if prediction not in _PREDICTIONS:
            raise InvalidArgumentError(f"prediction must be one of {', '.join(_PREDICTIONS)}, got {prediction!r}")
        self.unet, self.sigma, self.prediction = unet, float(sigma), prediction
        self.step = noise_step(kept, sigma)

    def forward(self, x: Tensor) -> Tensor:
        """Images in [0, 1] of the same shape, with less noise."""
        channels = self.unet.config.in_channels
        if x.dim() != 4 or x.shape[1] != channels:
            held = x.shape[1] if x.dim() == 4 else 1
            raise ModelError(f"the inputs have {held} channels and the UNet was made for {channels}; take another")
        spread = 2 * self.sigma
        share = 1 / (1 + spread**2)  # ᾱ of noise of exactly this strength
        seen = math.sqrt(share) * (2 * x - 1)
        step = torch.full((len(x),), self.step, device=x.device)
        answer = self.unet(seen, step).sample[:, :channels]  # those that learn a variance answer with more
        if self.prediction == "epsilon":
            clean = (seen - math.sqrt(1 - share) * answer) / math.sqrt(share)
        elif self.prediction == "v_prediction":
            clean = math.sqrt(share) * seen - math.sqrt(1 - share) * answer
        else:
            clean = answer
        denoised: Tensor = (clean.clamp(-1, 1) + 1) / 2
        return denoised
