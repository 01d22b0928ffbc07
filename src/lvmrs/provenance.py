"""What a run records of itself: everything that decides its rows, and where it came from."""

from __future__ import annotations

import math
import platform
import time
from importlib.metadata import version
from typing import Any

import torch

from lvmrs import _checks
from lvmrs.data import Dataset
from lvmrs.method import Method
from lvmrs.method_settings import description
from lvmrs.models import Denoised, Loaded, Preprocessed
from lvmrs.noise import Stream
from lvmrs.plan import Terms
from lvmrs.smooth import SmoothedClassifier

__all__ = ["about", "about_data", "about_method", "settings_of"]


def about_method(method: Method, sigma: float) -> dict[str, Any]:
    """The classifier that the certificates are about, in words for readers."""
    return {"classifier": method.classifier(sigma)}


def about(command: str, **more: Any) -> dict[str, Any]:
    """When, how and with which software a run was begun."""
    libraries = {name: version(name) for name in ("lvmrs", "numpy", "scipy", "torch")}
    return {
        "begun": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": command,
        "versions": {"python": platform.python_version(), **libraries},
        "threads": torch.get_num_threads(),
        **more,
    }


def _normalisation(loaded: Loaded) -> dict[str, list[float]] | None:
    model = loaded.model.classifier if isinstance(loaded.model, Denoised) else loaded.model
    return model.normalisation if isinstance(model, Preprocessed) else None


def about_data(data: Dataset) -> dict[str, Any]:
    """Where the inputs are, and what their classes are called."""
    return {"data": data.name, "classes": None if data.classes is None else list(data.classes)}


def settings_of(
    loaded: Loaded,
    data: Dataset,
    smoothed: SmoothedClassifier,
    method: Method,
    *,
    alpha: float,
    n0: int,
    n: int,
    seed: int,
) -> dict[str, Any]:
    """Everything that decides the rows of a run, for its manifest; refused here, before a directory is made of it.

    A method that takes no samples has no risk: alpha, n0 and n are then 0.
    """
    smoothed.check_method(method)
    terms = Terms(smoothed.sigma, alpha, n)
    n0 = int(_checks.single("n0", _checks.whole("n0", n0, least=1)))
    return {
        "model": loaded.name,
        "weights": loaded.fingerprint,
        "code": loaded.code,
        "model assumed": list(loaded.assumed),
        "denoiser": loaded.denoiser,
        "normalisation": _normalisation(loaded),
        "compiled": smoothed.compiled,
        "lipschitz": smoothed.lipschitz if math.isfinite(smoothed.lipschitz) else None,
        "split": data.split,
        "data": data.fingerprint(),
        "image size": getattr(data, "size", None),
        "data assumed": list(data.assumed),
        "method": description(method),
        "sigma": terms.sigma,
        "alpha": terms.alpha if method.samples else 0.0,
        "n0": n0 if method.samples else 0,
        "n": terms.n if method.samples else 0,
        "seed": Stream(seed, 0, "selection").seed,
        "device": smoothed.kind_of_device,
        "autocast": None if smoothed.autocast is None else str(smoothed.autocast).removeprefix("torch."),
        "lvmrs": version("lvmrs"),
        "torch": version("torch"),
    }
