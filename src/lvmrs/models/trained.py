"""Files of weights that also say which network they belong to and how it was trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import nn

from lvmrs._replacing import replacing
from lvmrs.errors import ModelError, first_line
from lvmrs.facts import ModelFacts
from lvmrs.models import ready
from lvmrs.models.preprocessing import Preprocessed
from lvmrs.models.weights import load_weights, read_checkpoint
from lvmrs.registry import NETWORKS

__all__ = ["normalisation_of", "save", "trained", "training_record"]

_KEY = "lvmrs"


def save(path: Path, model: nn.Module, network: str, training: dict[str, Any]) -> None:
    """Write the weights of a model, with its normalisation and how it was trained.

    Args:
        path: the .safetensors file to write.
        model: a torch module, which may be behind a normalisation (``Preprocessed``).
        network: the name that makes the network, such as ``ready:small_cnn,classes=10``.
        training: a record of the training, as values that JSON can hold.
    """
    normalisation = None
    if isinstance(model, Preprocessed):
        normalisation = model.normalisation
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
    """Read what a file says about its network and training."""
    found = _written(path)
    if found is None:
        raise ModelError(
            f"{path} does not say which network it is for; load python:MODULE:FUNCTION or ready:NAME with {path} as "
            "its weights"
        )
    told = json.loads(found)
    if not isinstance(told, dict) or not isinstance(told.get("network"), str):
        raise ModelError(f"{path} does not say which network it is for; lvmrs train did not write it")
    return told


def _written(path: Path) -> str | None:
    try:
        with safetensors.safe_open(path, framework="pt") as opened:
            found: str | None = (opened.metadata() or {}).get(_KEY)
    except safetensors.SafetensorError as error:
        raise ModelError(f"{path} is not a safetensors file: {first_line(error)}") from error
    return found


def normalisation_of(path: Path) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """The mean and std that a network was trained with, if ``save`` wrote the file and there was a normalisation."""
    if path.suffix != ".safetensors" or not path.is_file() or _written(path) is None:
        return None
    found = training_record(path).get("normalisation")
    return None if found is None else (tuple(found["mean"]), tuple(found["std"]))


def trained(name: str, rest: str) -> tuple[nn.Module, ModelFacts]:
    """Load a network from a file that ``save`` wrote, or from a checkpoint {arch, state_dict} with an arch of lvmrs."""
    path = Path(rest)
    if path.suffix != ".safetensors":
        network = _arch(name, path)
        model = ready.build(network)
        behind = load_weights(model, path)
        return model, ModelFacts(network, "checkpoint", normalisation_lost=behind)
    about = training_record(path)
    kind, _, network = about["network"].partition(":")
    if kind != "ready":  # a file of weights must not decide which code runs
        raise ModelError(f"{name}: its network is {about['network']}; load that with {path} as its weights")
    model = ready.build(network)
    load_weights(model, path)
    aim = about.get("training", {}).get("objective")
    normalisation = normalisation_of(path)
    if normalisation is None:
        return model, ModelFacts(network, objective=aim or None)
    facts = ModelFacts(network, "file", aim or None, *normalisation, "training")
    return Preprocessed(model, *normalisation), facts


def _arch(name: str, path: Path) -> str:
    stored = read_checkpoint(path)
    arch = stored.get("arch") if isinstance(stored, dict) else None
    if not isinstance(arch, str) or arch not in NETWORKS:
        raise ModelError(
            f"{name}: it does not name a network of lvmrs (arch is {arch!r:.60}); load ready:NAME with this file "
            "as its weights"
        )
    return arch
