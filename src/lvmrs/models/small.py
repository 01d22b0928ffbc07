"""Small convolutional networks for fast training and certification on a CPU."""

from __future__ import annotations

from torch import nn

__all__ = ["fast_cnn", "small_cnn"]


def small_cnn(channels: int = 1, side: int = 8, classes: int = 10, width: int = 16) -> nn.Sequential:
    """Make a network of two convolutions and a linear layer, for images of ``side`` × ``side`` pixels."""
    half = (side + 1) // 2
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * width * half * half, classes),
    )


def fast_cnn(channels: int = 3, classes: int = 10, width: int = 32) -> nn.Sequential:
    """Make a network of five convolutions, for images of about 32 × 32 pixels; strides of 2 make it fast."""
    return nn.Sequential(
        *_normalised(channels, width, kernel=4, stride=2),
        *_normalised(width, 2 * width),
        *_normalised(2 * width, 4 * width, kernel=4, stride=2),
        *_normalised(4 * width, 4 * width),
        *_normalised(4 * width, 8 * width, kernel=4, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8 * width, classes),
    )


def _normalised(before: int, after: int, kernel: int = 3, stride: int = 1) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(before, after, kernel, stride=stride, padding=1, bias=False)
    return convolution, nn.BatchNorm2d(after), nn.ReLU(inplace=True)
