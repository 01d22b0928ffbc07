"""Upper bounds on the Lipschitz constants of plain networks, in the Euclidean norm.

The network is traced. For each node of the graph, the constant of the result is bounded from the constants of its
inputs: constants are multiplied along a chain, and added where branches are added. ``layers`` contains the
rules. For a node without a rule, ModelError names the node.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from lvmrs.errors import ModelError
from lvmrs.kernel import checks
from lvmrs.kernel.sampler import evaluating
from lvmrs.models.ensemble import Ensemble
from lvmrs.models.lipschitz import layers
from lvmrs.models.lipschitz.layers import of_call, value_of
from lvmrs.models.lipschitz.norms import of_matrix, product
from lvmrs.models.lipschitz.stated import check_itself, known_lipschitz, stated_inside
from lvmrs.models.lipschitz.tracing import Trace, memory_of
from lvmrs.models.preprocessing import Preprocessed

# Layers and functions that may return a view of their input, and do not change it.
_VIEWING_LAYERS = (nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout, nn.Dropout2d, nn.PixelShuffle, nn.PixelUnshuffle)
_RESHAPES = ("flatten", "reshape", "squeeze", "unsqueeze", "permute", "transpose")
_VIEWS = (
    *_RESHAPES, *(getattr(torch, name) for name in _RESHAPES), "view", "contiguous", "float", "double",
    operator.getitem, functional.dropout, functional.pixel_shuffle, functional.pixel_unshuffle,
)  # fmt: skip


def lipschitz_bound(model: nn.Module, shape: Sequence[int]) -> float:
    """An upper bound on the Lipschitz constant of a model, from its inputs to its logits, in the Euclidean norm.

    Returns the attribute ``lipschitz`` of a model that has one, and otherwise a bound from the layers. The bound holds
    for the model in eval mode and in exact arithmetic. It is often far above the smallest constant.

    Args:
        model: a torch module; raises ModelError for layers and functions without a known bound.
        shape: the shape of an input, without a batch dimension. The bound holds for this shape.

    Returns:
        The bound.

    >>> print(f"{lipschitz_bound(nn.Sequential(nn.Flatten(), nn.ReLU()), (1, 4, 4)):.4f}")
    1.0000
    """
    shape = checks.shape(shape)
    known = known_lipschitz(model)
    if known is not None:
        return known
    checks.instance("model", model, nn.Module, "a torch module, whose layers can be seen")
    if isinstance(model, Preprocessed):
        check_itself(model, Preprocessed)
        if model.size is not None:
            raise ModelError("the model resizes its inputs, for which no Lipschitz bound is known")
        if not isinstance(model.model, nn.Module):
            raise ModelError("the model is not a torch module, so its layers cannot be seen")
        return product(lipschitz_bound(model.model, shape), model.steepness)
    if isinstance(model, Ensemble):
        check_itself(model, Ensemble)
        if model.average != "logits":
            raise ModelError(
                "the ensemble averages softmax scores, for which no Lipschitz bound is known; average logits, or give "
                "the constant yourself"
            )
        return model.mean_of([lipschitz_bound(member, shape) for member in model.members])
    with evaluating(model):
        stated, seen = stated_inside(model)
        layers.check_network(model, stated, seen)
        trace = Trace(model, shape, stated, seen)
        bound = _Bounds(trace, stated).of_output()
        _check_slopes(trace.inputs, trace.check(), bound)
        layers.check_network(model, stated, seen)  # the network may have changed its modules during the runs
    return bound


def _check_slopes(inputs: Sequence[Tensor], answers: Sequence[Tensor], bound: float) -> None:
    """Raise if the outputs of the network contradict the bound: a last check, which should never fail."""
    for batch, answer in zip(inputs, answers, strict=True):
        if answer.dim() == 0 or len(answer) != len(batch) or not answer.is_floating_point():
            continue  # the output does not depend on the input
        rows, logits = (each.double().reshape(len(batch), -1) for each in (batch, answer))
        moved, answered = (rows[1:] - rows[:1]).norm(dim=1), (logits[1:] - logits[:1]).norm(dim=1)
        rounding = 1e4 * torch.finfo(answer.dtype).eps * logits.norm(dim=1).max()
        if bool((answered > bound * moved * (1 + 1e-6) + rounding).any()):
            raise ModelError("the network's outputs change more than its layers allow, so no Lipschitz bound is known")


class _Bounds:
    """Bounds the constant of each value in a traced network, with respect to the input."""

    def __init__(self, trace: Trace, stated: Mapping[int, float]) -> None:
        self.trace, self.stated = trace, stated
        self.nodes = list(trace.module.graph.nodes)
        self.modules = dict(trace.module.named_modules(remove_duplicate=False))
        self.constants: dict[fx.Node, float] = {}

    def of_output(self) -> float:
        """A bound on the constant of the network's output."""
        for node in self.nodes:
            if node.op == "output":
                if not isinstance(value_of(node), Tensor):
                    raise ModelError(f"the network returns {type(value_of(node)).__name__}, not a tensor")
                return self.of(node.args[0])
            self.constants[node] = self._of(node)
        raise ModelError("the network returns nothing")

    def of(self, argument: Any) -> float:
        """A bound on the constant of a value, or of the concatenation of several values."""
        if isinstance(argument, (tuple, list)):
            return math.sqrt(sum(self.of(one) ** 2 for one in argument))
        return self.constants[argument] if isinstance(argument, fx.Node) else 0.0

    def _of(self, node: fx.Node) -> float:
        if node.op == "placeholder":
            return 1.0 if isinstance(value_of(node), Tensor) else 0.0
        if node.op == "get_attr" or not isinstance(value_of(node), Tensor):
            return 0.0  # stored values, and sizes and shapes; ``Trace.check`` raises for other numbers
        self._check_in_place(node)
        return self._of_module(node) if node.op == "call_module" else of_call(self.of, node)

    def _check_in_place(self, node: fx.Node) -> None:
        """Raise if a node may change a value in place that the network stores, or that a later node reads.

        A node may change its input if the result shares memory with the input, unless the node is known to be a view.
        """
        taken = {memory_of(value_of(one)) for one in node.all_input_nodes} - {None}
        here = memory_of(value_of(node))
        if not node.meta["changes"] and (here not in taken or self._is_view(node)):
            return
        changed = taken if node.meta["changes"] else {here}
        if changed & self.trace.memory:
            raise ModelError(f"no Lipschitz bound is known for {node.name}: it may change what the network stores")
        place = self.nodes.index(node)
        older = [one for one in self.nodes[:place] if memory_of(value_of(one)) in changed]
        if any(self.nodes.index(user) > place for one in older for user in one.users):
            raise ModelError(f"no Lipschitz bound is known for {node.name}: it changes a value that is used again")

    def _is_view(self, node: fx.Node) -> bool:
        if node.op == "call_module":
            module = self.modules[str(node.target)]
            return id(module) not in self.stated and layers.kind_of(module) in _VIEWING_LAYERS
        return node.target in _VIEWS

    def _of_module(self, node: fx.Node) -> float:
        module, name = self.modules[str(node.target)], str(node.target)
        if len(node.args) != 1 or node.kwargs or not isinstance(node.args[0], fx.Node):
            raise layers.unknown_layer(name, f"{type(module).__name__} with several arguments")
        before = node.args[0]
        if id(module) in self.stated:
            return product(self.of(before), self.stated[id(module)])
        if layers.kind_of(module) in layers.NORMALISATIONS:
            return self._of_normalisation(before, layers.normalisation_scale(module, name))
        return product(self.of(before), layers.of_layer(module, value_of(before), name))

    def _of_normalisation(self, before: fx.Node, scale: Tensor) -> float:
        """Bound the scale together with the layer before it, which is tighter, if no other node uses that layer."""
        alone = before.op == "call_module" and len(before.users) == 1
        inner = self.modules[str(before.target)] if alone else None
        kind = None if inner is None or id(inner) in self.stated else layers.kind_of(inner)
        if inner is not None and (kind is nn.Conv2d or (kind is nn.Linear and value_of(before).dim() == 2)):
            taken = before.args[0]
            return product(self.of(taken), layers.of_layer(inner, value_of(taken), str(before.target), scale))
        return product(self.of(before), of_matrix(torch.diag(scale)))
