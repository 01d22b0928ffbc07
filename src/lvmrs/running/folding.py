"""Folding normalisation into the layer before it: in eval mode, both together are one linear map."""

from __future__ import annotations

import copy
import itertools
import operator
from collections import Counter

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from lvmrs._as_written import changed_class

__all__ = ["fold_normalisation", "functions_to_layers"]

_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_LINEAR = (nn.Conv1d, nn.Conv2d, nn.Conv3d, *_TRANSPOSED, nn.Linear)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_CONVOLVING = {functional.conv1d: nn.Conv1d, functional.conv2d: nn.Conv2d, functional.conv3d: nn.Conv3d}
_ARGUMENTS = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")


def functions_to_layers(steps: fx.GraphModule) -> int:
    """Turn calls of functions that convolve with stored weights into layers, in place.

    Networks whose layers pad in their own way call these functions.

    Args:
        steps: a list of steps, as ``straightened`` gives it.

    Returns:
        How many calls became layers.
    """
    made = 0
    for node in list(steps.graph.nodes):
        kind = _CONVOLVING.get(node.target) if node.op == "call_function" else None
        if kind is None or changed_class(kind) is not None:
            continue
        given = dict(zip(_ARGUMENTS, node.args, strict=False)) | node.kwargs
        stored = [given[name] for name in ("weight", "bias") if given.get(name) is not None]
        if not _all_stored(stored) or set(node.all_input_nodes) != {given["input"], *stored}:
            continue  # the weights are computed, or the settings are
        weight, *bias = (operator.attrgetter(str(each.target))(steps).detach().clone() for each in stored)
        settings = {name: given[name] for name in _ARGUMENTS[3:] if name in given}
        channels = weight.shape[1] * settings.get("groups", 1), weight.shape[0]
        layer = kind(*channels, weight.shape[2:], bias=bool(bias), device="meta", **settings).eval()  # nothing is drawn
        layer.weight = nn.Parameter(weight, requires_grad=False)
        layer.bias = nn.Parameter(bias[0], requires_grad=False) if bias else None
        name = next(name for number in itertools.count() if not hasattr(steps, name := f"layer_{number}"))
        steps.add_submodule(name, layer)
        with steps.graph.inserting_before(node):
            called = steps.graph.call_module(name, (given["input"],))
        called.meta = node.meta
        node.replace_all_uses_with(called)
        for each in (node, *stored):
            if not each.users:
                steps.graph.erase_node(each)
        made += 1
    steps.recompile()
    return made


def _all_stored(values: list[object]) -> bool:
    return all(isinstance(each, fx.Node) and each.op == "get_attr" for each in values)


def fold_normalisation(steps: fx.GraphModule) -> int:
    """Fold each batch normalisation that follows a linear layer into that layer, in place.

    Args:
        steps: a list of steps that owns its layers, as ``straightened`` gives it.

    Returns:
        How many were folded.
    """
    calls = Counter(str(node.target) for node in steps.graph.nodes if node.op == "call_module")
    folded = 0
    for node in list(steps.graph.nodes):
        before = node.args[0] if node.op == "call_module" and node.args else None
        if not isinstance(before, fx.Node) or before.op != "call_module" or len(before.users) != 1:
            continue
        norm, layer = (steps.get_submodule(str(one.target)) for one in (node, before))
        if type(norm) not in _NORMS or type(layer) not in _LINEAR or calls[str(before.target)] != 1:
            continue
        if type(layer) is nn.Linear and before.meta["dims"] != 2:  # it normalises another dimension than the last
            continue
        steps.set_submodule(str(before.target), _folded(layer, norm))
        node.replace_all_uses_with(before)
        steps.graph.erase_node(node)
        folded += 1
    steps.graph.lint()
    steps.recompile()
    steps.delete_all_unused_submodules()
    return folded


def _folded(layer: nn.Module, norm: nn.Module) -> nn.Module:
    """One layer for both. It is computed in float64 and rounded once."""
    made = copy.deepcopy(layer)
    weight, bias = _double(layer.weight), _double(layer.bias)
    mean, variance = _double(norm.running_mean), _double(norm.running_var)
    assert weight is not None and mean is not None and variance is not None  # noqa: S101, PT018 (for mypy)
    scale = torch.rsqrt(variance + float(norm.eps))  # type: ignore[arg-type]
    gamma, beta = _double(norm.weight), _double(norm.bias)
    scale = scale if gamma is None else scale * gamma
    shift = -mean if bias is None else bias - mean
    shift = shift * scale if beta is None else shift * scale + beta
    scaled = weight * _by_output(layer, weight, scale)
    made.weight, made.bias = (
        nn.Parameter(value.to(layer.weight), requires_grad=False)  # type: ignore[arg-type]
        for value in (scaled, shift)
    )
    return made


def _by_output(layer: nn.Module, weight: Tensor, scale: Tensor) -> Tensor:
    """The factor of each output channel, in a shape that fits the weight."""
    if type(layer) not in _TRANSPOSED:
        return scale.reshape(-1, *[1] * (weight.dim() - 1))
    groups = int(layer.groups)  # type: ignore[arg-type]
    each = scale.reshape(groups, 1, -1).expand(-1, weight.shape[0] // groups, -1)
    return each.reshape(weight.shape[0], weight.shape[1], *[1] * (weight.dim() - 2))


def _double(value: object) -> Tensor | None:
    return value.detach().double() if isinstance(value, Tensor) else None
