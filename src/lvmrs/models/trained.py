"""Files of weights that say which network they belong to, and how it was trained."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import nn

from lvmrs.errors import ModelError, first_line
from lvmrs.models import ready
from lvmrs.models.preprocessing import Preprocessed
from lvmrs.models.weights import load_weights, read_checkpoint

__all__ = ["save", "story", "trained"]

_KEY = "lvmrs"


def save(path: Path, model: nn.Module, network: str, training: dict[str, Any]) -> None:
    """Write the weights of a model, the name it is made by, its normalisation, and how it was trained."""
    normalisation = None
    if isinstance(model, Preprocessed):
        normalisation = {"mean": model.mean.flatten().tolist(), "std": model.std.flatten().tolist()}
        if not isinstance(model.model, nn.Module):
            raise ModelError(f"{network}: it is not a torch module, and has no weights to save")
        model = model.model
    text = json.dumps({"network": network, "normalisation": normalisation, "training": training})
    tensors = {key: value.detach().cpu().contiguous().clone() for key, value in model.state_dict().items()}
    beside = path.with_name(path.name + ".new")
    try:
        safetensors.torch.save_file(tensors, beside, metadata={_KEY: text})
        beside.replace(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise ModelError(f"{path}: the weights cannot be written: {first_line(error)}") from error


def story(path: Path) -> dict[str, Any]:
    """What a file says about its network and training."""
    try:
        with safetensors.safe_open(path, framework="pt") as opened:
            found = (opened.metadata() or {}).get(_KEY)
    except safetensors.SafetensorError as error:
        raise ModelError(f"{path} is not a safetensors file: {first_line(error)}") from error
    if found is None:
        raise ModelError(
            f"{path} does not say which network it is for; give --model python:MODULE:FUNCTION or ready:NAME, with "
            f"--weights {path}"
        )
    told: dict[str, Any] = json.loads(found)
    return told


def trained(name: str, path: Path) -> tuple[nn.Module, tuple[str, ...]]:
    """The network of a file by ``save``, or of a checkpoint {arch, state_dict} whose arch is one of ours."""
    if path.suffix != ".safetensors":
        network = _arch(name, path)
        model = ready.build(network)
        load_weights(model, path)
        return model, (f"the network is {network}, as the checkpoint says",)
    told = story(path)
    kind, _, network = str(told["network"]).partition(":")
    if kind != "ready":  # a file of weights must not choose what code is run
        raise ModelError(f"{name}: it was trained as {told['network']}; give that as --model, and --weights {path}")
    model = ready.build(network)
    load_weights(model, path)
    assumed = f"the network is {network}, as the file says"
    if told["normalisation"] is None:
        return model, (assumed,)
    mean: Sequence[float] = told["normalisation"]["mean"]
    return Preprocessed(model, mean, told["normalisation"]["std"]), ("normalised as in training", assumed)


def _arch(name: str, path: Path) -> str:
    stored = read_checkpoint(path)
    arch = stored.get("arch") if isinstance(stored, dict) else None
    if arch not in ready.NETWORKS:
        raise ModelError(
            f"{name}: it does not name a network of lvmrs (arch is {arch!r}); give --model ready:NAME and --weights"
        )
    return str(arch)
