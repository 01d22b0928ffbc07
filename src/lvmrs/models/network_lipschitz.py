"""Upper bounds on the Lipschitz constants of plain networks, in the Euclidean norm.

The network is traced. For each step, the constant of the result is bounded from the constants of what the step takes:
constants are multiplied along a chain, and added where branches are added. The rules for the steps are in
``layer_rules`` and ``function_rules``. A step without a rule is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from lvmrs import _checks
from lvmrs.errors import ModelError, guarded
from lvmrs.models.function_rules import of_call, shape_of, unknown_call
from lvmrs.models.layer_rules import NORMALISATIONS, normalisation_scale, of_layer, of_linear, unknown_layer
from lvmrs.models.norms import of_matrix
from lvmrs.models.preprocessing import Preprocessed
from lvmrs.sampling import evaluating

__all__ = ["lipschitz_bound"]

# These operators change their first argument.
_IN_PLACE = ("iadd", "isub", "imul", "itruediv")


def lipschitz_bound(model: nn.Module, shape: Sequence[int]) -> float:
    """An upper bound on the Lipschitz constant of a model, from its inputs to its logits, in the Euclidean norm.

    It is the ``lipschitz`` of a model that has this attribute, and otherwise a bound over the layers. The bound holds
    for the model in eval mode and in exact arithmetic. It is often far above the smallest constant.

    Args:
        model: a torch module; layers and functions without a known bound are refused.
        shape: the shape of an input, without a batch dimension. The bound holds for this shape.

    Returns:
        The bound.

    >>> print(f"{lipschitz_bound(nn.Sequential(nn.Flatten(), nn.ReLU()), (1, 4, 4)):.4f}")
    1.0000
    """
    shape = _checks.shape(shape)
    known = _checks.known_lipschitz(model)
    if known is not None:
        return known
    _checks.instance("model", model, nn.Module, "a torch module, whose layers can be seen")
    if isinstance(model, Preprocessed):
        if model.size is not None:
            raise ModelError("the model resizes its inputs, for which no Lipschitz bound is known")
        if not isinstance(model.model, nn.Module):
            raise ModelError("the model is not a torch module, so its layers cannot be seen")
        return lipschitz_bound(model.model, shape) / float(model.std.min())
    with evaluating(model):
        return _Bounds(_traced(model, shape)).of_output()


class _Tracer(fx.Tracer):
    """Does not trace into modules that have a Lipschitz constant."""

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return _checks.known_lipschitz(module) is not None or super().is_leaf_module(module, name)


class _Remember(fx.Interpreter):
    """Keeps the value of each step, as an example of its shape."""

    def run_node(self, n: fx.Node) -> Any:
        n.meta["value"] = super().run_node(n)
        return n.meta["value"]


def _traced(model: nn.Module, shape: Sequence[int]) -> fx.GraphModule:
    for name, module in model.named_modules():
        if module._forward_hooks:
            raise ModelError(f"no Lipschitz bound is known for the layer {name or 'itself'}: it has forward hooks")
    tracer = _Tracer()
    root = nn.Sequential(model) if tracer.is_leaf_module(model, "") else model
    like = next(iter(model.parameters()), torch.zeros(()))
    some = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0)).to(like)
    with guarded(f"the network fails on inputs of shape {tuple(shape)}", error=ModelError):
        answer = model(some.clone())
    with guarded("the network cannot be traced, so no Lipschitz bound is known", error=ModelError):
        traced = fx.GraphModule(root, tracer.trace(root))
        found = _Remember(traced).run(some.clone())
    if isinstance(answer, Tensor) and not torch.allclose(answer, found, rtol=1e-3, atol=1e-5, equal_nan=True):
        raise ModelError("the traced network gives other answers than the network, so no Lipschitz bound is known")
    return traced


class _Bounds:
    """Bounds the constant of each value in a traced network, with respect to the input."""

    def __init__(self, traced: fx.GraphModule) -> None:
        self.traced = traced
        self.modules = dict(traced.named_modules())
        self.constants: dict[fx.Node, float] = {}

    def of_output(self) -> float:
        """A bound on the constant of the network's output."""
        for node in self.traced.graph.nodes:
            if node.op == "output":
                if not isinstance(node.meta["value"], Tensor):
                    raise ModelError(f"the network answers with {type(node.meta['value']).__name__}, not a tensor")
                return self.of(node.args[0])
            self.constants[node] = self._of(node)
        raise ModelError("the network answers with nothing")

    def of(self, argument: Any) -> float:
        """A bound on the constant of a value, or of several values side by side."""
        if isinstance(argument, (tuple, list)):
            return math.sqrt(sum(self.of(one) ** 2 for one in argument))
        return self.constants[argument] if isinstance(argument, fx.Node) else 0.0

    def _of(self, node: fx.Node) -> float:
        if node.op == "placeholder":
            return 1.0
        if node.op == "get_attr":
            return 0.0
        if not isinstance(node.meta["value"], Tensor):
            return self._of_number(node)
        self._check_in_place(node)
        return self._of_module(node) if node.op == "call_module" else of_call(self.of, node)

    def _of_number(self, node: fx.Node) -> float:
        """Shapes do not depend on the input; other numbers that come from a tensor do."""
        of_shapes = node.target in ("size", "dim", getattr)
        if of_shapes or not any(isinstance(one.meta["value"], Tensor) for one in node.all_input_nodes):
            return 0.0
        raise unknown_call(node)

    def _check_in_place(self, node: fx.Node) -> None:
        """Refuse a step that changes a value in place if a later step reads that value under an older name."""
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        module = self.modules.get(str(node.target)) if node.op == "call_module" else None
        flagged = (
            node.kwargs.get("inplace") or getattr(module, "inplace", False) or any(one is True for one in node.args)
        )
        if not (flagged or name in _IN_PLACE or (node.op == "call_method" and name.endswith("_"))):
            return
        memory = _memory(node.args[0])
        nodes = list(self.traced.graph.nodes)
        here = nodes.index(node)
        older = [one for one in nodes[:here] if _memory(one) == memory]
        if any(nodes.index(user) > here for one in older for user in one.users):
            raise ModelError(f"no Lipschitz bound is known for {node.name}: it changes a value that is used again")

    def _of_module(self, node: fx.Node) -> float:
        module, name = self.modules[str(node.target)], str(node.target)
        if len(node.args) != 1 or node.kwargs or not isinstance(node.args[0], fx.Node):
            raise unknown_layer(name, f"{type(module).__name__} with several arguments")
        before = node.args[0]
        own = _checks.known_lipschitz(module)
        if own is not None:
            return self.of(before) * own
        if isinstance(module, NORMALISATIONS):
            return self._of_normalisation(before, normalisation_scale(module, name))
        return self.of(before) * of_layer(module, shape_of(before), name)

    def _of_normalisation(self, before: fx.Node, scale: Tensor) -> float:
        """Bound the scale together with the layer before it, which is tighter, if no other step takes that layer."""
        inner = self.modules.get(str(before.target)) if before.op == "call_module" and len(before.users) == 1 else None
        rows = isinstance(inner, nn.Conv2d) or (isinstance(inner, nn.Linear) and len(shape_of(before)) == 2)
        if rows:
            taken = before.args[0]
            return self.of(taken) * of_linear(inner, shape_of(taken), str(before.target), scale)
        return self.of(before) * of_matrix(torch.diag(scale))


def _memory(node: Any) -> int | None:
    """The address of the memory that holds the value of a step."""
    value = node.meta["value"] if isinstance(node, fx.Node) else None
    return value.untyped_storage().data_ptr() if isinstance(value, Tensor) else None
