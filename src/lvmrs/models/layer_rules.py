"""Rules that bound the Lipschitz constant of each kind of layer, in the Euclidean norm and in eval mode.

A rule takes the layer, an example of its inputs and its name. It refuses a layer that is set up in a way for which no
bound is known, or for which torch's function is further from the bounded one than a few roundings of its input
(``tests/models/test_activations.py`` measures this).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lvmrs.models.norms import finite, of_convolution, of_matrix
from lvmrs.models.stock import check_layer, kind_of, unknown_layer

__all__ = ["KINDS", "NORMALISATIONS", "SCALED", "normalisation_scale", "of_layer"]

SCALED = (nn.Linear, nn.Conv2d)
"""The layers whose outputs a normalisation may scale, with one bound for both."""
NORMALISATIONS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_Layer = Callable[[Any, Tensor, str], float]


def of_layer(layer: nn.Module, inputs: Tensor, name: str, scale: Tensor | None = None) -> float:
    """A bound on the constant of a layer that is not a normalisation.

    Args:
        layer: the layer; one that is not known to be torch's own, and of a kind that has a rule, is refused.
        inputs: a batch of its inputs, of which the shape and the precision matter.
        name: its name in the network, for errors.
        scale: what each output of a linear or convolutional layer is multiplied by.
    """
    kind = kind_of(layer)
    rule = _LAYERS.get(kind) if scale is None or kind in SCALED else None
    if rule is None:
        raise unknown_layer(name, kind.__name__)
    check_layer(layer, name)
    try:
        return rule(layer, inputs, name) if scale is None else _linear(layer, inputs, name, scale)
    except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise unknown_layer(name, f"{kind.__name__} as it is set up") from error


def normalisation_scale(layer: Any, name: str) -> Tensor:
    """The number by which a normalisation multiplies each channel."""
    check_layer(layer, name)
    if layer.running_var is None:
        raise unknown_layer(name, f"{type(layer).__name__} without running statistics")
    variance = layer.running_var.detach()
    least = torch.finfo(torch.promote_types(variance.dtype, torch.float32)).tiny
    if layer.eps < 0 or not bool(((variance >= 0) & (variance.double() + layer.eps >= least)).all()):
        raise unknown_layer(name, f"{type(layer).__name__} whose variance is negative, or too small with its eps")
    scale = torch.rsqrt(variance.double() + layer.eps)
    return scale if layer.weight is None else scale * layer.weight.detach().double()


def _linear(layer: Any, inputs: Tensor, name: str, scale: Tensor | None = None) -> float:
    """A bound on the constant of a linear or convolutional layer; ``scale`` multiplies each of its outputs."""
    weight = layer.weight.detach().double()
    if scale is not None:
        weight = weight * scale.to(weight).view(-1, *[1] * (weight.dim() - 1))
    if kind_of(layer) is nn.Linear:
        return of_matrix(weight)
    if inputs.dim() != 4:
        raise unknown_layer(name, "a convolution of inputs that are not images")
    grid, padding, kernel = (inputs.shape[-2], inputs.shape[-1]), _padding(layer), weight.shape[-2:]
    options = {"stride": layer.stride, "dilation": layer.dilation, "groups": layer.groups}
    if layer.padding_mode == "circular":
        extents = [1 + step * (size - 1) for step, size in zip(layer.dilation, kernel, strict=True)]
        whole = all(side % step == 0 for side, step in zip(grid, layer.stride, strict=True))
        around = all(2 * edge == extent - 1 for edge, extent in zip(padding, extents, strict=True))
        around = around and list(layer._reversed_padding_repeated_twice) == [*[padding[1]] * 2, *[padding[0]] * 2]
        fits = all(extent <= side for extent, side in zip(extents, grid, strict=True))
        if not (whole and around and fits):
            raise unknown_layer(name, "a circular convolution that does not wrap evenly")
        return of_convolution(weight, grid, unrolled=0, **options)
    if layer.padding_mode != "zeros":
        raise unknown_layer(name, f"a convolution with padding {layer.padding_mode!r}")
    return of_convolution(weight, grid, padding=padding, **options)


def _pair(value: Any) -> tuple[int, int]:
    sides = (value,) if isinstance(value, int) else tuple(value)
    down, across = sides * 2 if len(sides) == 1 else sides
    return down, across


def _padding(layer: Any) -> tuple[int, int]:
    if layer.padding == "same":
        extents = zip(layer.dilation, layer.weight.shape[-2:], strict=True)
        down, across = (math.ceil(step * (size - 1) / 2) for step, size in extents)
        return down, across
    return (0, 0) if layer.padding == "valid" else _pair(layer.padding)


def _average(layer: Any, inputs: Tensor, name: str) -> float:
    """An average over windows is a convolution of each channel with equal weights."""
    if layer.ceil_mode or (layer.padding not in (0, (0, 0)) and not layer.count_include_pad):
        raise unknown_layer(name, "AvgPool2d whose windows are not all alike")
    size = _pair(layer.kernel_size)
    share = 1 / (layer.divisor_override or math.prod(size))
    kernel = torch.full((1, 1, *size), share, dtype=torch.float64)
    stride = _pair(layer.stride or layer.kernel_size)
    return of_convolution(kernel, (inputs.shape[-2], inputs.shape[-1]), stride=stride, padding=_pair(layer.padding))


def _adaptive_average(layer: Any, inputs: Tensor, name: str) -> float:
    sides = inputs.shape[-2:]
    asked = (layer.output_size,) * 2 if isinstance(layer.output_size, int) else layer.output_size
    wanted = [side if out is None else out for side, out in zip(sides, asked, strict=True)]
    if any(side % out for side, out in zip(sides, wanted, strict=True)):
        raise unknown_layer(name, "AdaptiveAvgPool2d whose windows overlap")
    return math.sqrt(math.prod(wanted) / math.prod(sides))


def _largest(layer: Any, inputs: Tensor, name: str) -> float:
    """The constant is the square root of the number of windows that a pixel can be in."""
    if _pair(layer.dilation) != (1, 1):
        raise unknown_layer(name, "MaxPool2d with dilation")
    sizes, strides = _pair(layer.kernel_size), _pair(layer.stride or layer.kernel_size)
    return math.sqrt(math.prod(math.ceil(size / step) for size, step in zip(sizes, strides, strict=True)))


def _softplus(layer: Any, inputs: Tensor, name: str) -> float:
    """Torch computes log(1 + exp(βx))/β where βx is below the threshold, and x above it.

    For a small β this is rounded as log(2)/β is, however small x is. At the threshold t it jumps by exp(−t)/β, and for
    a large t it overflows before.
    """
    least, most = (34, 700) if inputs.dtype == torch.float64 else (20, 80)
    if not 0.125 <= layer.beta < math.inf:
        raise unknown_layer(name, f"Softplus with the beta {layer.beta:g}, where torch's rounding is too large")
    if not least <= layer.threshold <= most:
        raise unknown_layer(
            name, f"Softplus with the threshold {layer.threshold:g}, which must be {least} to {most} in {inputs.dtype}"
        )
    return 1.0


def _celu(layer: Any, inputs: Tensor, name: str) -> float:
    if not 0 < layer.alpha < math.inf:
        raise unknown_layer(name, f"CELU with the alpha {layer.alpha:g}")
    return 1.0


def _prelu(layer: Any, inputs: Tensor, name: str) -> float:
    return max(1.0, float(finite(layer.weight.detach()).abs().max()))


def _at_most(constant: float) -> _Layer:
    return lambda layer, inputs, name: constant


_ONE = (
    nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout, nn.Dropout2d, nn.ZeroPad2d, nn.PixelShuffle, nn.PixelUnshuffle,
    nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.Tanh, nn.Softsign, nn.LogSigmoid, nn.Softshrink,
)  # fmt: skip
_LAYERS: dict[type[nn.Module], _Layer] = {
    **dict.fromkeys(SCALED, _linear),
    nn.AvgPool2d: _average,
    nn.AdaptiveAvgPool2d: _adaptive_average,
    nn.MaxPool2d: _largest,
    **dict.fromkeys(_ONE, _at_most(1.0)),
    nn.Sigmoid: _at_most(0.25),
    nn.Hardsigmoid: _at_most(1 / 6),
    nn.Hardswish: _at_most(1.5),
    nn.SELU: _at_most(1.7581),  # scale · alpha
    nn.GELU: _at_most(1.13),  # its largest slope is 1.1289…
    **dict.fromkeys((nn.SiLU, nn.Mish), _at_most(1.1)),  # 1.0998… and 1.0884…
    nn.LeakyReLU: lambda layer, inputs, name: max(1.0, abs(layer.negative_slope)),
    nn.ELU: lambda layer, inputs, name: max(1.0, abs(layer.alpha)),
    nn.PReLU: _prelu,
    nn.Softplus: _softplus,
    nn.CELU: _celu,
}
KINDS: tuple[type[nn.Module], ...] = (*_LAYERS, *NORMALISATIONS)
"""The layers for which there is a rule."""
