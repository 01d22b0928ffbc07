"""A model and data whose logits are the same bits on every machine, for the golden rows.

The functions here are named on command lines: ``python:tests/golden_model.py:sums``.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

WEIGHTS = ((3, -1, 0, 2), (-2, 1, 3, 0), (0, 1, -3, 1))
"""Rows: classes; columns: the numbers of an input."""
LIPSCHITZ = 5.0
"""Above the spectral norm of the weights, 4.938."""


class Sums:
    """Logits as sums in float64, term by term: no library decides the order. For noise of any values."""

    def __call__(self, x: Tensor) -> Tensor:
        numbers = x.double().reshape(len(x), -1)
        logits = []
        for row in WEIGHTS:
            total = numbers[:, 0] * row[0]
            for column, weight in enumerate(row[1:], start=1):
                total = total + numbers[:, column] * weight
            logits.append(total)
        return torch.stack(logits, dim=1)


def sums() -> Sums:
    """The linear model."""
    return Sums()


def network() -> nn.Module:
    """A convolutional network with integer weights: exact in float32, in any order, for inputs on a grid."""
    first, last = nn.Conv2d(1, 6, 2, bias=False), nn.Linear(6, 3)
    with torch.no_grad():
        first.weight.copy_(torch.tensor([*WEIGHTS, *(tuple(-w for w in row) for row in WEIGHTS)]).reshape(6, 1, 2, 2))
        last.weight.copy_(torch.tensor(((1, 0, 0, -1, 0, 1), (0, 1, 0, 1, -1, 0), (0, 0, 1, 0, 1, -1))))
        last.bias.copy_(torch.tensor((0, 1, -1)))
    return nn.Sequential(first, nn.ReLU(), nn.Flatten(), last).eval()


def data(split: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Five inputs with values on a grid of 64 levels; the training split has others."""
    seed = {"test": 7, "train": 3}[split]
    inputs = np.random.default_rng(seed).integers(0, 65, (5, 1, 2, 2)) / 64
    return inputs.astype(np.float32), np.array([0, 1, 1, 0, 2])
