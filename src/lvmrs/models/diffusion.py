"""A diffusion model as a one-step denoiser (Carlini et al. 2023)."""

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
    """The first step of a diffusion schedule with at least the given noise: √((1 − ᾱ)/ᾱ) ≥ 2σ.

    Args:
        kept: ᾱ of each step, in decreasing order.
        sigma: standard deviation of the noise on images in [0, 1]; diffusion models use images in [−1, 1], where it is
            2σ.

    Returns:
        The index of the step.

    >>> noise_step([0.99, 0.8, 0.5, 0.1], sigma=0.2)
    1
    """
    for step, share in enumerate(kept):
        if share <= 0 or math.sqrt((1 - share) / share) >= 2 * sigma:
            return step
    last = math.sqrt((1 - kept[-1]) / kept[-1]) / 2
    raise InvalidArgumentError(f"sigma {sigma:g} is beyond the diffusion's schedule, which ends at {last:.4g}")


class DiffusionDenoiser(nn.Module):
    """A denoiser that predicts the clean image in one step of a diffusion model.

    The UNet is called with the first step of the schedule that has at least this noise; images are scaled for the
    actual noise.

    Args:
        unet: a UNet of diffusers, or a callable with ``config.in_channels`` whose results have a ``sample``.
        kept: ᾱ of each step of the schedule.
        sigma: standard deviation of the noise, on images in [0, 1].
        prediction: the prediction type of the UNet: epsilon, sample or v_prediction.
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
        """Denoise a batch of images (batch, channels, height, width); the result lies in [0, 1]."""
        channels = self.unet.config.in_channels
        if x.dim() != 4 or x.shape[1] != channels:
            held = x.shape[1] if x.dim() == 4 else 1
            raise ModelError(f"the inputs have {held} channels and the UNet takes {channels}; choose another denoiser")
        spread = 2 * self.sigma
        share = 1 / (1 + spread**2)  # ᾱ for exactly this noise
        seen = math.sqrt(share) * (2 * x - 1)
        step = torch.full((len(x),), self.step, device=x.device)
        answer = self.unet(seen, step).sample[:, :channels]  # a UNet that predicts its variance has more channels
        if self.prediction == "epsilon":
            clean = (seen - math.sqrt(1 - share) * answer) / math.sqrt(share)
        elif self.prediction == "v_prediction":
            clean = math.sqrt(share) * seen - math.sqrt(1 - share) * answer
        else:
            clean = answer
        denoised: Tensor = (clean.clamp(-1, 1) + 1) / 2
        return denoised
