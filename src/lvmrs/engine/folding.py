"""Folds batch normalisation into the layer before it: in eval mode, both together are one linear map."""

from __future__ import annotations

import copy
import itertools
import operator

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_LINEAR = (nn.Conv1d, nn.Conv2d, nn.Conv3d, *_TRANSPOSED, nn.Linear)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_CONVOLVING = {functional.conv1d: nn.Conv1d, functional.conv2d: nn.Conv2d, functional.conv3d: nn.Conv3d}
_ARGUMENTS = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")


def functions_to_layers(steps: fx.GraphModule) -> int:
    """Replace calls of convolution functions with stored weights by layers with copies of these weights, in place.

    Networks whose layers pad in their own way call these functions.

    Args:
        steps: a list of steps, as ``traced`` returns it.

    Returns:
        The number of calls replaced.
    """
    made = 0
    for node in list(steps.graph.nodes):
        kind = _CONVOLVING.get(node.target) if node.op == "call_function" else None
        if kind is None:
            continue
        given = dict(zip(_ARGUMENTS, node.args, strict=False)) | node.kwargs
        stored = [given[name] for name in ("weight", "bias") if given.get(name) is not None]
        if not _all_stored(stored) or set(node.all_input_nodes) != {given["input"], *stored}:
            continue  # the weights or the settings are computed
        weight, *bias = (operator.attrgetter(str(each.target))(steps).detach().clone() for each in stored)
        settings = {name: given[name] for name in _ARGUMENTS[3:] if name in given}
        channels = weight.shape[1] * settings.get("groups", 1), weight.shape[0]
        layer = kind(*channels, weight.shape[2:], bias=bool(bias), device="meta", **settings).eval()  # nothing is drawn
        layer.weight = nn.Parameter(weight, requires_grad=False)
        layer.bias = nn.Parameter(bias[0], requires_grad=False) if bias else None
        _replace(steps, node, layer, given["input"])
        made += 1
    _clean(steps)
    return made


def _all_stored(values: list[object]) -> bool:
    return all(isinstance(each, fx.Node) and each.op == "get_attr" for each in values)


def _replace(steps: fx.GraphModule, node: fx.Node, layer: nn.Module, taken: fx.Node) -> None:
    """Replace a step by a call of a new layer, without changing other steps or the tensors that they read."""
    name = next(name for number in itertools.count() if not hasattr(steps, name := f"layer_{number}"))
    steps.add_submodule(name, layer)
    with steps.graph.inserting_before(node):
        called = steps.graph.call_module(name, (taken,))
    called.meta = node.meta
    node.replace_all_uses_with(called)
    steps.graph.erase_node(node)


def _clean(steps: fx.GraphModule) -> None:
    """Remove stored tensors and layers that no step reads."""
    for node in list(steps.graph.nodes):
        if node.op == "get_attr" and not node.users:
            steps.graph.erase_node(node)
    steps.graph.lint()
    steps.recompile()
    steps.delete_all_unused_submodules()


def fold_normalisation(steps: fx.GraphModule) -> int:
    """Replace each linear layer, and the batch normalisation that alone reads its output, by one new layer.

    The weights of both old layers are not changed, since other steps may read them.

    Args:
        steps: a list of steps, as ``traced`` returns it.

    Returns:
        The number of normalisations folded.
    """
    folded = 0
    for node in list(steps.graph.nodes):
        before = _only_argument(node)
        taken = None if before is None or len(before.users) != 1 else _only_argument(before)
        if before is None or taken is None:
            continue
        norm, layer = (steps.get_submodule(str(one.target)) for one in (node, before))
        if type(norm) not in _NORMS or not _channels_are_second(layer, before.meta["dims"]):
            continue
        made = _folded(layer, norm)
        if made is None:
            continue
        node.replace_all_uses_with(before)
        steps.graph.erase_node(node)
        _replace(steps, before, made, taken)
        folded += 1
    _clean(steps)
    return folded


def _only_argument(node: fx.Node) -> fx.Node | None:
    """The step whose output a layer reads; None if the step is no layer, or has other arguments."""
    given = (*node.args, *node.kwargs.values()) if node.op == "call_module" else ()
    return given[0] if len(given) == 1 and isinstance(given[0], fx.Node) else None


def _channels_are_second(layer: nn.Module, dims: int) -> bool:
    """Whether a layer is linear, and batch normalisation acts on the dimension of its output channels."""
    if type(layer) is nn.Linear:
        return dims == 2
    return type(layer) in _LINEAR and dims == layer.weight.dim()  # type: ignore[operator]


def _folded(layer: nn.Module, norm: nn.Module) -> nn.Module | None:
    """One layer for both, with weights computed in float64 and rounded once; None if a weight overflows."""
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
    return made if all(bool(torch.isfinite(value).all()) for value in (made.weight, made.bias)) else None


def _by_output(layer: nn.Module, weight: Tensor, scale: Tensor) -> Tensor:
    """The factor of each output channel, reshaped to broadcast with the weight."""
    if type(layer) not in _TRANSPOSED:
        return scale.reshape(-1, *[1] * (weight.dim() - 1))
    groups = int(layer.groups)  # type: ignore[arg-type]
    each = scale.reshape(groups, 1, -1).expand(-1, weight.shape[0] // groups, -1)
    return each.reshape(weight.shape[0], weight.shape[1], *[1] * (weight.dim() - 2))


def _double(value: object) -> Tensor | None:
    return value.detach().double() if isinstance(value, Tensor) else None
