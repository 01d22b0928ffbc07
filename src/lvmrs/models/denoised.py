"""Denoise, then classify: any classifier behind a denoiser that knows how strong the noise is.

Salman et al. (2020) put a denoiser before a classifier that was trained without noise; Carlini et al. (2023) take a
diffusion model as the denoiser, in one step.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lvmrs._extras import optional
from lvmrs._python import called, imported
from lvmrs.errors import InvalidArgumentError, ModelError, first_line
from lvmrs.models.trained import trained

__all__ = ["Denoised", "DiffusionDenoiser", "load_denoiser", "noise_step"]

_PREDICTIONS = ("epsilon", "sample", "v_prediction")


class Denoised(nn.Module):
    """``classifier`` behind ``denoiser``: both take images in [0, 1]; a ``size`` is what the classifier needs."""

    def __init__(
        self,
        denoiser: Callable[[Tensor], Tensor],
        classifier: Callable[[Tensor], Tensor],
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        self.denoiser, self.classifier, self.size = denoiser, classifier, size

    def forward(self, x: Tensor) -> Tensor:
        """The classifier's answer to the denoised images."""
        clean = self.denoiser(x)
        if clean.shape != x.shape:
            raise ModelError(
                f"the denoiser answers {tuple(clean.shape[1:])} to images of {tuple(x.shape[1:])}; it must keep shapes"
            )
        clean = clean.clamp(0, 1)
        if self.size is not None and clean.shape[-2:] != self.size:
            clean = functional.interpolate(clean, size=self.size, mode="bilinear", antialias=True)
        return self.classifier(clean)


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


def load_denoiser(name: str, sigma: float) -> tuple[Callable[[Tensor], Tensor], str]:
    """The denoiser of that name, for noise of that strength, and what was assumed about it.

    ``diffusers:FOLDER`` is a pipeline or a UNet saved by diffusers, ``trained:FILE`` is by ``lvmrs train``, and
    ``python:MODULE:FUNCTION`` returns a module or callable; it is given ``sigma`` if it has an argument of that name.
    """
    kind, _, rest = name.partition(":")
    if kind == "diffusers" and rest:
        return _diffusion(name, rest, sigma)
    if kind == "trained" and rest:
        path = Path(rest).expanduser()
        if not path.is_file():
            raise ModelError(f"{name}: {path} does not exist")
        model, assumed = trained(name, path)
        return model, "; ".join(assumed)
    if kind == "python" and rest:
        return _python(name, rest, sigma), "it takes images in [0, 1] and gives such"
    raise ModelError(
        f"{name}: no denoiser of that name; write diffusers:FOLDER, trained:FILE or python:MODULE:FUNCTION"
    )


def _python(name: str, rest: str, sigma: float) -> Callable[[Tensor], Tensor]:
    named = imported(name, rest, error=ModelError)
    if isinstance(named, nn.Module):
        return named
    if not callable(named):
        raise ModelError(f"{name}: it is {type(named).__name__}; expected a function that returns a denoiser")
    takes = "sigma" in inspect.signature(named).parameters
    denoiser = called(name, partial(named, sigma=sigma) if takes else named, error=ModelError)
    if not callable(denoiser):
        raise ModelError(f"{name}: it returned {type(denoiser).__name__}; expected a module or a callable on batches")
    found: Callable[[Tensor], Tensor] = denoiser
    return found


def _diffusion(name: str, rest: str, sigma: float) -> tuple[nn.Module, str]:
    library = optional("diffusers", extra="diffusion", error=ModelError)
    library.utils.logging.set_verbosity_error()  # what is wrong is said here, in one sentence
    place = Path(rest).expanduser()
    if not place.is_dir() and not re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", rest):  # a name of the hub
        raise ModelError(f"{name}: {place} is not a folder; give one that diffusers saved, or OWNER/NAME of its hub")
    folder = str(place) if place.exists() else rest
    whole = not place.is_dir() or (place / "model_index.json").is_file()
    within: dict[str, Any] = {"subfolder": "unet"} if whole else {}
    beside: dict[str, Any] = {"subfolder": "scheduler"} if whole else {}
    try:
        unet, loading = library.UNet2DModel.from_pretrained(
            folder, use_safetensors=True, low_cpu_mem_usage=False, output_loading_info=True, **within
        )
        schedule = library.DDPMScheduler.from_pretrained(folder, **beside)
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(
            f"{name}: it is no DDPMPipeline, nor a UNet2DModel with its scheduler: {first_line(error)}"
        ) from error
    if wrong := [*loading["missing_keys"], *loading["unexpected_keys"], *loading["mismatched_keys"]]:
        raise ModelError(f"{name}: its weights do not fit a UNet2DModel: {', '.join(map(str, wrong[:3]))} and so on")
    denoiser = DiffusionDenoiser(
        unet, schedule.alphas_cumprod.double().tolist(), sigma, schedule.config.prediction_type
    )
    steps = len(schedule.alphas_cumprod)
    return denoiser, f"one step back from step {denoiser.step} of {steps}"
