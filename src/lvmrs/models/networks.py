"""Networks for small images: residual networks, fast convolutional classifiers, and a denoiser.

``ResNet`` is the residual network of He et al. (2016), with the two kinds of shortcuts of published weights.
``small_cnn`` and ``fast_cnn`` train and certify quickly on a CPU. ``DnCNN`` removes Gaussian noise of one standard
deviation from images.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from lvmrs.errors import InvalidArgumentError

Shortcut = Literal["padded", "convolved"]


class ResNet(nn.Module):
    """A residual network: a convolution, three groups of k blocks each, and a linear layer.

    Args:
        depth: number of layers, 6 k + 2.
        channels: channels of the images.
        classes: number of classes.
        width: channels of the first group; the second and third have two and four times as many.
        shortcut: the shortcut of blocks that halve the image. "padded" takes every second pixel and fills the new
            channels with zeros (He et al.; resnet20 and the like); "convolved" is a 1 × 1 convolution with
            normalisation (cifar_resnet20 and cifar_resnet110 of Cohen et al. 2019, and of code that builds on theirs).
        stride: stride of the first convolution; 2 halves the image and makes the network four times as fast.
    """

    def __init__(
        self,
        depth: int,
        channels: int = 3,
        classes: int = 10,
        width: int = 16,
        shortcut: Shortcut = "padded",
        stride: int = 1,
    ) -> None:
        super().__init__()
        blocks, rest = divmod(depth - 2, 6)
        if rest or blocks < 1:
            raise InvalidArgumentError(f"depth must be 8, 14, 20 and so on (6 k + 2), got {depth}")
        self.conv1 = nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = _group(width, width, blocks, 1, shortcut)
        self.layer2 = _group(width, 2 * width, blocks, 2, shortcut)
        self.layer3 = _group(2 * width, 4 * width, blocks, 2, shortcut)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(4 * width, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """The logits of a batch of images."""
        x = functional.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        logits: Tensor = self.fc(torch.flatten(self.pool(x), 1))
        return logits


class _Padded(nn.Module):
    """Takes every second pixel, and adds channels of zeros before and after the old channels."""

    def __init__(self, added: int) -> None:
        super().__init__()
        self.before, self.after = added // 2, added - added // 2

    def forward(self, x: Tensor) -> Tensor:
        return functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.before, self.after))


class _Block(nn.Module):
    """Two convolutions with batch normalisation, and a shortcut."""

    def __init__(self, before: int, after: int, stride: int, shortcut: Shortcut) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample: nn.Module = nn.Identity()
        if stride > 1 and shortcut == "padded":
            self.downsample = _Padded(after - before)
        elif stride > 1:
            self.downsample = nn.Sequential(
                nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(inner)) + self.downsample(x))


def _group(before: int, after: int, blocks: int, stride: int, shortcut: Shortcut) -> nn.Sequential:
    first = _Block(before, after, stride, shortcut)
    return nn.Sequential(first, *(_Block(after, after, 1, shortcut) for _ in range(blocks - 1)))


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


class DnCNN(nn.Module):
    """Convolutions with batch normalisation that estimate the noise, which is subtracted (Zhang et al. 2017).

    The paper uses a width of 64 and a depth of 17 convolutions.
    """

    def __init__(self, channels: int = 3, width: int = 32, depth: int = 6) -> None:
        super().__init__()
        self.noise = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1),
            nn.ReLU(inplace=True),
            *(layer for _ in range(depth - 2) for layer in _normalised(width, width)),
            nn.Conv2d(width, channels, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Denoise a batch of images; the result has the same shape."""
        estimate: Tensor = x - self.noise(x)
        return estimate
