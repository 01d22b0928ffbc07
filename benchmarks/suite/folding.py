"""Batch normalisation folded into the convolution or linear layer before it, written apart from lvmrs's own.

The limit uses it, and so a mistake in lvmrs's folding cannot make both fast together.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import fx, nn

__all__ = ["folded"]

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_LINEAR = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


class _Layers(fx.Tracer):
    """Keeps layers whole, also those of classes that build on torch's."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, (*_LINEAR, *_NORMS)) or super().is_leaf_module(m, module_qualified_name)


def folded(model: nn.Module) -> nn.Module:
    """A copy of a network in eval mode, with every normalisation folded that follows one layer alone.

    A network without batch normalisation is copied as it is.
    """
    model = copy.deepcopy(model).eval()
    if not any(isinstance(module, _NORMS) for module in model.modules()):
        return model
    graph = _Layers().trace(model)
    traced = fx.GraphModule(model, graph)
    modules = dict(traced.named_modules())
    for node in list(graph.nodes):
        norm, before = modules.get(str(node.target)), node.args[0] if node.args else None
        if node.op != "call_module" or not isinstance(norm, _NORMS) or not isinstance(before, fx.Node):
            continue
        layer = modules.get(str(before.target)) if before.op == "call_module" else None
        if isinstance(layer, _LINEAR) and len(before.users) == 1 and _once(graph, before):
            _fold(layer, norm)
            node.replace_all_uses_with(before)
            graph.erase_node(node)
    traced.recompile()
    traced.delete_all_unused_submodules()
    return traced.eval()


def _once(graph: fx.Graph, node: fx.Node) -> bool:
    """Whether the layer of this node runs nowhere else."""
    runs = [other for other in graph.nodes if other.op == "call_module" and other.target == node.target]
    return len(runs) == 1


def _fold(layer: Any, norm: Any) -> None:
    """γ (w x + b − μ)/√(v + ε) + β as one layer, computed in float64."""
    with torch.no_grad():
        scale = (norm.running_var.double() + norm.eps).rsqrt()
        scale = scale if norm.weight is None else scale * norm.weight.double()
        shift = -norm.running_mean.double() if layer.bias is None else layer.bias.double() - norm.running_mean.double()
        bias = scale * shift if norm.bias is None else scale * shift + norm.bias.double()
        weight = layer.weight.double() * scale.reshape(-1, *[1] * (layer.weight.dim() - 1))
        layer.weight = nn.Parameter(weight.to(layer.weight.dtype), requires_grad=False)
        layer.bias = nn.Parameter(bias.to(layer.weight.dtype), requires_grad=False)
