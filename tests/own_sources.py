"""A model source and a data source as somebody would add them: one function each, and one line in the registry."""

import torch
from torch import Tensor, nn

from lvmrs.data import Arrays, Dataset
from lvmrs.errors import ModelError
from lvmrs.models import ModelFacts


class Threshold(nn.Module):
    """Two classes: whether the mean of an input is above a number."""

    def __init__(self, number: float) -> None:
        super().__init__()
        self.register_buffer("number", torch.tensor(number))
        self.number: Tensor

    def forward(self, x: Tensor) -> Tensor:
        above = x.flatten(1).mean(dim=1) - self.number
        return torch.stack([-above, above], dim=1)


def threshold(name: str, rest: str) -> tuple[nn.Module, ModelFacts]:
    """``threshold:NUMBER``."""
    try:
        return Threshold(float(rest)), ModelFacts()
    except ValueError:
        raise ModelError(f"{name}: {rest} is not a number") from None


def ramp(name: str, rest: str, split: str) -> Dataset:
    """``ramp:COUNT``: grey images from dark to light."""
    shades = torch.linspace(0, 1, int(rest)).view(-1, 1, 1, 1).expand(-1, 1, 2, 2)
    return Arrays(name, split, shades.numpy(), (shades[:, 0, 0, 0] > 0.5).numpy().astype(int))
