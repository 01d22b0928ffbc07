"""Traces a network with torch.fx, and checks that the trace describes all of its computation.

Tracing runs the Python code of the network once, with a proxy for the input. It misses computation that the code
performs only for real inputs. So the trace and the network are run on inputs of several sizes and scales, and must give
equal results. The network must not branch on values, change its stored tensors and attributes, or mix the rows of a
batch.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode

from lvmrs.errors import ModelError, guarded
from lvmrs.models.lipschitz.layers import is_of_library, is_of_torch, is_plain, kind_of, unknown_call, unknown_layer

# The sizes of the example batches, and (size, scale) of further ones. Bounds are computed from the first batch.
_SIZES = (2, 1, 3)
_SCALES = ((1, 1.0), (2, 0.01), (3, 30.0))
# The approximate number of values in the largest example batch, if one input has fewer.
_NUMBERS = 1 << 16
# Methods that pass values of tensors to Python, or have results whose shape depends on values.
_VALUE_METHODS = (
    "item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__complex__", "__index__", "__array__",
    "__format__", "__repr__", "__contains__", "__reversed__", "__dlpack__", "equal", "allclose", "is_nonzero",
    "nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount", "data_ptr", "storage",
)  # fmt: skip


class Trace:
    """The traced graph of a network, which is in eval mode.

    ``meta`` of each node has its ``value`` for the first example batch, its ``values`` by batch size, and ``changes``:
    whether the node is a layer that changes its input in place. The modules that state a constant (``stated``, by id)
    are leaves of the graph; ``others`` are the modules that are not inside one of these, with their names.
    """

    def __init__(
        self, model: nn.Module, shape: Sequence[int], stated: Collection[int], others: Iterable[tuple[str, nn.Module]]
    ) -> None:
        tracer = _Tracer(stated)
        root = nn.Sequential(model) if tracer.is_leaf_module(model, "") else model
        self.model, self.watched = model, not stated  # modules that state a constant may read values
        self.inputs = _examples(model, shape)
        self.first = self._answers(self.inputs[:1])
        self.stored = _Stored(others)
        self.memory = self.stored.memory
        """The memory addresses of the tensors that the network stores."""
        with guarded("the network cannot be traced, so no Lipschitz bound is known", error=ModelError):
            self.module = fx.GraphModule(root, tracer.trace(root))
            self.found = [_Recorder(self.module).run(self.inputs[0].clone())]

    def check(self) -> list[Any]:
        """The outputs for ``inputs``. Raises if the network differs from its trace, mixes rows or changes its state."""
        reads = _ValueReads(self.memory)
        with reads if self.watched else nullcontext():
            answers, again = self._answers(self.inputs), self._answers(self.inputs)
        if reads.seen:
            raise ModelError("the network reads values to decide what to compute, so no Lipschitz bound is known")
        with guarded("the traced network fails, so no Lipschitz bound is known", error=ModelError):
            found = self.found + [_Recorder(self.module).run(x.clone()) for x in self.inputs[1:]]
        _check_batches(self.module.graph)
        self.stored.check()
        for other in (found, again, self.first):
            if not all(map(_agree, answers, other)):
                raise ModelError(
                    "no Lipschitz bound is known: the outputs of the network differ from its trace, or from before"
                )
        return answers

    def _answers(self, inputs: Sequence[Tensor]) -> list[Any]:
        shape = tuple(self.inputs[0].shape[1:])
        with guarded(f"the network fails on inputs of shape {shape}", error=ModelError):
            return [self.model(batch.clone()) for batch in inputs]


def memory_of(value: object) -> int | None:
    """The memory address of a tensor; None for other values."""
    return value.untyped_storage().data_ptr() if isinstance(value, Tensor) else None


def _examples(model: nn.Module, shape: Sequence[int]) -> list[Tensor]:
    """Batches of several sizes and scales in the precision of the model; the scaled ones contain two close rows."""
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(()))
    random = torch.Generator().manual_seed(0)
    most = max(1, min(64, _NUMBERS // max(1, math.prod(shape))))
    made = [torch.rand(size, *shape, generator=random) for size in _SIZES]
    made += [scale * torch.randn(size, *shape, generator=random) for size, scale in (*_SCALES, (most, 1000.0))]
    for batch in made[3:]:
        batch[1:2] = batch[:1] * (1 + 1e-3) + 1e-3
    return [batch.to(like.device, like.dtype) for batch in made]


class _Tracer(fx.Tracer):
    """Treats layers of torch and modules that state a constant as leaves."""

    def __init__(self, stated: Collection[int]) -> None:
        super().__init__()
        self.stated = stated

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        ours = id(module) not in self.stated and not is_of_torch(module) and kind_of(module) is type(module)
        if ours and is_of_library(type(module)):  # containers of these libraries are traced
            return isinstance(module, (nn.Linear, nn.Conv2d)) or not any(True for _ in module.children())
        return not (ours or type(module) is nn.Sequential)


class _Recorder(fx.Interpreter):
    """Stores the value of each node, and whether a layer changes its input in place."""

    def run(self, *args: Any, **named: Any) -> Any:
        self.size = len(args[0])
        return super().run(*args, **named)

    def run_node(self, n: fx.Node) -> Any:
        taken = [self.env[one] for one in n.all_input_nodes if isinstance(self.env[one], Tensor)]
        before = [one.clone() for one in taken] if n.op == "call_module" else []
        value = super().run_node(n)
        changed = any(not torch.equal(one, now) for one, now in zip(before, taken, strict=False))
        n.meta["changes"] = n.meta.get("changes", False) or changed
        n.meta.setdefault("value", value)
        n.meta.setdefault("values", {}).setdefault(self.size, value)
        return value


class _ValueReads(TorchFunctionMode):
    """Detects whether Python reads values of tensors other than the stored ones."""

    def __init__(self, memory: set[int | None]) -> None:
        super().__init__()
        self.memory, self.seen = memory, False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _VALUE_METHODS and memory_of(args[0] if args else None) not in self.memory:
            self.seen = True
        places = (args[1] if type(args[1]) is tuple else args[1:]) if name == "__getitem__" else ()
        if any(isinstance(one, Tensor) and one.dtype == torch.bool for one in places):  # a mask
            self.seen = True
        return func(*args, **(kwargs or {}))


def _agree(first: Any, second: Any) -> bool:
    """Whether two tensors have the same shape, type and values, as results of the same operations on the same batch."""
    if not (isinstance(first, Tensor) and isinstance(second, Tensor)):
        return False
    if (first.shape, first.dtype) != (second.shape, second.dtype):
        return False
    return bool(((first == second) | ((first != first) & (second != second))).all())


# ---- stored state: a network is a function only if it does not change its weights, buffers and attributes

_NONE = object()  # a missing entry


class _Stored:
    """A copy of the stored state of modules."""

    def __init__(self, named: Iterable[tuple[str, nn.Module]]) -> None:
        self.named = list(named)
        self.copies = [dict(_entries(vars(module))) for _, module in self.named]
        self.memory: set[int | None] = set()
        for copies in self.copies:
            for path, value in copies.items():
                if isinstance(value, Tensor):
                    self.memory.add(memory_of(value))
                    copies[path] = value.detach().clone()

    def check(self) -> None:
        """Raise if the stored state has changed since the copy."""
        for (name, module), copies in zip(self.named, self.copies, strict=True):
            now = dict(_entries(vars(module)))
            changed = [path for path in {**copies, **now} if not _same(copies.get(path, _NONE), now.get(path, _NONE))]
            if changed:
                said = [key for key in changed[0] if isinstance(key, str)][-1]
                raise ModelError(
                    f"no Lipschitz bound is known for the layer {name or 'itself'} ({type(module).__name__}): "
                    f"its {said} changes while the network runs"
                )


def _entries(table: dict[Any, Any], path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """All values of nested dicts and lists with their paths of keys, and the lengths of the dicts and lists."""
    for key, value in table.items():
        if isinstance(value, (dict, list, tuple)):
            yield (*path, key), len(value)
            yield from _entries(value if isinstance(value, dict) else dict(enumerate(value)), (*path, key))
        else:
            yield (*path, key), value


def _same(copy: Any, now: Any) -> bool:
    if isinstance(now, Tensor):
        return _agree(copy, now)
    plain = (int, float, complex, bool, str, bytes)
    return bool(copy == now or copy != copy) if type(copy) in plain and type(now) in plain else copy is now


# ---- batches: no output row depends on the other rows or on the batch size
#
# A network could otherwise return the mean of its batch, or multiply by the batch size. So every value that depends on
# the input must be a floating-point tensor whose first dimension is the batch, for all batch sizes of the examples.
# ``view`` and ``reshape`` may use the batch size: they keep the rows apart if the batch stays the first dimension. So
# may ``repeat`` that copies a stored tensor to each row, as Cohen's NormalizeLayer does; its result counts as one from
# the input, whose first dimension must stay the batch.

_RESHAPES = ("view", "reshape", torch.reshape)
# Deterministic operations on numbers.
_ARITHMETIC = [getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "neg", "pow")]
_PROPERTIES = ("dtype", "device", "ndim", "is_cuda", "layout", "requires_grad")


def _check_batches(graph: fx.Graph) -> None:
    """Raise if a value of a traced network mixes the rows of a batch or depends on the batch size."""
    from_input: set[fx.Node] = set()  # values that depend on the input
    counting: set[fx.Node] = set()  # numbers that depend on the batch size
    for node in graph.nodes:
        if node.op == "output":
            continue
        taken = node.all_input_nodes
        if isinstance(node.meta["value"], Tensor):
            copied = _is_copied_to_rows(node, counting)
            if node.op == "placeholder" or copied or any(one in from_input for one in taken):
                from_input.add(node)
                _check_rows(node)
            if not (copied or _is(node, *_RESHAPES)) and any(one in counting for one in taken):
                raise _unknown_step(node, "it depends on the size of the batch")
        elif node.op not in ("get_attr", "placeholder") and _counts(node, from_input, counting):
            counting.add(node)
        elif len({repr(value) for value in node.meta["values"].values()}) > 1:
            raise unknown_call(node)


def _is_copied_to_rows(node: fx.Node, counting: set[fx.Node]) -> bool:
    """Whether a call copies a stored tensor along a new first dimension by the size of the batch."""
    if not _is(node, "repeat") or node.kwargs or not isinstance(stored := node.args[0], fx.Node):
        return False
    given = node.args[1] if len(node.args) == 2 else node.args[1:]
    places = given if isinstance(given, (tuple, list)) else (given,)
    new = len(places) > stored.meta["value"].dim() if stored.op == "get_attr" else False
    return new and places[0] in counting and not any(place in counting for place in places[1:])


def _check_rows(node: fx.Node) -> None:
    values = node.meta["values"]
    for size, value in values.items():
        if not isinstance(value, Tensor) or not value.is_floating_point():
            raise _unknown_step(node, "it is not a tensor of floating-point numbers")
        if value.dim() == 0 or len(value) != size:
            raise _unknown_step(node, "it does not keep the batch first")
    if len({tuple(value.shape[1:]) for value in values.values()}) > 1:
        raise _unknown_step(node, "its shape depends on the size of the batch")


def _unknown_step(node: fx.Node, why: str) -> ModelError:
    return ModelError(f"no Lipschitz bound is known for {node.name}: {why}")


def _counts(node: fx.Node, from_input: set[fx.Node], counting: set[fx.Node]) -> bool:
    """Whether a number or shape depends on the batch size; raises for other numbers from a tensor."""
    if node.op == "call_module":
        raise unknown_layer(str(node.target), "it does not return a tensor")
    taken = node.all_input_nodes
    tensors = [one for one in taken if isinstance(one.meta["value"], Tensor)]
    if _is(node, "dim") or (_is(node, getattr) and node.args[1] in _PROPERTIES):
        return False
    if _is(node, "size") or (_is(node, getattr) and node.args[1] == "shape"):
        side = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
        return tensors[0] in from_input and not _skips_first(side, tensors[0].meta["value"].dim())
    if tensors or not _is(node, *_ARITHMETIC, operator.getitem):
        raise unknown_call(node)
    shape = taken[0].meta["value"]
    if _is(node, operator.getitem) and _is(taken[0], "size", getattr) and isinstance(shape, torch.Size):
        return not _skips_first(node.args[1], len(shape))
    return any(one in counting for one in taken)


def _is(node: fx.Node, *targets: Any) -> bool:
    """Whether a node calls one of these functions, or methods if they are given by name."""
    wanted = [one for one in targets if isinstance(one, str) == (node.op == "call_method")]
    return node.op in ("call_method", "call_function") and node.target in wanted


def _skips_first(place: Any, sides: int) -> bool:
    """Whether an index into a shape, or a dimension, excludes the first dimension."""
    if isinstance(place, int):
        return place % sides != 0
    return isinstance(place, slice) and is_plain(place) and 0 not in range(sides)[place]
