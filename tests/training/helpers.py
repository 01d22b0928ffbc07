"""Small data, fresh networks and random numbers for the tests of training."""

from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from lvmrs.data import load
from lvmrs.data.arrays import Arrays
from lvmrs.models import ready
from lvmrs.models.trained import training_record

__all__ = ["Recorder", "batch", "doubled", "fresh", "gradients", "record_of", "seeded", "some_digits", "weights"]


def some_digits(count: int = 200) -> Arrays:
    whole = load("digits", split="train")
    assert isinstance(whole, Arrays)
    assert whole.labels is not None
    return Arrays("some digits", "train", whole.inputs[:count], whole.labels[:count])


def fresh(name: str = "small_cnn", seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return ready.build(name)


class Recorder(nn.Module):
    """Remembers what it was asked."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.asked = model, list[Tensor]()

    def forward(self, x: Tensor) -> Tensor:
        self.asked.append(x.detach().clone())
        answer: Tensor = self.model(x)
        return answer


def batch(count: int = 6) -> tuple[Tensor, Tensor]:
    return some_digits().many(range(count))


def doubled(classes: int = 10) -> tuple[nn.Module, Tensor, Tensor]:
    """A network, inputs and labels in float64. The network is right about the first three of six inputs."""
    model, (x, _) = fresh(f"small_cnn,classes={classes}").double(), batch()
    x = x.double()
    y = model(x).argmax(dim=1).detach()
    return model, x, torch.where(torch.arange(6) < 3, y, (y + 1) % classes)


def gradients(loss: Tensor, model: nn.Module) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(model.parameters()), retain_graph=True))


def seeded(seed: int = 3) -> Generator:
    return Generator().manual_seed(seed)


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in model.state_dict().items()}


def record_of(path: Path) -> dict[str, Any]:
    """What a file of weights says about its network and training."""
    return training_record(path)
