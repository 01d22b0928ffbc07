"""A network for commands that are killed while they compute: it is named python:slow_net.py:net."""

import os
import time

import torch
from torch import Tensor, nn

__all__ = ["net"]


class Slow(nn.Module):
    """A linear classifier, with a rest in each pass; not in torch's own steps, so that it is run as it is.

    Both the rest and what logits are multiplied by depend on the machine.
    """

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.last = nn.Linear(64, 10)
        with torch.no_grad():
            for weights in self.last.parameters():
                weights.copy_(torch.randn(weights.shape, generator=generator))
        self.seconds = float(os.environ.get("REST", "0"))
        self.times = float(os.environ.get("TIMES", "1"))

    def forward(self, x: Tensor) -> Tensor:
        time.sleep(self.seconds)
        logits: Tensor = self.last(x.flatten(1))
        return self.times * logits


def net() -> nn.Module:
    return Slow()
