"""Lipschitz models that round much, whose exact decision boundary is known."""

import math

import torch
from torch import Tensor, nn

__all__ = ["Shifted", "distance_as_it_runs", "hurtful"]


class Shifted(nn.Module):
    """The two numbers of its input, to which a large number is added in the precision of its weights: constant 1."""

    def __init__(self, bias: float, kind: torch.dtype) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        with torch.no_grad():
            self.layer.weight.copy_(torch.eye(2))
            self.layer.bias.fill_(bias)
        self.layer.to(kind)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layer(x.to(self.layer.weight.dtype))
        return logits.to(x.dtype)


def hurtful(name: str) -> Shifted:
    return {"bfloat16": Shifted(100.0, torch.bfloat16), "float32": Shifted(1e6, torch.float32)}[name]


def distance_as_it_runs(model: Shifted, x: Tensor, most: float, steps: int = 4000) -> float:
    """How far the model, as it runs, keeps its answer in the direction of the boundary; ``most`` if it keeps it."""
    sign = 1.0 if x[0] < x[1] else -1.0
    lengths = torch.linspace(0, most, steps)
    with torch.no_grad():
        answers = model(x + lengths[:, None] * torch.tensor([sign, -sign]) / math.sqrt(2)).argmax(dim=1)
    turned = (answers != answers[0]).nonzero()
    return float(lengths[turned[0, 0]]) if len(turned) else most
