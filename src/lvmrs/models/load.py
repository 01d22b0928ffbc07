"""From a name to a model that takes pixels in [0, 1], with what was assumed about it and a hash of its weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from lvmrs._python import called, imported, source_hash
from lvmrs.errors import ModelError
from lvmrs.models import pretrained, ready
from lvmrs.models.denoised import Denoised
from lvmrs.models.denoiser_sources import load_denoiser
from lvmrs.models.exported import exported
from lvmrs.models.onnx import onnx
from lvmrs.models.preprocessing import Preprocessed
from lvmrs.models.trained import NORMALISED, normalisation_of, trained
from lvmrs.models.weights import digest_of_file, digest_of_module, load_weights
from lvmrs.sampling import Model

__all__ = ["Loaded", "load"]


@dataclass(frozen=True)
class Loaded:
    """A model and who it is."""

    model: Model
    name: str
    fingerprint: str
    """A hash of its weights."""
    code: str | None
    """A hash of the file of Python code that makes it, if there is one."""
    assumed: tuple[str, ...]
    """What was taken from what it ships with, or guessed, in words."""
    denoiser: str | None = None
    """The name of the denoiser before it and a hash of that one's weights, if there is one."""


def load(
    name: str,
    *,
    weights: str | Path | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    denoiser: str | None = None,
    sigma: float = 0.0,
) -> Loaded:
    """The model of that name. ``mean`` and ``std`` put a normalisation before one that does not bring its own.

    A ``denoiser`` (see ``load_denoiser``) for noise of deviation ``sigma`` is put before all of it.
    """
    kind, _, rest = name.partition(":")
    if kind not in _KINDS:
        raise ModelError(f"{name}: no model of that name; it begins with one of {', '.join(_KINDS)}, as in onnx:FILE")
    if not rest:
        raise ModelError(f"{name}: a name is missing after the colon, as in {kind}:NAME")
    model, assumed = _KINDS[kind](name, rest)
    if weights is not None:
        if not isinstance(model, nn.Module) or kind not in ("python", "ready"):
            raise ModelError(f"{name}: weights can be put into python: and ready: modules only; leave --weights out")
        assumed = (*assumed, *_given_weights(model, Path(weights).expanduser()))
    elif kind == "ready":
        assumed = (*assumed, "WARNING: its weights are random, none were given")
    fingerprint = digest_of_file(Path(rest).expanduser()) if kind in _FILES else _digest(model)
    if (mean is None) != (std is None):
        raise ModelError("mean and std go together; give both")
    if mean is None and weights is not None and (kept := normalisation_of(Path(weights).expanduser())) is not None:
        model, assumed = Preprocessed(model, *kept), ("normalised as in training", *assumed)
    elif mean is not None and std is not None:
        if isinstance(model, Preprocessed):
            raise ModelError(f"{name}: it brings its own normalisation ({assumed[0]}); leave mean and std out")
        model = Preprocessed(model, mean, std)
        assumed = (*assumed, f"normalised with mean {_text(mean)} and std {_text(std)}, as given")
    elif NORMALISED in assumed:
        raise ModelError(f"{name}: {NORMALISED}; give it with --mean and --std")
    elif not isinstance(model, Preprocessed):
        assumed = (*assumed, "it takes pixels in [0, 1] as they are")
    code = source_hash(rest) if kind == "python" else None
    if denoiser is None:
        return Loaded(model, name, fingerprint, code, assumed)
    before, how = load_denoiser(denoiser, sigma)
    told = f"denoised by {denoiser}: {how}"
    return Loaded(Denoised(before, model), name, fingerprint, code, (*assumed, told), f"{denoiser} {_digest(before)}")


def _given_weights(model: nn.Module, path: Path) -> tuple[str, ...]:
    return (NORMALISED,) if load_weights(model, path) else ()


def _text(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _digest(model: Model) -> str:
    return digest_of_module(model) if isinstance(model, nn.Module) else "unknown: not a torch module"


def _python(name: str, rest: str) -> tuple[Any, tuple[str, ...]]:
    named = imported(name, rest, error=ModelError)
    model = called(name, named, error=ModelError) if callable(named) and not isinstance(named, nn.Module) else named
    if not callable(model):
        raise ModelError(f"{name}: it returned {type(model).__name__}; expected a module or a callable on batches")
    return model, ()


def _ready(name: str, rest: str) -> tuple[nn.Module, tuple[str, ...]]:
    return ready.build(rest), ()


def _file(read: Callable[[str, Path], tuple[nn.Module, tuple[str, ...]]]) -> _Reader:
    def reader(name: str, rest: str) -> tuple[nn.Module, tuple[str, ...]]:
        path = Path(rest).expanduser()
        if not path.is_file():
            raise ModelError(f"{name}: {path} does not exist")
        return read(name, path)

    return reader


_Reader = Callable[[str, str], tuple[Any, tuple[str, ...]]]
_FILES = ("onnx", "export")
_KINDS: dict[str, _Reader] = {
    "python": _python,
    "ready": _ready,
    "trained": _file(trained),
    "timm": pretrained.timm,
    "hf": pretrained.transformers,
    "torchvision": pretrained.torchvision,
    "onnx": _file(onnx),
    "export": _file(exported),
}
