"""Sandwich networks (Wang and Manchester 2023), which have a chosen Lipschitz constant for any weights.

A network runs folded: the layers between two activations become a single linear map. In training mode the maps are
computed in each step, so that gradients pass through them. In eval mode they are computed once, in float64, and the
effect of rounding on the constant of each layer is checked.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lvmrs.errors import InvalidArgumentError, ModelError
from lvmrs.kernel import checks
from lvmrs.models.folding import Folded, precision
from lvmrs.models.sandwich_layers import NormPool, SandwichConv, SandwichDense, SandwichLast, cayley

__all__ = ["NormPool", "SandwichConv", "SandwichDense", "SandwichLast", "SandwichNetwork", "cayley", "sandwich"]

# The largest accepted width: the number of weights grows with the square of the width.
_WIDEST = 1000


class SandwichNetwork(nn.Module):
    """A network of convolutions and pooling, dense layers and a last layer, with the Lipschitz constant ``gamma``.

    Args:
        shape: shape of an input: (channels, height, width) with convolutions.
        convolutions: (channels, kernel, stride) of each convolution, or one number, the side of the pooling squares.
        dense: widths of the dense layers.
        classes: number of classes.
        gamma: the Lipschitz constant of the logits, in the Euclidean norm, for any weights.

    >>> SandwichNetwork((2,), [], dense=[8], classes=3, gamma=0.5).lipschitz
    0.5
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
        self.shape, self.gamma = checks.shape(shape), checks.positive_number("gamma", gamma)
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
                    f"an image of {sides[0]} × {sides[1]} cannot be divided by {stride}; choose another side"
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
        self.last = SandwichLast(widths[-1], checks.count("classes", classes, least=1))
        self._kept: tuple[object, Folded] | None = None

    @property
    def lipschitz(self) -> float:
        """The Lipschitz constant of the logits, in the Euclidean norm."""
        return self.gamma

    def train(self, mode: bool = True) -> SandwichNetwork:
        """Set training or eval mode; a change of mode discards the folded network."""
        if mode != self.training:
            self._kept = None
        return super().train(mode)

    def forward(self, x: Tensor) -> Tensor:
        """The logits of a batch of inputs (batch, *shape)."""
        if x.shape[1:] != self.shape:
            raise ModelError(f"the inputs have shape {tuple(x.shape[1:])} and the network was made for {self.shape}")
        with torch.autocast(x.device.type, enabled=False):  # rounding to 16 bits would break the constant
            x = x.to(self.last.bias.device, precision(self.last.bias))
            return self._fold(x.dtype, checked=False)(x) if self.training else self.folded()(x)

    def layer_by_layer(self, x: Tensor) -> Tensor:
        """The logits without folding, layer by layer, for comparison."""
        half = math.sqrt(self.gamma)
        hidden = self.convolutions(half * x)
        logits: Tensor = self.last(half * self.dense(torch.flatten(hidden, 1)))
        return logits

    def folded(self) -> Folded:
        """The folded network, computed again only after a change of the parameters or the mode.

        Torch does not count changes through ``.data`` of a parameter: set training mode and eval mode after them.
        """
        if any(parameter.is_inference() for parameter in self.parameters()):  # torch does not count changes of them
            return self._fold(torch.float64, checked=True).detached()
        state = [self.gamma, *((p.data_ptr(), p._version, p.dtype, p.device) for p in self.parameters())]
        if self._kept is None or self._kept[0] != state:
            with torch.inference_mode(False), torch.no_grad():
                self._kept = state, self._fold(torch.float64, checked=True).detached()
        return self._kept[1]

    def _fold(self, kind: torch.dtype, *, checked: bool) -> Folded:
        return Folded(self.shape, self.convolutions, self.dense, self.last, self.gamma, kind, checked)


def sandwich(
    channels: int = 3, side: int = 32, classes: int = 10, gamma: float = 1.0, width: int = 1
) -> SandwichNetwork:
    """Make the convolutional network of Wang and Manchester (2023, section 5.2).

    It has four convolutions of 32 and 64 channels, two dense layers of 512 and a last layer.

    Args:
        channels: channels of the images.
        side: height and width of the images, a multiple of 4.
        classes: number of classes.
        gamma: the Lipschitz constant of the logits, in the Euclidean norm, for any weights.
        width: factor for all channels and widths: 1, 2 and 4 are small, medium and large.

    >>> sandwich(channels=1, side=8, gamma=2.0).lipschitz
    2.0
    """
    channels, side = (checks.count(name, value, least=1) for name, value in (("channels", channels), ("side", side)))
    width = checks.count("width", width, least=1, most=_WIDEST)
    return SandwichNetwork(
        (channels, side, side),
        [(32 * width, 3, 1), (32 * width, 3, 2), (64 * width, 3, 1), (64 * width, 3, 2)],
        [512 * width, 512 * width],
        classes,
        gamma,
    )
