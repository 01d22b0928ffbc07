"""A network that removes Gaussian noise of one standard deviation from images."""

from __future__ import annotations

from torch import Tensor, nn

__all__ = ["DnCNN", "dncnn"]


class DnCNN(nn.Module):
    """Convolutions with batch normalisation that estimate the noise, which is subtracted (Zhang et al. 2017)."""

    def __init__(self, channels: int, width: int, depth: int) -> None:
        super().__init__()
        inner: list[nn.Module] = []
        for _ in range(depth - 2):
            inner += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        self.noise = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1),
            nn.ReLU(inplace=True),
            *inner,
            nn.Conv2d(width, channels, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Denoise a batch of images; the result has the same shape."""
        estimate: Tensor = x - self.noise(x)
        return estimate


def dncnn(channels: int = 3, width: int = 32, depth: int = 6) -> DnCNN:
    """Make a DnCNN of ``depth`` convolutions; the paper uses a width of 64 and a depth of 17."""
    return DnCNN(channels, width, depth)
