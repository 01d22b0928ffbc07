"""A denoiser for noise of a known standard deviation, followed by a classifier, and the sources of denoisers.

Salman et al. (2020) put a denoiser before a classifier that was trained without noise; Carlini et al. (2023) use one
step of a diffusion model as the denoiser. ``load_denoiser`` loads diffusion models, networks of ``lvmrs train``, and
denoisers from the user's Python code.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lvmrs._util.facts import DenoiserFacts
from lvmrs._util.files import expanded, is_file, is_folder
from lvmrs._util.settings import check_folder, parse_name
from lvmrs._util.text import optional
from lvmrs._util.user_code import called, imported
from lvmrs.errors import InvalidArgumentError, ModelError, guarded
from lvmrs.kernel import checks
from lvmrs.kernel.sampler import Model
from lvmrs.models.trained import trained
from lvmrs.registry import DENOISERS


class Denoised(nn.Module):
    """A classifier of denoised images.

    Args:
        denoiser: a callable from a batch of noisy images to images of the same shape, with pixels about in [0, 1].
        classifier: a callable from a batch of images in [0, 1] to logits.
        size: height and width for the classifier; denoised images of another size are resized.

    >>> model = Denoised(lambda x: x.clamp(0.25, 0.75), lambda x: x.flatten(1))
    >>> model(torch.tensor([[[[0.0, 1.0]]]]))
    tensor([[0.2500, 0.7500]])
    """

    def __init__(
        self,
        denoiser: Callable[[Tensor], Tensor],
        classifier: Callable[[Tensor], Tensor],
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        self.denoiser, self.classifier, self.size = denoiser, classifier, size

    def forward(self, x: Tensor) -> Tensor:
        """The logits for a batch of noisy images."""
        clean = self.denoiser(x)
        if clean.shape != x.shape:
            raise ModelError(
                f"the denoiser turns images of shape {tuple(x.shape[1:])} into {tuple(clean.shape[1:])}; "
                "it must keep the shape"
            )
        clean = clean.clamp(0, 1)
        if self.size is not None and clean.shape[-2:] != self.size:
            clean = functional.interpolate(clean, size=self.size, mode="bilinear", antialias=True)
        return self.classifier(clean)


def noise_step(kept: Sequence[float], sigma: float) -> int:
    """The first step of a diffusion schedule with at least the given noise: √((1 − ᾱ)/ᾱ) ≥ 2σ.

    ``kept`` is ᾱ of each step, in decreasing order. Noise of standard deviation σ on images in [0, 1] has 2σ on images
    in [−1, 1], which diffusion models use.

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
        checks.one_of("prediction", prediction, ("epsilon", "sample", "v_prediction"))
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


def load_denoiser(name: str, sigma: float, directory: Path | None = None) -> tuple[Model, DenoiserFacts]:
    """Load a source of ``lvmrs.registry.DENOISERS`` with its argument, such as ``trained:FILE``.

    ``sigma`` is the standard deviation of the noise, for images in [0, 1], and ``directory`` the base of relative
    paths, by default the working directory.
    """
    source, rest = parse_name(DENOISERS, name, directory or Path.cwd(), error=ModelError)
    with guarded(f"{name}: it cannot be loaded", error=ModelError):
        denoiser, facts = DENOISERS.find(source)(name, rest, sigma)
    return denoiser, facts


def trained_denoiser(name: str, rest: str, sigma: float) -> tuple[nn.Module, DenoiserFacts]:
    """Load the network of a file that ``lvmrs train`` wrote; the facts contain the noise of its training."""
    model, facts = trained(name, rest)
    return model, DenoiserFacts(name, trained=facts)


def python_denoiser(name: str, rest: str, sigma: float) -> tuple[Model, DenoiserFacts]:
    """Import a user's module, or call a user's function that returns a denoiser (with ``sigma`` if it takes it)."""
    named = imported(name, rest, error=ModelError)
    if isinstance(named, nn.Module):
        return named, DenoiserFacts(name)
    if not callable(named):
        raise ModelError(f"{name}: it is of type {type(named).__name__}; expected a function that returns a denoiser")

    def make() -> Any:
        return named(sigma=sigma) if "sigma" in inspect.signature(named).parameters else named()

    denoiser = called(name, make, error=ModelError)
    if not callable(denoiser):
        raise ModelError(f"{name}: it returned {type(denoiser).__name__}; expected a module or a callable on batches")
    return denoiser, DenoiserFacts(name)


def diffusers(name: str, rest: str, sigma: float) -> tuple[nn.Module, DenoiserFacts]:
    """Load a pipeline, or a UNet with its scheduler, from a folder of diffusers or from the hub."""
    library = optional("diffusers", extra="diffusion", error=ModelError)
    library.utils.logging.set_verbosity_error()  # ModelError below reports errors
    place = expanded(rest)
    local = is_folder(place)
    if not local and not re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", rest):  # OWNER/NAME of the hub
        raise ModelError(f"{name}: {place} is not a folder; give a folder of diffusers, or OWNER/NAME of the hub")
    check_folder(name, place, error=ModelError)
    folder = str(place) if local else rest
    whole = not local or is_file(place / "model_index.json")
    within: dict[str, Any] = {"subfolder": "unet"} if whole else {}
    beside: dict[str, Any] = {"subfolder": "scheduler"} if whole else {}
    with guarded(f"{name}: it is neither a DDPMPipeline nor a UNet2DModel with its scheduler", error=ModelError):
        unet, loading = library.UNet2DModel.from_pretrained(
            folder, use_safetensors=True, low_cpu_mem_usage=False, output_loading_info=True, **within
        )
        schedule = library.DDPMScheduler.from_pretrained(folder, **beside)
    if wrong := [*loading["missing_keys"], *loading["unexpected_keys"], *loading["mismatched_keys"]]:
        raise ModelError(f"{name}: its weights do not fit a UNet2DModel: {', '.join(map(str, wrong[:3]))} and so on")
    denoiser = DiffusionDenoiser(
        unet, schedule.alphas_cumprod.double().tolist(), sigma, schedule.config.prediction_type
    )
    return denoiser, DenoiserFacts(name, denoiser.step, len(schedule.alphas_cumprod))
