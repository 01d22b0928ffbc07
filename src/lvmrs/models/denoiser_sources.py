"""Denoisers by one name: a diffusion model, a network by ``lvmrs train``, or Python code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from lvmrs._extras import optional
from lvmrs._python import called, imported
from lvmrs.errors import ModelError, first_line
from lvmrs.models.diffusion import DiffusionDenoiser
from lvmrs.models.trained import trained

__all__ = ["load_denoiser"]


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
