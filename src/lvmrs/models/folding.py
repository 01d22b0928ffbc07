"""Folds sandwich networks: the layers between two activations become a single linear map.

The convolutions among these maps are arranged so that they need few multiplications.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lvmrs.models.lipschitz.fourier import Circulant, RealProducts, Workspace
from lvmrs.models.sandwich_layers import NormPool, SandwichConv, SandwichDense, SandwichLast

__all__ = ["Folded", "FourierConvolution", "chained", "precision", "squares_as_channels"]

# Number of inputs per part of a batch, measured on the small network: larger parts do not fit into the caches, and
# smaller parts make small matrix products.
_PART = 128


def precision(parameter: Tensor) -> torch.dtype:
    """The precision of a network: that of its parameters, and at least float32."""
    return torch.promote_types(parameter.dtype, torch.float32)


class Folded:
    """A sandwich network as linear maps between activations. Internally, the batch is the last dimension.

    If ``checked``, layers that exceed their constant by rounding are scaled down, or raise ``ModelError``.
    """

    def __init__(
        self,
        shape: Sequence[int],
        convolutions: nn.Sequential,
        dense: nn.Sequential,
        last: SandwichLast,
        gamma: float,
        kind: torch.dtype,
        checked: bool,
    ) -> None:
        half = math.sqrt(gamma)
        like = last.bias.detach().to(precision(last.bias))
        operators, waiting = _between_activations(shape, convolutions, like.to(kind), half, checked)
        self.convolutions = chained(operators, like)
        self.squares = self.convolutions[0].squares if self.convolutions else 1
        self.images = len(convolutions) > 0
        self.linear: list[tuple[Tensor, Tensor]] = []
        out_of: Tensor | None = None
        layers: list[SandwichDense | SandwichLast] = [layer for layer in dense if isinstance(layer, SandwichDense)]
        for layer in [*layers, last]:
            into, following = layer.maps(kind, checked=checked)
            if out_of is not None:
                into = into @ out_of
            elif waiting is not None:
                into = waiting.then_dense(into)
            if not self.convolutions and not self.linear:
                into = half * into
            self.linear.append((into, layer.bias[:, None]))
            out_of = following
        into, bias = self.linear[-1]
        self.linear[-1] = half * into, bias
        self.linear = [(into.to(like).contiguous(), bias.to(like).contiguous()) for into, bias in self.linear]
        self.workspace = Workspace()

    def detached(self) -> Folded:
        """Detach the maps from the parameters, copy the biases, and return self."""
        self.linear = [(into.detach(), bias.detach().clone()) for into, bias in self.linear]
        return self

    def __call__(self, x: Tensor) -> Tensor:
        """The logits of a batch."""
        return torch.cat([self._part(part) for part in torch.split(x, _PART)]) if len(x) > _PART else self._part(x)

    def _part(self, x: Tensor) -> Tensor:
        alone = x.device.type == "cpu" and torch.is_inference_mode_enabled() and not torch.compiler.is_compiling()
        workspace = self.workspace if alone else None
        hidden = squares_as_channels(x, self.squares) if self.images else x.flatten(1).T.contiguous()
        for convolution in self.convolutions:
            hidden = convolution(hidden, workspace).relu_()
        hidden = hidden.reshape(self.linear[0][0].shape[1], len(x))
        *inner, (matrix, bias) = self.linear
        for weight, shift in inner:
            hidden = torch.addmm(shift, weight, hidden).relu_()
        return torch.addmm(bias, matrix, hidden).T.contiguous()


def _between_activations(
    shape: Sequence[int], convolutions: nn.Sequential, like: Tensor, scale: float, checked: bool
) -> tuple[list[tuple[Circulant, Tensor]], Circulant | None]:
    """The maps and biases of the convolutional layers, and the map that follows their last activation.

    The first map is multiplied by ``scale``.
    """
    done: list[tuple[Circulant, Tensor]] = []
    waiting: Circulant | None = None
    for layer in convolutions:
        channels, *sides = shape
        grid = (sides[0], sides[1]) if waiting is None else waiting.kept
        if isinstance(layer, NormPool):
            channels = channels if waiting is None else waiting.spectrum.shape[2]
            pool = Circulant.pooled(channels, grid, layer.stride, like)
            waiting = pool if waiting is None else waiting.then(pool)
        elif isinstance(layer, SandwichConv):
            kept = grid[0] // layer.stride, grid[1] // layer.stride
            into, out_of = layer.maps(kept, like.dtype, checked=checked)
            step = Circulant.unshuffled(into, grid, layer.stride)
            whole = step if waiting is None else waiting.then(step)
            if not done:
                whole = Circulant(scale * whole.spectrum, whole.grid, whole.stride)
            done.append((whole, layer.bias.to(like.dtype)))
            waiting = Circulant(out_of, kept)
    return done, waiting


class FourierConvolution(RealProducts):
    """Runs a ``Circulant`` and adds a bias.

    With a stride, channels are mixed on the smaller grid of the results. With a ``split``, squares of that side become
    channels of the results, which makes transforms smaller and mixing larger. If ``gathered``, the channels of the
    inputs are already squares of ``squares`` pixels on a side.
    """

    def __init__(self, operator: Circulant, bias: Tensor, gathered: bool = False, split: int = 1) -> None:
        self.squares = operator.stride * split
        height, width = (extent // split for extent in operator.kept)
        places = 1 if gathered else self.squares
        super().__init__(operator.between_squares(split), (height, width), bias.repeat(split**2), places)


def chained(operators: Sequence[tuple[Circulant, Tensor]], like: Tensor) -> list[FourierConvolution]:
    """Arrange operators with their biases in a chain. Its input is a result of ``squares_as_channels``.

    The results of one operator are split into the squares of the next operator if this saves multiplications.
    """
    splits = [1] * len(operators)
    for i in reversed(range(len(operators) - 1)):
        (operator, _), (following, _) = operators[i : i + 2]
        side = following.stride * splits[i + 1]
        apart = _products(operator, 1, True) + _products(following, splits[i + 1], False)
        if _products(operator, side, True) + _products(following, splits[i + 1], True) < apart:
            splits[i] = side
    done: list[FourierConvolution] = []
    for (operator, bias), split in zip(operators, splits, strict=True):
        gathered = not done or splits[len(done) - 1] == operator.stride * split
        done.append(FourierConvolution(operator, bias, gathered, split).to(like))
    return done


def squares_as_channels(x: Tensor, side: int) -> Tensor:
    """Convert a batch of images to (height, width, channels, batch), with squares of pixels as channels."""
    batch, channels, height, width = x.shape
    squares = x.reshape(batch, channels, height // side, side, width // side, side)
    return squares.permute(2, 4, 3, 5, 1, 0).contiguous().flatten(2, 4)


def _products(operator: Circulant, split: int, gathered: bool) -> int:
    """The number of multiplications of a ``FourierConvolution`` for one image, in transforms and in mixing."""
    squares = operator.stride * split
    after, before = operator.spectrum.shape[2] * split**2, operator.spectrum.shape[3] * squares**2
    height, width = (extent // split for extent in operator.kept)
    transformed = after + before * (1 if gathered else squares)
    return height * width * (transformed * (height + 2 * width) + 2 * before * after)
