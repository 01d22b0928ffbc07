"""Loads denoisers by name: diffusion models, networks of ``lvmrs train``, and Python code."""

from __future__ import annotations

import inspect
import re
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from lvmrs._util.facts import DenoiserFacts
from lvmrs._util.files import expanded, is_file, is_folder
from lvmrs._util.optional import optional
from lvmrs._util.settings import check_folder, parse_name
from lvmrs._util.user_code import called, imported
from lvmrs.errors import ModelError, guarded
from lvmrs.kernel.sampler import Model
from lvmrs.models.diffusion import DiffusionDenoiser
from lvmrs.models.trained import trained
from lvmrs.registry import DENOISERS

__all__ = ["diffusers", "load_denoiser", "python_denoiser", "trained_denoiser"]


def load_denoiser(name: str, sigma: float, directory: Path | None = None) -> tuple[Model, DenoiserFacts]:
    """Load a denoiser by its name.

    Args:
        name: a source of ``lvmrs.registry.DENOISERS`` with its argument, such as ``trained:FILE``.
        sigma: the standard deviation of the noise, for images in [0, 1].
        directory: the base of relative paths; by default the working directory.

    Returns:
        The denoiser, a callable from noisy images to images, and its metadata.

    """
    directory = directory or Path.cwd()
    source, rest = parse_name(DENOISERS, name, directory, error=ModelError)
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
    denoiser = called(name, partial(_made, named, sigma), error=ModelError)
    if not callable(denoiser):
        raise ModelError(f"{name}: it returned {type(denoiser).__name__}; expected a module or a callable on batches")
    return denoiser, DenoiserFacts(name)


def _made(function: Any, sigma: float) -> Any:
    return function(sigma=sigma) if "sigma" in inspect.signature(function).parameters else function()


def diffusers(name: str, rest: str, sigma: float) -> tuple[nn.Module, DenoiserFacts]:
    """Load a pipeline, or a UNet with its scheduler, from a folder of diffusers or from the hub."""
    library = optional("diffusers", extra="diffusion", error=ModelError)
    library.utils.logging.set_verbosity_error()  # ModelError below reports errors
    place = expanded(rest)
    if not is_folder(place) and not re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", rest):  # OWNER/NAME of the hub
        raise ModelError(f"{name}: {place} is not a folder; give a folder of diffusers, or OWNER/NAME of the hub")
    check_folder(name, place, error=ModelError)
    folder = str(place) if is_folder(place) else rest
    whole = not is_folder(place) or is_file(place / "model_index.json")
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
