"""Layers of deel-torchlip and orthogonium, bounded from their effective weights and not from what the libraries state.

A linear or convolutional layer of these libraries is compared with torch's own layer of the same weights and settings,
and an activation or centering with a reference written here. If the outputs for the example inputs are equal up to
rounding, in float32 and in float64, the layer has the bound of torch's layer, or the proved constant of the reference.
Layers without a rule are refused.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

_LIBRARIES = ("deel.torchlip", "orthogonium")
_Reference = Callable[[Any, Tensor], Tensor]
_Function = Callable[[Tensor], Tensor]


def is_of_library(kind: type) -> bool:
    """Whether a class is from one of the two libraries."""
    return any(f"{kind.__module__}.".startswith(f"{library}.") for library in _LIBRARIES)


def equivalent(layer: Any, kind: type) -> tuple[_Function, float] | None:
    """A function that a layer of these libraries should equal, and its constant; None without a rule.

    For a linear or convolutional layer, whose class is ``kind``, the function is torch's layer with the present weights
    and settings, and the constant is infinite: it follows from the weights.
    """
    base = next((base for base in (nn.Linear, nn.Conv2d) if issubclass(kind, base)), None)
    if base is not None:
        wanted = [name for name in inspect.signature(base).parameters if name not in ("bias", "device", "dtype")]
        settings = {name: getattr(layer, name) for name in wanted}
        plain: Any = base(**settings, bias=layer.bias is not None, device="meta")
        plain.weight = nn.Parameter(layer.weight.detach(), requires_grad=False)
        if layer.bias is not None:
            plain.bias = nn.Parameter(layer.bias.detach(), requires_grad=False)
        return plain.eval(), math.inf
    reference = _REFERENCES.get(f"{kind.__module__}.{kind.__qualname__}")
    if reference is None:
        return None
    return partial(reference, layer), abs(float(getattr(layer, "_coefficient_lip", 1.0)))


def _sorted_groups(layer: Any, x: Tensor) -> Tensor:
    """Sorting each group of channels: two sorted lists are at most as far apart as the lists."""
    size = min(layer.group_size or x.shape[1], x.shape[1])
    groups = x.reshape(len(x), x.shape[1] // size, size, *x.shape[2:])
    return groups.sort(dim=2)[0].reshape(x.shape) * float(layer._coefficient_lip)


def _both_signs(layer: Any, x: Tensor) -> Tensor:
    """The positive and the negative part: the squares of their changes add to at most that of x."""
    return torch.cat((x.relu(), (-x).relu()), dim=1) * float(layer._coefficient_lip)


def _sorted_halves(layer: Any, x: Tensor) -> Tensor:
    """Sorting pairs of channels."""
    first, second = torch.split(x, x.shape[layer.axis] // 2, layer.axis)
    larger, smaller = torch.stack((first, second)).sort(dim=0, descending=True)[0]
    return torch.cat((larger, smaller), dim=layer.axis)


_ACTIVATIONS, _LAYERS = "deel.torchlip.modules.activation", "orthogonium.layers"
# Each reference has the constant 1, times the factor ``_coefficient_lip`` of torchlip's layers.
_REFERENCES: dict[str, _Reference] = {
    **dict.fromkeys((f"{_ACTIVATIONS}.{name}" for name in ("GroupSort", "GroupSort2", "FullSort")), _sorted_groups),
    f"{_ACTIVATIONS}.MaxMin": _both_signs,
    f"{_LAYERS}.custom_activations.MaxMin": _sorted_halves,
    f"{_LAYERS}.custom_activations.Abs": lambda layer, x: x.abs(),
    f"{_LAYERS}.normalization.BatchCentering2D": lambda layer, x: x - layer.running_mean + layer.bias,
    # A projection: the means of the channels are subtracted.
    f"{_LAYERS}.normalization.LayerCentering2D": lambda layer, x: x - x.mean(dim=(-2, -1), keepdim=True) + layer.bias,
}
