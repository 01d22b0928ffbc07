"""From the words of a command line to a model, data and a smoothed classifier."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from lvmrs import _checks, models
from lvmrs.cli.console import tell
from lvmrs.cli.parsing import numbers
from lvmrs.data import Dataset, load
from lvmrs.errors import DataError
from lvmrs.runs import Selection
from lvmrs.sampling import Model
from lvmrs.smooth import SmoothedClassifier

__all__ = ["Request", "check_selection"]


@dataclass(frozen=True)
class Request:
    """What the commands that run a model are asked for."""

    model: str
    weights: Path | None
    mean: str | None
    std: str | None
    denoiser: str | None
    data: str
    split: str
    image_size: int | None
    sigma: float
    device: str
    autocast: str | None = None
    compile: bool = False
    lipschitz: float | None = None

    def load(self, batch: int | None) -> tuple[models.Loaded, Dataset, SmoothedClassifier]:
        """Everything by its name; what had to be assumed is told."""
        dataset = load(self.data, split=self.split, size=self.image_size)
        loaded = models.load(
            self.model,
            weights=self.weights,
            mean=numbers("mean", self.mean),
            std=numbers("std", self.std),
            denoiser=self.denoiser,
            sigma=_checks.single("sigma", _checks.positive("sigma", self.sigma)),
        )
        smoothed = SmoothedClassifier(
            _on(loaded.model, self.device),
            self.sigma,
            self.lipschitz,
            batch=batch,
            device=_device(self.device),
            autocast=_checks.precision(self.autocast),
            compile=self.compile,
        )
        tell(f"model  {'; '.join((loaded.name, *loaded.facts.sentences()))}")
        if math.isfinite(smoothed.lipschitz):
            own = _checks.known_lipschitz(loaded.model)
            told = "" if self.lipschitz is None else ", as given" + (f" (the model says {own:g})" if own else "")
            tell(f"lipschitz {smoothed.lipschitz:g}{told}")
        tell(
            f"data   {'; '.join((dataset.name, f'{dataset.split}, {len(dataset)} inputs', *dataset.facts.sentences()))}"
        )
        return loaded, dataset, smoothed


def _device(name: str) -> str:
    return ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name


def _on(model: Model, device: str) -> Model:
    if not isinstance(model, nn.Module):
        return model
    return model.to(_checks.device(_device(device)))


def check_selection(dataset: Dataset, selection: Selection) -> None:
    """Refuse shards or a selection with nothing in it."""
    whole = replace(selection, shard=1, shards=1)
    if not len(whole.indices):
        raise DataError(f"{dataset.name}: no inputs are selected; check --max and --skip")
    if selection.shards > len(whole.indices):
        raise DataError(f"{dataset.name}: {selection.shards} shards for {len(whole.indices)} inputs; take fewer")
