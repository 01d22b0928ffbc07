"""Networks whose Lipschitz constant is chosen: the sandwich layers of Wang and Manchester (2023).

A layer computes h ↦ √2 Aᵀ Ψ relu(√2 Ψ⁻¹ B h + b), where the rows of [A B] are orthonormal and Ψ is diagonal. Its
derivative is 2 Aᵀ S B with S diagonal in [0, 1]. This is an average of such matrices with S of zeros and ones, each of
which is 2 A'ᵀ B' with A'A'ᵀ + B'B'ᵀ = S² ≤ 1, so ‖2 A'ᵀ B' v‖² ≤ 4 vᵀ B'ᵀ(1 − B'B'ᵀ) B' v ≤ ‖v‖², since 4 s(1 − s) ≤ 1:
every layer has constant 1. Orthonormal rows come from free parameters by the Cayley transform; a convolution wraps
around the image and has such a matrix at each frequency.

The network runs folded: from one activation to the next there is a single linear map. In training it is made in each
step, for gradients to pass; in eval mode once, in float64.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from lvmrs.errors import InvalidArgumentError, ModelError
from lvmrs.models.fourier import Circulant, Grid, Workspace, applied, chained, spectrum_of, squares_as_channels

__all__ = ["NormPool", "SandwichConv", "SandwichDense", "SandwichLast", "SandwichNetwork", "cayley", "sandwich"]

# Inputs at a time: more do not fit the caches as well, fewer make small products (measured on the small network).
_PART = 128


def cayley(free: Tensor) -> Tensor:
    """Matrices of orthonormal rows, from any (real or complex) of the same shape, which are not taller than wide."""
    size = free.shape[-2]
    square, rest = free[..., :size], free[..., size:]
    skew = square - square.mH + rest @ rest.mH
    one = torch.eye(size, dtype=free.dtype, device=free.device)
    inverse = torch.linalg.inv(one + skew)
    return torch.cat([(one - skew) @ inverse, -2 * inverse @ rest], dim=-1)


class _Sandwich(nn.Module):
    """The free parameters of a layer: weights of any size (``scale`` carries it), Ψ = exp(psi), and the bias."""

    def __init__(self, before: int, after: int, *kernel: int) -> None:
        super().__init__()
        self.before, self.after = before, after
        self.weight = nn.Parameter(torch.empty(after, after + before, *kernel))
        nn.init.xavier_normal_(self.weight)
        self.scale = nn.Parameter(self.weight.detach().norm())
        self.psi = nn.Parameter(torch.zeros(after))
        self.bias = nn.Parameter(torch.zeros(after))

    def _free(self, dtype: torch.dtype | None = None) -> Tensor:
        weight = self.weight.to(dtype or self.weight.dtype)
        size: Tensor = torch.linalg.vector_norm(weight)
        return weight * (self.scale.to(weight) / size)

    def _split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """√2 Ψ⁻¹ B and √2 Aᴴ Ψ."""
        psi = self.psi.to(rows.real.dtype)
        into = math.sqrt(2) * torch.exp(-psi)[:, None] * rows[..., self.after :]
        return into, math.sqrt(2) * rows[..., : self.after].mH * torch.exp(psi)


class SandwichDense(_Sandwich):
    """On vectors."""

    def forward(self, x: Tensor) -> Tensor:
        """The layer's answer to a batch."""
        into, out_of = self.maps()
        return functional.relu(x @ into.T + self.bias) @ out_of.T

    def maps(self, dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
        """The matrices before and after the activation."""
        return self._split(cayley(self._free(dtype)))


class SandwichLast(_Sandwich):
    """The last layer, B h + b: no activation, and of constant 1 as well."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(before, after)
        del self.psi

    def forward(self, x: Tensor) -> Tensor:
        """The layer's answer to a batch."""
        into, _ = self.maps()
        return x @ into.T + self.bias

    def maps(self, dtype: torch.dtype | None = None) -> tuple[Tensor, None]:
        """B, and nothing after it."""
        return cayley(self._free(dtype))[:, self.after :], None


class SandwichConv(_Sandwich):
    """On images, which wrap around. With a ``stride`` s, squares of s × s pixels become channels first."""

    def __init__(self, before: int, after: int, kernel: int = 3, stride: int = 1) -> None:
        extent = max(1, kernel // stride)
        super().__init__(before * stride**2, after, extent, extent)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """The layer's answer to a batch."""
        if self.stride > 1:
            x = functional.pixel_unshuffle(x, self.stride)
        into, out_of = self.maps((x.shape[-2], x.shape[-1]))
        return applied(out_of, functional.relu(applied(into, x) + self.bias[:, None, None]))

    def maps(self, grid: Grid, dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
        """The spectra before and after the activation."""
        return self._split(cayley(spectrum_of(self._free(dtype), grid)))


class NormPool(nn.Module):
    """The sum over squares of ``size`` × ``size`` pixels, divided by ``size``: an average that keeps the norm 1."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.stride = size

    def forward(self, x: Tensor) -> Tensor:
        """Smaller images."""
        return functional.avg_pool2d(x, self.stride) * self.stride


class SandwichNetwork(nn.Module):
    """Convolutions (and pooling), dense layers and a last one on inputs of ``shape``: ``gamma``-Lipschitz in all.

    ``convolutions`` are (channels, kernel, stride), or a number for pooling by that much; ``dense`` are widths.
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
        self._kept: tuple[object, _Folded] | None = None

    @property
    def lipschitz(self) -> float:
        """The constant of the logits, in the Euclidean norm."""
        return self.gamma

    def train(self, mode: bool = True) -> SandwichNetwork:
        """Into training mode or out of it; what was folded is forgotten then."""
        if mode != self.training:
            self._kept = None
        return super().train(mode)

    def forward(self, x: Tensor) -> Tensor:
        """The logits of a batch."""
        if x.shape[1:] != self.shape:
            raise ModelError(f"the inputs have shape {tuple(x.shape[1:])} and the network was made for {self.shape}")
        with torch.autocast(x.device.type, enabled=False):  # rounding to 16 bits would loosen the constant
            x = x.to(self.last.bias.device, _precision(self))
            return _Folded(self, x.dtype)(x) if self.training else self.folded()(x)

    def layer_by_layer(self, x: Tensor) -> Tensor:
        """The same logits as the formula says, to compare with."""
        half = math.sqrt(self.gamma)
        hidden = self.convolutions(half * x)
        logits: Tensor = self.last(half * self.dense(torch.flatten(hidden, 1)))
        return logits

    def folded(self) -> _Folded:
        """The network as plain weights, made anew only when the parameters, or the mode, have changed.

        Changes of a parameter's ``.data`` are not counted by torch: switch to training mode and back after them.
        """
        if any(parameter.is_inference() for parameter in self.parameters()):  # these do not count their changes
            return _Folded(self, torch.float64).detached()
        state = [self.gamma, *((p.data_ptr(), p._version, p.dtype, p.device) for p in self.parameters())]
        if self._kept is None or self._kept[0] != state:
            with torch.inference_mode(False), torch.no_grad():
                self._kept = state, _Folded(self, torch.float64).detached()
        return self._kept[1]


def _precision(network: SandwichNetwork) -> torch.dtype:
    """That of the parameters, and at least float32."""
    return torch.promote_types(network.last.bias.dtype, torch.float32)


class _Folded:
    """A sandwich network as maps from one activation to the next, on batches in the last dimension."""

    def __init__(self, network: SandwichNetwork, kind: torch.dtype) -> None:
        half = math.sqrt(network.gamma)
        like = network.last.bias.detach().to(_precision(network))
        operators, waiting = _between_activations(network, like.to(kind), half)
        self.convolutions = chained(operators, like)
        self.squares = self.convolutions[0].squares if self.convolutions else 1
        self.images = len(network.convolutions) > 0
        dense = [layer for layer in network.dense if isinstance(layer, SandwichDense)]
        self.linear: list[tuple[Tensor, Tensor]] = []
        out_of: Tensor | None = None
        layers: list[SandwichDense | SandwichLast] = [*dense, network.last]
        for layer in layers:
            into, following = layer.maps(kind)
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

    def detached(self) -> _Folded:
        """The same, with biases of its own."""
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
    network: SandwichNetwork, like: Tensor, scale: float
) -> tuple[list[tuple[Circulant, Tensor]], Circulant | None]:
    """The maps (and biases) up to the last activation among images, the first one scaled; what is linear after it."""
    done: list[tuple[Circulant, Tensor]] = []
    waiting: Circulant | None = None
    for layer in network.convolutions:
        channels, *sides = network.shape
        grid = (sides[0], sides[1]) if waiting is None else waiting.kept
        if isinstance(layer, NormPool):
            channels = channels if waiting is None else waiting.spectrum.shape[2]
            pool = Circulant.pooled(channels, grid, layer.stride, like)
            waiting = pool if waiting is None else waiting.then(pool)
        elif isinstance(layer, SandwichConv):
            kept = grid[0] // layer.stride, grid[1] // layer.stride
            into, out_of = layer.maps(kept, like.dtype)
            step = Circulant.unshuffled(into, grid, layer.stride)
            whole = step if waiting is None else waiting.then(step)
            if not done:
                whole = Circulant(scale * whole.spectrum, whole.grid, whole.stride)
            done.append((whole, layer.bias.to(like.dtype)))
            waiting = Circulant(out_of, kept)
    return done, waiting


def sandwich(
    channels: int = 3, side: int = 32, classes: int = 10, gamma: float = 1.0, width: int = 1
) -> SandwichNetwork:
    """Four convolutions of 32 and 64 channels, two dense layers of 512 and the last one, ``width`` times as wide.

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
