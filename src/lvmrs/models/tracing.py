"""Tracing a network: the steps that it takes, and whether these are all that it does.

A trace is made by running the Python code of the network once, with a stand-in for the input. It misses what the code
does only for real inputs. So the trace and the network are run on inputs of several sizes and scales, where they must
agree, and the network must neither look at values to decide what to do nor change what it stores.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode

from lvmrs.errors import ModelError, guarded
from lvmrs.models.batch_rules import check_batches
from lvmrs.models.stock import is_of_torch, kind_of
from lvmrs.models.stored import Stored, memory_of

__all__ = ["Trace"]

# The sizes of the batches that a trace is run on; its bounds are computed from the values of the first.
_SIZES = (2, 1, 3)
_SCALES = (1.0, 0.01, 30.0, 1000.0)
# How many numbers the largest batch of examples has, about, if one input has fewer.
_NUMBERS = 1 << 16
# These take values out of tensors, or have results whose shape depends on values, so that Python can look at them.
_PEEKS = (
    "item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__complex__", "__index__", "__array__",
    "__format__", "__repr__", "__contains__", "__reversed__", "__dlpack__", "equal", "allclose", "is_nonzero",
    "nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount", "data_ptr", "storage",
)  # fmt: skip


class Trace:
    """The steps of a network, with the value of each for some inputs in ``meta``.

    Args:
        model: the network, in eval mode.
        shape: the shape of an input, without a batch dimension.
        stated: the ids of the modules that state a constant. These are not traced into.
        others: the modules that are not inside one of these, with their names.
    """

    def __init__(
        self, model: nn.Module, shape: Sequence[int], stated: Collection[int], others: Iterable[tuple[str, nn.Module]]
    ) -> None:
        tracer = _Tracer(stated)
        root = nn.Sequential(model) if tracer.is_leaf_module(model, "") else model
        self.model, self.watched = model, not stated  # a module that states its constant may do as it likes
        self.inputs = _examples(model, shape)
        self.first = self._answers(self.inputs[:1])
        self.stored = Stored(others)
        with guarded("the network cannot be traced, so no Lipschitz bound is known", error=ModelError):
            self.module = fx.GraphModule(root, tracer.trace(root))
            self.found = [_Remember(self.module).run(self.inputs[0].clone())]

    @property
    def memory(self) -> set[int | None]:
        """The addresses of the tensors that the network stores."""
        return self.stored.memory

    def check(self) -> list[Any]:
        """Refuse a network that is not its trace, mixes the rows of a batch, or changes what it stores.

        Returns:
            The answers of the network to ``inputs``.
        """
        peeks = _Peeks(self.stored)
        with peeks if self.watched else nullcontext():
            answers, again = self._answers(self.inputs), self._answers(self.inputs)
        if peeks.seen:
            raise ModelError("the network looks at values to decide what to compute, so no Lipschitz bound is known")
        with guarded("the traced network fails, so no Lipschitz bound is known", error=ModelError):
            found = self.found + [_Remember(self.module).run(x.clone()) for x in self.inputs[1:]]
        check_batches(self.module.graph)
        self.stored.check()
        for other in (found, again, self.first):
            if not all(map(_agree, answers, other)):
                raise ModelError(
                    "no Lipschitz bound is known: the network gives other answers than its trace, or than before"
                )
        return answers

    def _answers(self, inputs: Sequence[Tensor]) -> list[Any]:
        shape = tuple(self.inputs[0].shape[1:])
        with guarded(f"the network fails on inputs of shape {shape}", error=ModelError):
            return [self.model(batch.clone()) for batch in inputs]


def _examples(model: nn.Module, shape: Sequence[int]) -> list[Tensor]:
    """Batches of inputs of several sizes and scales, in the precision of the model; in each, some rows are close."""
    kept = (p for p in model.parameters() if p.is_floating_point())
    like = next(kept, torch.zeros(()))
    random = torch.Generator().manual_seed(0)
    most = max(1, min(64, _NUMBERS // max(1, math.prod(shape))))
    made = [torch.rand(size, *shape, generator=random) for size in _SIZES]
    made += [
        scale * torch.randn(size, *shape, generator=random)
        for scale, size in zip(_SCALES, (1, 2, 3, most), strict=True)
    ]
    for batch in made[3:]:
        batch[1:2] = batch[:1] * (1 + 1e-3) + 1e-3
    return [batch.to(like.device, like.dtype) for batch in made]


class _Tracer(fx.Tracer):
    """Does not trace into layers of torch, which are known or refused, nor into modules that state a constant."""

    def __init__(self, stated: Collection[int]) -> None:
        super().__init__()
        self.stated = stated

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        ours = id(module) not in self.stated and not is_of_torch(module) and kind_of(module) is type(module)
        return not (ours or type(module) is nn.Sequential)


class _Remember(fx.Interpreter):
    """Keeps the value of each step, and what a layer changes in the value that it takes."""

    def run_node(self, n: fx.Node) -> Any:
        taken = [one.meta["value"] for one in n.all_input_nodes if isinstance(one.meta["value"], Tensor)]
        before = [one.clone() for one in taken] if n.op == "call_module" else []
        value = super().run_node(n)
        n.meta["value"] = value
        changed = any(not torch.equal(one, now) for one, now in zip(before, taken, strict=False))
        n.meta["changes"] = n.meta.get("changes", False) or changed
        return value

    def run(self, *args: Any, **named: Any) -> Any:
        answer = super().run(*args, **named)
        size = len(args[0])
        for node in self.graph.nodes:
            node.meta.setdefault("values", {}).setdefault(size, node.meta["value"])
        for node in self.graph.nodes:
            node.meta["value"] = next(iter(node.meta["values"].values()))
        return answer


class _Peeks(TorchFunctionMode):
    """Remembers whether values were taken out of a tensor that is not stored, so that Python could look at them."""

    def __init__(self, stored: Stored) -> None:
        super().__init__()
        self.stored, self.seen = stored, False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        looked_at = args[0] if args else None
        if name in _PEEKS and memory_of(looked_at) not in self.stored.memory:
            self.seen = True
        if name == "__getitem__" and any(_is_mask(one) for one in (args[1] if type(args[1]) is tuple else args[1:])):
            self.seen = True
        return func(*args, **(kwargs or {}))


def _is_mask(place: object) -> bool:
    return isinstance(place, Tensor) and place.dtype == torch.bool


def _agree(first: Any, second: Any) -> bool:
    """Whether two answers are equal up to rounding."""
    if not isinstance(first, Tensor) or not isinstance(second, Tensor):
        return False
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    finite = torch.isfinite(first)
    if not first.is_floating_point() or not torch.equal(finite, torch.isfinite(second)):
        return torch.equal(first, second)
    size = float(first[finite].abs().max()) if finite.any() else 0.0
    allowed = min(64 * torch.finfo(first.dtype).eps, 1e-2) * size
    return bool(((first - second).abs()[finite] <= allowed).all())
