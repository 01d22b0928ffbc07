"""Linear classifiers, whose true radii are known: duels change where the network itself does."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["linear", "true_radius"]


def linear(classes: int, numbers: int, seed: int = 0) -> tuple[nn.Linear, Tensor]:
    """A network of one layer, and of 50 inputs the one with the largest margin."""
    generator = torch.Generator().manual_seed(seed)
    network = nn.Linear(numbers, classes)
    with torch.no_grad():
        network.weight.copy_(torch.randn(classes, numbers, generator=generator))
        network.bias.copy_(torch.randn(classes, generator=generator))
        inputs = torch.rand(50, numbers, generator=generator)
        leads = network(inputs).topk(2).values
    return network, inputs[int((leads[:, 0] - leads[:, 1]).argmax())]


def true_radius(network: nn.Linear, x: Tensor) -> tuple[int, float, int]:
    """The class of an input, the distance to the nearest hyperplane at which it changes, and the class beyond it."""
    with torch.no_grad():
        logits, weights = network(x).double(), network.weight.double()
        top = int(logits.argmax())
        distances = (logits[top] - logits) / (weights[top] - weights).norm(dim=1)
        distances[top] = torch.inf
    return top, float(distances.min()), int(distances.argmin())
