"""Each row of a batch goes its own way through a traced network, and no number depends on how many rows there are.

A network could otherwise answer with its batch's mean, or multiply by the size of the batch. So every value that comes
from the input must be a tensor of floating-point numbers with the batch first, at all batch sizes that were tried. The
size of the batch may be used in ``view`` and ``reshape`` alone, which keep the rows apart if the batch stays first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx

from lvmrs.errors import ModelError
from lvmrs.models.function_rules import unknown_call
from lvmrs.models.stock import unknown_layer

__all__ = ["check_batches"]

_RESHAPES = ("view", "reshape", torch.reshape)
# Operations on numbers that give the same number each time.
_ARITHMETIC: tuple[Callable[..., Any], ...] = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.neg,
    operator.pow,
)  # fmt: skip
_PROPERTIES = ("dtype", "device", "ndim", "is_cuda", "layout", "requires_grad")


def check_batches(graph: fx.Graph) -> None:
    """Refuse a traced network whose values mix the rows of a batch or depend on their number.

    Args:
        graph: the steps; ``meta["values"]`` of each has its value for each batch size that was tried.
    """
    from_input: set[fx.Node] = set()  # values that depend on the input
    counting: set[fx.Node] = set()  # numbers that depend on the size of the batch
    for node in graph.nodes:
        if node.op == "output":
            continue
        values = node.meta["values"]
        if isinstance(next(iter(values.values())), Tensor):
            if node.op == "placeholder" or any(one in from_input for one in node.all_input_nodes):
                from_input.add(node)
                _check_rows(node, values)
            if not _is(node, *_RESHAPES) and any(one in counting for one in node.all_input_nodes):
                raise ModelError(f"no Lipschitz bound is known for {node.name}: it depends on the size of the batch")
        elif node.op not in ("get_attr", "placeholder") and _counts(node, from_input, counting):
            counting.add(node)
        elif len({repr(value) for value in values.values()}) > 1:
            raise unknown_call(node)


def _check_rows(node: fx.Node, values: dict[int, Any]) -> None:
    for size, value in values.items():
        if not isinstance(value, Tensor) or not value.is_floating_point():
            raise ModelError(
                f"no Lipschitz bound is known for {node.name}: it is not a tensor of floating-point numbers"
            )
        if value.dim() == 0 or len(value) != size:
            raise ModelError(f"no Lipschitz bound is known for {node.name}: it does not keep the batch first")
    if len({tuple(value.shape[1:]) for value in values.values()}) > 1:
        raise ModelError(f"no Lipschitz bound is known for {node.name}: its shape depends on the size of the batch")


def _counts(node: fx.Node, from_input: set[fx.Node], counting: set[fx.Node]) -> bool:
    """Whether a number, or a shape, depends on the size of the batch; other numbers from a tensor are refused."""
    if node.op == "call_module":
        raise unknown_layer(str(node.target), "it does not answer with a tensor")
    taken = node.all_input_nodes
    tensors = [one for one in taken if isinstance(_some(one), Tensor)]
    if _is(node, "dim") or (_is(node, getattr) and node.args[1] in _PROPERTIES):
        return False
    if _is(node, "size") or (_is(node, getattr) and node.args[1] == "shape"):
        return tensors[0] in from_input and not _is_inner_side(node)
    if tensors or not _is(node, *_ARITHMETIC, operator.getitem):
        raise unknown_call(node)
    if _is(node, operator.getitem) and _is_whole_shape(node.args[0]):
        return not _skips_first(node.args[1], len(_some(node.args[0])))
    return any(one in counting for one in taken)


def _is(node: fx.Node, *targets: Any) -> bool:
    """Whether a step calls one of these functions, or methods if they are given by name."""
    wanted = [one for one in targets if isinstance(one, str) == (node.op == "call_method")]
    return node.op in ("call_method", "call_function") and node.target in wanted


def _some(node: Any) -> Any:
    """One of the values of a step."""
    return next(iter(node.meta["values"].values()))


def _is_inner_side(node: fx.Node) -> bool:
    """Whether this is ``size`` of one dimension that is not the first."""
    asked = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    return isinstance(asked, int) and asked % _some(node.args[0]).dim() != 0


def _is_whole_shape(node: Any) -> bool:
    return isinstance(node, fx.Node) and isinstance(_some(node), torch.Size) and _is(node, "size", getattr)


def _skips_first(place: Any, sides: int) -> bool:
    """Whether an index into a shape leaves out its first side."""
    if isinstance(place, slice) and all(one is None or isinstance(one, int) for one in _parts(place)):
        return 0 not in range(sides)[place]
    return isinstance(place, int) and place % sides != 0


def _parts(place: slice) -> tuple[Any, Any, Any]:
    return place.start, place.stop, place.step
