"""Sandwich networks (Wang and Manchester 2023), which have a chosen Lipschitz constant for any parameters.

A layer computes h ↦ √2 Aᵀ Ψ relu(√2 Ψ⁻¹ B h + b), where the rows of [A B] are orthonormal and Ψ is diagonal. Its
derivative is 2 Aᵀ S B with S diagonal in [0, 1]. This is an average of matrices of the same form whose S has only zeros
and ones. Each of these is 2 A'ᵀ B' with A'A'ᵀ + B'B'ᵀ = S² ≤ 1, so ‖2 A'ᵀ B' v‖² ≤ 4 vᵀ B'ᵀ(1 − B'B'ᵀ) B' v ≤ ‖v‖²,
since 4 s(1 − s) ≤ 1. So every layer has the constant 1. The Cayley transform makes orthonormal rows from free
parameters; a convolution wraps around the image and has a matrix with orthonormal rows at each frequency.

A network runs folded: the layers between two activations become a single linear map. In training mode the maps are
computed in each step, so that gradients pass through them. In eval mode they are computed once, in float64, and the
effect of rounding on the constant of each layer is checked.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lvmrs.errors import InvalidArgumentError, ModelError
from lvmrs.kernel import checks
from lvmrs.models.lipschitz.norms import Circulant, FourierConvolution, Grid, Workspace, applied, spectrum_of

# Rows that are orthonormal up to the first number are not changed: a network of ten layers then keeps its constant up
# to a relative 10⁻⁹. Rows that deviate by more than the second number are an error.
_NEGLIGIBLE, _MOST = 1e-10, 1e-6
# The largest accepted width: the number of weights grows with the square of the width.
_WIDEST = 1000
# Number of inputs per part of a batch, measured on the small network: larger parts do not fit into the caches, and
# smaller parts make small matrix products.
_PART = 128


def cayley(free: Tensor) -> Tensor:
    """The Cayley transform: matrices with orthonormal rows from arbitrary matrices of the same shape.

    The matrices (…, rows, columns) are real or complex, with no more rows than columns.

    >>> rows = cayley(torch.ones(2, 3, dtype=torch.float64))
    >>> bool(torch.allclose(rows @ rows.T, torch.eye(2, dtype=torch.float64)))
    True
    """
    size = free.shape[-2]
    square, rest = free[..., :size], free[..., size:]
    skew = square - square.mH + rest @ rest.mH
    one = torch.eye(size, dtype=free.dtype, device=free.device)
    inverse = torch.linalg.inv(one + skew)
    return torch.cat([(one - skew) @ inverse, -2 * inverse @ rest], dim=-1)


def contracted(rows: Tensor) -> Tensor:
    """Scale rows [A B] down if rounding made them longer than orthonormal rows; raises if the deviation is large.

    A layer needs A Aᴴ + B Bᴴ ≤ 1 for its constant. With the computed E = A Aᴴ + B Bᴴ − 1, it suffices to divide the
    rows by √(1 + ‖E‖), and the Frobenius norm is an upper bound on ‖E‖.

    >>> bool(contracted(torch.eye(2, 3, dtype=torch.float64) * (1 + 1e-8)).norm(dim=1).max() <= 1)
    True
    """
    one = torch.eye(rows.shape[-2], dtype=rows.dtype, device=rows.device)
    excess = torch.linalg.matrix_norm(rows @ rows.mH - one).max()
    if not bool(excess <= _MOST):  # also for NaN
        raise ModelError(
            f"the weights of a sandwich layer of {rows.shape[-2]} outputs are too large or too nearly dependent, so "
            "that rounding breaks its Lipschitz constant; train with smaller weights"
        )
    return rows if bool(excess <= _NEGLIGIBLE) else rows / torch.sqrt(1 + excess)


class _Sandwich(nn.Module):
    """The parameters of a layer: weights with the norm ``scale``, Ψ = exp(psi), and the bias."""

    def __init__(self, before: int, after: int, *kernel: int) -> None:
        super().__init__()
        self.before, self.after = before, after
        self.weight = nn.Parameter(torch.empty(after, after + before, *kernel))
        nn.init.xavier_normal_(self.weight)
        self.scale = nn.Parameter(self.weight.detach().norm())
        self.psi = nn.Parameter(torch.zeros(after))
        self.bias = nn.Parameter(torch.zeros(after))

    def _rows(self, dtype: torch.dtype | None, grid: Grid | None = None, *, checked: bool) -> Tensor:
        """The rows [A B], at each frequency of a grid if it is given.

        ``checked`` is for eval mode; in training it would cost time in each step.
        """
        weight = self.weight.to(dtype or self.weight.dtype)
        size: Tensor = torch.linalg.vector_norm(weight)
        free = weight * (self.scale.to(weight) / size)
        rows = cayley(free if grid is None else spectrum_of(free, grid))
        return contracted(rows) if checked else rows

    def maps(
        self, dtype: torch.dtype | None = None, grid: Grid | None = None, *, checked: bool = False
    ) -> tuple[Tensor, Tensor]:
        """The maps before and after the activation, √2 Ψ⁻¹ B and √2 Aᴴ Ψ; their spectra if a grid is given."""
        rows = self._rows(dtype, grid, checked=checked)
        psi = self.psi.to(rows.real.dtype)
        into = math.sqrt(2) * torch.exp(-psi)[:, None] * rows[..., self.after :]
        return into, math.sqrt(2) * rows[..., : self.after].mH * torch.exp(psi)


class SandwichDense(_Sandwich):
    """A sandwich layer for vectors."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to a batch of vectors."""
        into, out_of = self.maps()
        return functional.relu(x @ into.T + self.bias) @ out_of.T


class SandwichLast(_Sandwich):
    """The last layer, B h + b, without activation. Its constant is 1 as well."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(before, after)
        del self.psi

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to a batch of vectors."""
        return x @ self.matrix().T + self.bias

    def matrix(self, dtype: torch.dtype | None = None, *, checked: bool = False) -> Tensor:
        """The matrix B."""
        return self._rows(dtype, checked=checked)[:, self.after :]


class SandwichConv(_Sandwich):
    """A sandwich layer of circular convolutions. With a ``stride`` s, squares of s × s pixels become channels first."""

    def __init__(self, before: int, after: int, kernel: int = 3, stride: int = 1) -> None:
        extent = max(1, kernel // stride)
        super().__init__(before * stride**2, after, extent, extent)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to a batch of images."""
        if self.stride > 1:
            x = functional.pixel_unshuffle(x, self.stride)
        into, out_of = self.maps(grid=(x.shape[-2], x.shape[-1]))
        return applied(out_of, functional.relu(applied(into, x) + self.bias[:, None, None]))


class NormPool(nn.Module):
    """Sums over squares of ``size`` × ``size`` pixels and divides by ``size``, so that its Lipschitz constant is 1."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.stride = size

    def forward(self, x: Tensor) -> Tensor:
        """Pool a batch of images."""
        return functional.avg_pool2d(x, self.stride) * self.stride


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
        """The logits of a batch of inputs (batch, ``*shape``)."""
        if x.shape[1:] != self.shape:
            raise ModelError(f"the inputs have shape {tuple(x.shape[1:])} and the network was made for {self.shape}")
        with torch.autocast(x.device.type, enabled=False):  # rounding to 16 bits would break the constant
            x = x.to(self.last.bias.device, precision(self.last.bias))
            return Folded(self, x.dtype, checked=False)(x) if self.training else self.folded()(x)

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
            return Folded(self, torch.float64, checked=True)
        state = [self.gamma, *((p.data_ptr(), p._version, p.dtype, p.device) for p in self.parameters())]
        if self._kept is None or self._kept[0] != state:
            with torch.inference_mode(False), torch.no_grad():
                self._kept = state, Folded(self, torch.float64, checked=True)
        return self._kept[1]


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


def precision(parameter: Tensor) -> torch.dtype:
    """The precision of a network: that of its parameters, and at least float32."""
    return torch.promote_types(parameter.dtype, torch.float32)


class Folded:
    """A sandwich network as linear maps between activations. Internally, the batch is the last dimension.

    If ``checked``, for eval mode, layers that exceed their constant by rounding are scaled down, or raise
    ``ModelError``, and the maps do not depend on the parameters any more.
    """

    def __init__(self, network: SandwichNetwork, kind: torch.dtype, *, checked: bool) -> None:
        half = math.sqrt(network.gamma)
        like = network.last.bias.detach().to(precision(network.last.bias))
        operators, waiting = _between_activations(network, like.to(kind), half, checked)
        self.convolutions = chained(operators, like)
        self.squares = self.convolutions[0].squares if self.convolutions else 1
        self.images = len(network.convolutions) > 0
        dense: list[Any] = list(network.dense)
        pairs = [layer.maps(kind, checked=checked) for layer in dense]
        matrices = [into for into, _ in pairs] + [network.last.matrix(kind, checked=checked)]
        matrices[1:] = [into @ out_of for into, (_, out_of) in zip(matrices[1:], pairs, strict=True)]
        if waiting is not None:
            matrices[0] = waiting.then_dense(matrices[0])
        if not self.convolutions:
            matrices[0] = half * matrices[0]
        matrices[-1] = half * matrices[-1]
        biases = [layer.bias[:, None] for layer in (*dense, network.last)]
        if checked:
            matrices, biases = [matrix.detach() for matrix in matrices], [bias.detach().clone() for bias in biases]
        self.linear = [
            (matrix.to(like).contiguous(), bias.to(like).contiguous())
            for matrix, bias in zip(matrices, biases, strict=True)
        ]
        self.workspace = Workspace()

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
    network: SandwichNetwork, like: Tensor, scale: float, checked: bool
) -> tuple[list[tuple[Circulant, Tensor]], Circulant | None]:
    """The maps and biases of the convolutional layers, and the map that follows their last activation.

    The first map is multiplied by ``scale``.
    """
    done: list[tuple[Circulant, Tensor]] = []
    waiting: Circulant | None = None
    channels, *sides = network.shape
    for layer in network.convolutions:
        grid = (sides[0], sides[1]) if waiting is None else waiting.kept
        if isinstance(layer, NormPool):
            channels = channels if waiting is None else waiting.spectrum.shape[2]
            pool = Circulant.pooled(channels, grid, layer.stride, like)
            waiting = pool if waiting is None else waiting.then(pool)
        elif isinstance(layer, SandwichConv):
            kept = grid[0] // layer.stride, grid[1] // layer.stride
            into, out_of = layer.maps(like.dtype, kept, checked=checked)
            step = Circulant.unshuffled(into, grid, layer.stride)
            whole = step if waiting is None else waiting.then(step)
            if not done:
                whole = Circulant(scale * whole.spectrum, whole.grid, whole.stride)
            done.append((whole, layer.bias.to(like.dtype)))
            waiting = Circulant(out_of, kept)
    return done, waiting


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
