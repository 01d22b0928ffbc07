"""Small classifiers for the tests."""

import torch
from torch import Tensor, nn


class RowByRow:
    """Three classes, computed from each input alone with float64 sums: the same whatever shares its batch."""

    def __init__(self, features: int = 12, classes: int = 3, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.weights = torch.randn(classes, features, generator=generator, dtype=torch.float64)
        self.sizes: list[int] = []

    def __call__(self, x: Tensor) -> Tensor:
        self.sizes.append(len(x))
        rows = x.double().reshape(len(x), -1)
        return (rows[:, None, :] * self.weights).sum(dim=-1)


class WithDropout(nn.Module):
    """A network whose parts are in different modes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(12, 16)
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(self.drop(self.norm(self.first(x)).relu()))
        return logits
