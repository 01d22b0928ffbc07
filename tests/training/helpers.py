"""Small data, fresh networks and random numbers for the tests of training."""

from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from lvmrs.data import load
from lvmrs.data.arrays import Arrays
from lvmrs.models import ready
from lvmrs.models.trained import training_record

__all__ = ["batch", "fresh", "record_of", "seeded", "some_digits", "weights"]


def some_digits(count: int = 200) -> Arrays:
    whole = load("digits", split="train")
    assert isinstance(whole, Arrays)
    return Arrays("some digits", "train", whole.inputs[:count], whole.labels[:count])


def fresh(name: str = "small_cnn", seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return ready.build(name)


def batch(count: int = 6) -> tuple[Tensor, Tensor]:
    return some_digits().many(range(count))


def seeded(seed: int = 3) -> Generator:
    return Generator().manual_seed(seed)


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in model.state_dict().items()}


def record_of(path: Path) -> dict[str, Any]:
    """What a file of weights says about its network and training."""
    return training_record(path)
