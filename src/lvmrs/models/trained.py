"""Files of weights that also contain the name of their network and a record of its training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeGuard

import safetensors
import safetensors.torch
from torch import nn

from lvmrs._util.facts import ModelFacts
from lvmrs._util.files import is_file, no_file, replacing
from lvmrs.errors import ModelError, first_line, guarded
from lvmrs.models import ready
from lvmrs.models.preprocessing import Preprocessed
from lvmrs.models.weights import load_weights, read_checkpoint
from lvmrs.registry import NETWORKS

_KEY = "lvmrs"
_MOST_CHANNELS = 10_000

Normalisation = tuple[tuple[float, ...], tuple[float, ...]]
"""The mean and the std of each channel."""


def save(path: Path, model: nn.Module, network: str, training: dict[str, Any]) -> None:
    """Write a .safetensors file of the weights of a model, its normalisation (``Preprocessed``) and its training.

    ``network`` is its name, such as ``ready:small_cnn,classes=10``, and ``training`` a record of JSON values.
    """
    normalisation = model.normalisation if isinstance(model, Preprocessed) else None
    if isinstance(model, Preprocessed):
        if not isinstance(model.model, nn.Module):
            raise ModelError(f"{network}: it is not a torch module, so it has no weights to save")
        model = model.model
    text = json.dumps({"network": network, "normalisation": normalisation, "training": training})
    tensors = {key: value.detach().cpu().contiguous().clone() for key, value in model.state_dict().items()}
    try:
        with replacing(path) as opened:
            opened.write(safetensors.torch.save(tensors, metadata={_KEY: text}))
    except OSError as error:
        raise ModelError(f"{path}: the weights cannot be written: {first_line(error)}") from error


def training_record(path: Path) -> dict[str, Any]:
    """Read the record of a file of weights about its network and training, and check the entries that lvmrs uses.

    Returns:
        ``network``, the name of the network; ``normalisation``, with ``mean`` and ``std``, or None; and ``training``,
        the record of the training.
    """
    found = _written(path)
    if found is None:
        raise ModelError(
            f"{path} does not say which network it is for; load python:FILE.py:FUNCTION or ready:NAME with {path} as "
            "its weights"
        )
    try:
        told = json.loads(found)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict) or not isinstance(told.get("network"), str):
        raise ModelError(f"{path} does not say which network it is for; lvmrs train did not write it")
    told = {"training": {}, "normalisation": None, **told}
    training = told["training"]
    if not isinstance(training, dict) or not isinstance(training.get("objective", ""), str):
        raise ModelError(f"{path}: its record of the training is {training!r:.60}; lvmrs train did not write it")
    _normalisation(path, told["normalisation"])
    return told


def _normalisation(path: Path, stored: Any) -> Normalisation | None:
    if stored is None:
        return None
    mean, std = (stored.get(key) if isinstance(stored, dict) else None for key in ("mean", "std"))
    if not _are_numbers(mean) or not _are_numbers(std) or len(mean) != len(std) or min(std) <= 0:
        raise ModelError(f"{path}: its normalisation is {stored!r:.60}; expected a mean and a std for each channel")
    return tuple(map(float, mean)), tuple(map(float, std))


def _are_numbers(values: Any) -> TypeGuard[list[float]]:
    plain = isinstance(values, list) and 0 < len(values) <= _MOST_CHANNELS
    return plain and all(type(value) in (int, float) and abs(value) < 1e30 for value in values)


def _written(path: Path) -> str | None:
    if not is_file(path):
        raise ModelError(f"{path} {no_file(path)}; give a file by lvmrs train")
    with (
        guarded(f"{path} is not a safetensors file", error=ModelError),
        safetensors.safe_open(path, framework="pt") as opened,
    ):
        found: str | None = (opened.metadata() or {}).get(_KEY)
    return found


def normalisation_of(path: Path) -> Normalisation | None:
    """The mean and std in a file that ``save`` wrote; None without a normalisation, or for other files."""
    if path.suffix != ".safetensors" or not is_file(path) or _written(path) is None:
        return None
    return _normalisation(path, training_record(path)["normalisation"])


def trained(name: str, rest: str) -> tuple[nn.Module, ModelFacts]:
    """Load a network from a file of ``save``, or from a checkpoint {arch, state_dict} whose arch is in lvmrs."""
    path = Path(rest)
    if path.suffix != ".safetensors":
        stored = read_checkpoint(path)
        arch = stored.get("arch") if isinstance(stored, dict) else None
        if not isinstance(arch, str) or arch not in NETWORKS:
            raise ModelError(
                f"{name}: it does not name a network of lvmrs (arch is {arch!r:.60}); load ready:NAME with this file "
                "as its weights"
            )
        model = ready.build(arch)
        return model, ModelFacts(arch, "checkpoint", normalisation_lost=load_weights(model, path))
    about = training_record(path)
    network_name: str = about["network"]
    kind, _, network = network_name.partition(":")
    if kind != "ready":  # a file of weights must not select code to run
        raise ModelError(f"{name}: its network is {network_name:.200}; load that with {path} as its weights")
    model = ready.build(network)
    load_weights(model, path)
    objective, normalisation = about["training"].get("objective"), _normalisation(path, about["normalisation"])
    if normalisation is None:
        return model, ModelFacts(network, objective=objective or None)
    facts = ModelFacts(network, "file", objective or None, *normalisation, "training")
    return Preprocessed(model, *normalisation), facts
