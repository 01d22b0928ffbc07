"""Networks of the sandwich layers of Wang and Manchester (2023) have a Lipschitz constant that is chosen.

A network runs folded: from one activation to the next there is a single linear map. In training it is made in each
step, for gradients to pass; in eval mode once, in float64.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lvmrs.errors import InvalidArgumentError, ModelError
from lvmrs.models.folding import Folded, precision
from lvmrs.models.sandwich_layers import NormPool, SandwichConv, SandwichDense, SandwichLast, cayley

__all__ = ["NormPool", "SandwichConv", "SandwichDense", "SandwichLast", "SandwichNetwork", "cayley", "sandwich"]


class SandwichNetwork(nn.Module):
    """It has convolutions (and pooling), dense layers and a last one, and is ``gamma``-Lipschitz in all.

    Its inputs have this ``shape``; ``convolutions`` are (channels, kernel, stride), or a number for pooling by that
    much; ``dense`` are widths.
    """

    def __init__(
        self,
        shape: Sequence[int],
        convolutions: Sequence[tuple[int, int, int] | int],
        dense: Sequence[int],
        classes: int,
        gamma: float = 1.0,
    ) -> None:
        super().__init__()
        if not (math.isfinite(gamma) and gamma > 0):
            raise InvalidArgumentError(f"gamma must be a positive number, got {gamma!r}")
        self.shape, self.gamma = tuple(shape), float(gamma)
        layers: list[nn.Module] = []
        channels, *sides = self.shape
        if convolutions and len(sides) != 2:
            raise InvalidArgumentError(f"shape must be (channels, height, width) for convolutions, got {self.shape}")
        for spec in convolutions:
            stride = spec if isinstance(spec, int) else spec[2]
            if stride < 1:
                raise InvalidArgumentError(f"a stride must be at least 1, got {stride}")
            if any(side % stride for side in sides):
                raise InvalidArgumentError(
                    f"an image of {sides[0]} × {sides[1]} cannot be divided by {stride}; take another side"
                )
            if isinstance(spec, int):
                layers.append(NormPool(spec))
            else:
                layers.append(SandwichConv(channels, spec[0], spec[1], stride))
                channels = spec[0]
            sides = [side // stride for side in sides]
        self.convolutions = nn.Sequential(*layers)
        widths = [math.prod((channels, *sides)), *dense]
        pairs = itertools.pairwise(widths)
        self.dense = nn.Sequential(*(SandwichDense(before, after) for before, after in pairs))
        self.last = SandwichLast(widths[-1], classes)
        self._kept: tuple[object, Folded] | None = None

    @property
    def lipschitz(self) -> float:
        """The logits have this constant, in the Euclidean norm."""
        return self.gamma

    def train(self, mode: bool = True) -> SandwichNetwork:
        """The network goes into training mode or out of it; what was folded is forgotten then."""
        if mode != self.training:
            self._kept = None
        return super().train(mode)

    def forward(self, x: Tensor) -> Tensor:
        """The result holds the logits of a batch."""
        if x.shape[1:] != self.shape:
            raise ModelError(f"the inputs have shape {tuple(x.shape[1:])} and the network was made for {self.shape}")
        with torch.autocast(x.device.type, enabled=False):  # rounding to 16 bits would loosen the constant
            x = x.to(self.last.bias.device, precision(self.last.bias))
            return self._fold(x.dtype)(x) if self.training else self.folded()(x)

    def layer_by_layer(self, x: Tensor) -> Tensor:
        """The logits are computed as the formula says, to compare with."""
        half = math.sqrt(self.gamma)
        hidden = self.convolutions(half * x)
        logits: Tensor = self.last(half * self.dense(torch.flatten(hidden, 1)))
        return logits

    def folded(self) -> Folded:
        """The result has plain weights, which are made anew only when the parameters, or the mode, have changed.

        Changes of a parameter's ``.data`` are not counted by torch: switch to training mode and back after them.
        """
        if any(parameter.is_inference() for parameter in self.parameters()):  # these do not count their changes
            return self._fold(torch.float64).detached()
        state = [self.gamma, *((p.data_ptr(), p._version, p.dtype, p.device) for p in self.parameters())]
        if self._kept is None or self._kept[0] != state:
            with torch.inference_mode(False), torch.no_grad():
                self._kept = state, self._fold(torch.float64).detached()
        return self._kept[1]

    def _fold(self, kind: torch.dtype) -> Folded:
        return Folded(self.shape, self.convolutions, self.dense, self.last, self.gamma, kind)


def sandwich(
    channels: int = 3, side: int = 32, classes: int = 10, gamma: float = 1.0, width: int = 1
) -> SandwichNetwork:
    """It has four convolutions of 32 and 64 channels, two dense layers of 512 and a last one, ``width`` times as wide.

    It is the convolutional network of Wang and Manchester (2023, section 5.2), small, medium and large for a width of
    1, 2 and 4.
    """
    return SandwichNetwork(
        (channels, side, side),
        [(32 * width, 3, 1), (32 * width, 3, 2), (64 * width, 3, 1), (64 * width, 3, 2)],
        [512 * width, 512 * width],
        classes,
        gamma,
    )
