"""Rules that bound the Lipschitz constant of each kind of layer, in the Euclidean norm and in eval mode.

A rule takes the layer, the shape of its inputs and its name. It refuses a layer that is set up in a way for which no
bound is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lvmrs.errors import ModelError
from lvmrs.models.norms import of_convolution, of_matrix

__all__ = ["NORMALISATIONS", "normalisation_scale", "of_layer", "of_linear", "unknown_layer"]

NORMALISATIONS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_Layer = Callable[[Any, tuple[int, ...], str], float]


def of_layer(layer: nn.Module, shape: tuple[int, ...], name: str) -> float:
    """A bound on the constant of a layer that is not a normalisation.

    Args:
        layer: the layer; a kind that is not known is refused.
        shape: the shape of its inputs, with the batch.
        name: its name in the network, for errors.
    """
    for kinds, constant in _LAYERS.items():
        if isinstance(layer, kinds):
            return constant(layer, shape, name)
    raise unknown_layer(name, type(layer).__name__)


def normalisation_scale(layer: Any, name: str) -> Tensor:
    """The number by which a normalisation multiplies each channel."""
    if layer.running_var is None:
        raise unknown_layer(name, f"{type(layer).__name__} without running statistics")
    scale = torch.rsqrt(layer.running_var.detach().double() + layer.eps)
    return scale if layer.weight is None else scale * layer.weight.detach().double()


def unknown_layer(name: str, kind: str) -> ModelError:
    """The error that says that no bound is known for this layer."""
    return ModelError(f"no Lipschitz bound is known for the layer {name} ({kind}); give the constant yourself")


def of_linear(layer: Any, shape: tuple[int, ...], name: str, scale: Tensor | None = None) -> float:
    """A bound on the constant of a linear or convolutional layer; ``scale`` multiplies each of its outputs."""
    weight = layer.weight.detach().double()
    if scale is not None:
        weight = weight * scale.to(weight).view(-1, *[1] * (weight.dim() - 1))
    if isinstance(layer, nn.Linear):
        return of_matrix(weight)
    grid, padding = (shape[-2], shape[-1]), _padding(layer)
    options = {"stride": layer.stride, "dilation": layer.dilation, "groups": layer.groups}
    if layer.padding_mode == "circular":
        extents = [1 + step * (size - 1) for step, size in zip(layer.dilation, layer.kernel_size, strict=True)]
        whole = all(side % step == 0 for side, step in zip(grid, layer.stride, strict=True))
        around = all(2 * edge == extent - 1 for edge, extent in zip(padding, extents, strict=True))
        fits = all(extent <= side for extent, side in zip(extents, grid, strict=True))
        if not (whole and around and fits):
            raise unknown_layer(name, "a circular convolution that does not wrap evenly")
        return of_convolution(weight, grid, unrolled=0, **options)
    if layer.padding_mode != "zeros":
        raise unknown_layer(name, f"a convolution with padding {layer.padding_mode!r}")
    return of_convolution(weight, grid, padding=padding, **options)


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


def _padding(layer: Any) -> tuple[int, int]:
    if layer.padding == "same":
        extents = zip(layer.dilation, layer.kernel_size, strict=True)
        down, across = (math.ceil(step * (size - 1) / 2) for step, size in extents)
        return down, across
    return (0, 0) if layer.padding == "valid" else _pair(layer.padding)


def _average(layer: Any, shape: tuple[int, ...], name: str) -> float:
    """An average over windows is a convolution of each channel with equal weights."""
    if layer.ceil_mode or (layer.padding not in (0, (0, 0)) and not layer.count_include_pad):
        raise unknown_layer(name, "AvgPool2d whose windows are not all alike")
    size = _pair(layer.kernel_size)
    share = 1 / (layer.divisor_override or math.prod(size))
    kernel = torch.full((1, 1, *size), share, dtype=torch.float64)
    stride = _pair(layer.stride or layer.kernel_size)
    return of_convolution(kernel, (shape[-2], shape[-1]), stride=stride, padding=_pair(layer.padding))


def _adaptive_average(layer: Any, shape: tuple[int, ...], name: str) -> float:
    sides = shape[-2:]
    asked = (layer.output_size,) * 2 if isinstance(layer.output_size, int) else layer.output_size
    wanted = [side if out is None else out for side, out in zip(sides, asked, strict=True)]
    if any(side % out for side, out in zip(sides, wanted, strict=True)):
        raise unknown_layer(name, "AdaptiveAvgPool2d whose windows overlap")
    return math.sqrt(math.prod(wanted) / math.prod(sides))


def _largest(layer: Any, shape: tuple[int, ...], name: str) -> float:
    """The constant is the square root of the number of windows that a pixel can be in."""
    if _pair(layer.dilation) != (1, 1):
        raise unknown_layer(name, "MaxPool2d with dilation")
    sizes, strides = _pair(layer.kernel_size), _pair(layer.stride or layer.kernel_size)
    return math.sqrt(math.prod(math.ceil(size / step) for size, step in zip(sizes, strides, strict=True)))


def _softplus(layer: Any, shape: tuple[int, ...], name: str) -> float:
    if layer.threshold < 20 or layer.beta <= 0:  # it jumps where it becomes linear
        raise unknown_layer(name, "Softplus with a low threshold")
    return 1.0


def _celu(layer: Any, shape: tuple[int, ...], name: str) -> float:
    if layer.alpha <= 0:
        raise unknown_layer(name, "CELU with a negative alpha")
    return 1.0


def _at_most(constant: float) -> _Layer:
    return lambda layer, shape, name: constant


_ONE = (
    nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout, nn.Dropout2d, nn.ZeroPad2d, nn.PixelShuffle, nn.PixelUnshuffle,
    nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.Tanh, nn.Softsign, nn.LogSigmoid, nn.Softshrink,
)  # fmt: skip
_LAYERS: dict[tuple[type[nn.Module], ...], _Layer] = {
    (nn.Linear, nn.Conv2d): of_linear,
    (nn.AvgPool2d,): _average,
    (nn.AdaptiveAvgPool2d,): _adaptive_average,
    (nn.MaxPool2d,): _largest,
    _ONE: _at_most(1.0),
    (nn.Sigmoid,): _at_most(0.25),
    (nn.Hardsigmoid,): _at_most(1 / 6),
    (nn.Hardswish,): _at_most(1.5),
    (nn.SELU,): _at_most(1.7581),  # scale · alpha
    (nn.GELU,): _at_most(1.13),  # its largest slope is 1.1289…
    (nn.SiLU, nn.Mish): _at_most(1.1),  # 1.0998… and 1.0884…
    (nn.LeakyReLU,): lambda layer, shape, name: max(1.0, abs(layer.negative_slope)),
    (nn.ELU,): lambda layer, shape, name: max(1.0, abs(layer.alpha)),
    (nn.PReLU,): lambda layer, shape, name: max(1.0, float(layer.weight.detach().abs().max())),
    (nn.Softplus,): _softplus,
    (nn.CELU,): _celu,
}
