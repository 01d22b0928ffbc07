"""From the words of a command line to a model, data and a smoothed classifier."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from lvmrs import models
from lvmrs.data import Dataset, load
from lvmrs.errors import DataError, InvalidArgumentError
from lvmrs.sampling import Model
from lvmrs.smooth import SmoothedClassifier

__all__ = ["Request", "check_selection", "numbers", "shard", "tell"]

_PRECISIONS = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def tell(text: str) -> None:
    """A line for people: on stderr, so that data have stdout to themselves."""
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Request:
    """What the commands that run a model are asked for."""

    model: str
    weights: Path | None
    mean: str | None
    std: str | None
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
            self.model, weights=self.weights, mean=numbers("mean", self.mean), std=numbers("std", self.std)
        )
        if self.autocast is not None and self.autocast not in _PRECISIONS:
            raise InvalidArgumentError(f"autocast must be bfloat16 or float16, got {self.autocast}")
        smoothed = SmoothedClassifier(
            _on(loaded.model, self.device),
            self.sigma,
            self.lipschitz,
            batch=batch,
            device=_device(self.device),
            autocast=None if self.autocast is None else _PRECISIONS[self.autocast],
            compile=self.compile,
        )
        tell(f"model  {'; '.join((loaded.name, *loaded.assumed))}")
        tell(f"data   {'; '.join((dataset.name, f'{dataset.split}, {len(dataset)} inputs', *dataset.assumed))}")
        return loaded, dataset, smoothed


def _device(name: str) -> str:
    return ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name


def _on(model: Model, device: str) -> Model:
    if not isinstance(model, nn.Module):
        return model
    SmoothedClassifier(model, 1.0, device=_device(device))  # refuses a device that cannot be used, in one sentence
    return model.to(_device(device))


def numbers(name: str, text: str | None) -> list[float] | None:
    """Numbers with commas between them."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidArgumentError(f"{name} must be numbers with commas between them, got {text!r}") from None


def shard(text: str | None) -> tuple[int, int]:
    """2/8 is the second of eight."""
    number, slash, count = (text or "1/1").partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise InvalidArgumentError(f"shard must be like 2/8, the second of eight, got {text!r}")
    return int(number), int(count)


def check_selection(dataset: Dataset, indices: range) -> None:
    """Refuse an empty selection."""
    if not len(indices):
        raise DataError(f"{dataset.name}: no inputs are selected; check --max, --skip and --shard")
