"""Networks small enough for a demonstration on a CPU."""

from torch import nn

__all__ = ["small_cnn"]


def small_cnn(channels: int = 1, side: int = 8, classes: int = 10, width: int = 16) -> nn.Sequential:
    """Two convolutions and a linear layer, for images of ``side`` × ``side``."""
    half = (side + 1) // 2
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * width * half * half, classes),
    )
