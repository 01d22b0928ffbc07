"""Makes the network for a training from its name and the data, and checks that the two fit."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from lvmrs._util.files import expanded
from lvmrs.data import Dataset, check_labels, checked_input
from lvmrs.errors import InvalidArgumentError, ModelError, guarded
from lvmrs.kernel import checks
from lvmrs.models import ready
from lvmrs.models.load import load
from lvmrs.models.trained import training_record
from lvmrs.training.objectives import Objective


@dataclass(frozen=True)
class Network:
    """A network that can be trained, and its origin."""

    module: nn.Module
    name: str
    """The full name, with the settings from the data: ``ready:small_cnn,channels=1,side=8,classes=10``."""
    origin: Mapping[str, str]
    """Identifies the initial weights: a checkpoint of a network with another origin is an error."""

    @property
    def parameters(self) -> int:
        """The number of parameters, including those that are not trained."""
        return sum(p.numel() for p in self.module.parameters())


def network_for(
    data: Dataset,
    name: str,
    *,
    weights: Path | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    seed: int = 0,
) -> Network:
    """Make the network of a name, on the CPU; a ``TrainingJob`` explains the arguments.

    The data determine channels, side and classes of a ready network if the name does not give them. The seed is that of
    random initial weights; the caller's random state does not change.
    """
    kind, _, rest = checks.text("name", name).partition(":")
    if kind == "trained" and weights is None and rest.endswith(".safetensors"):
        weights = expanded(rest)
        network: str = training_record(weights)["network"]
        if not network.startswith("ready:"):  # a file must not select code to run
            raise InvalidArgumentError(
                f"model: the network of {name} is code, {network}; if you trust it, give that as the model with "
                f"{weights} as its weights"
            )
        kind, _, rest = network.partition(":")
    if kind not in ("ready", "python"):
        raise InvalidArgumentError(
            f"model: {name} cannot be trained; give ready:NAME, python:MODULE:FUNCTION or trained:FILE"
        )
    if kind == "ready":
        name = f"ready:{ready.fitted(rest, _facts(data))}"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(checks.seed("seed", seed))
        loaded = load(name, weights=weights, mean=mean, std=std)
    if not isinstance(loaded.model, nn.Module) or not any(p.requires_grad for p in loaded.model.parameters()):
        raise InvalidArgumentError(f"model: {name} has no parameters to train; give a ready: or python: module")
    origin = {
        "model": name,
        **{name: json.dumps(value) for name, value in dataclasses.asdict(loaded.facts).items()},
        "first weights": str(loaded.fingerprint),
        "code": str(loaded.code),
    }
    return Network(loaded.model, name, origin)


def _facts(data: Dataset) -> dict[str, int]:
    """The settings of a network that follow from the data."""
    x, _ = checked_input(data, 0)
    facts = {"channels": x.shape[0], "side": x.shape[-1]}
    if data.classes:
        return {**facts, "classes": len(data.classes)}
    largest = data.largest_label()
    return facts if largest is None else {**facts, "classes": largest + 1}


def check_fit(network: nn.Module, data: Dataset, objective: Objective) -> None:
    """Raise if the network, run on the first input, is not a classifier of the labels, or denoiser, for the objective.

    The network is on the CPU, and in eval mode afterwards.
    """
    x, _ = data.many([0])
    network.eval()
    failing = f"the model fails on {data.split} inputs of shape {tuple(x.shape[1:])}"
    with guarded(failing, error=ModelError), torch.no_grad():
        answer = network(x)
    if not isinstance(answer, torch.Tensor):
        raise ModelError(f"the model returns {type(answer).__name__}; expected a tensor")
    if not objective.classifies:
        if answer.shape != x.shape:
            raise ModelError(
                f"the model turns shape {tuple(x.shape[1:])} into {tuple(answer.shape[1:])}; a denoiser keeps the shape"
            )
        return
    if answer.shape == x.shape:
        kind = type(objective).__name__
        raise ModelError(
            f"the model returns images: it is a denoiser, and {kind} trains classifiers; choose objective denoise"
        )
    if answer.dim() != 2:
        shape = tuple(answer.shape[1:])
        raise ModelError(f"the model returns shape {shape} for one input; expected one logit for each class")
    check_labels(data, answer.shape[1])
