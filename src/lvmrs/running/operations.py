"""The operations that torch performs while a network runs, in order, and what is wrong with them."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lvmrs.running.held import checksum

__all__ = ["Operations", "memory"]

# What takes values out of tensors without an operation that could be seen.
_LEAVING = ("tolist", "numpy", "__array__", "__dlpack__", "data_ptr", "storage", "untyped_storage", "untyped_data_ptr")
_RANDOM_OR_BY_VALUE = (
    torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.nondeterministic_seeded,
)  # fmt: skip


class Operations:
    """Records the operations within a ``with`` block that depend on an input, and which results each one takes.

    Args:
        inputs: the input; operations on constants alone are left out, since a trace has their results.
    """

    def __init__(self, inputs: Tensor) -> None:
        self.done: list[Any] = []
        """Each operation with its arguments: results by number, constants by checksum, plain values as they are."""
        self.fault: str | None = None
        """Why the network is more than a list of steps; None if it is not."""
        self._derived = {id(inputs): inputs}  # they are kept, so that no other tensor gets their id
        self._numbers = {id(inputs): 0}
        self._own = {memory(inputs): inputs}
        self._modes: tuple[Any, ...] = _Dispatched(self), _Leaving(self)

    def __enter__(self) -> Self:
        """Begin."""
        for mode in self._modes:
            mode.__enter__()
        return self

    def __exit__(self, *given: Any) -> None:
        """End."""
        for mode in reversed(self._modes):
            mode.__exit__(*given)

    def add(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Perform an operation, and record it."""
        if _is_by_value(func, args):
            self.fault = f"it looks at values or draws random numbers ({func})"
        for argument, value in zip(func._schema.arguments, args, strict=False):
            self._note_write(argument, value)
        for argument in func._schema.arguments:
            if argument.name in kwargs:
                self._note_write(argument, kwargs[argument.name])
        given = tree_leaves((args, kwargs))
        tensors = [each for each in given if isinstance(each, Tensor)]
        depends = any(id(each) in self._derived for each in tensors)
        described = [self._described(each) for each in given] if depends else []
        stored = {memory(each) for each in tensors} - self._own.keys()
        result = func(*args, **kwargs)
        made = [each for each in tree_leaves(result) if isinstance(each, Tensor)]
        for each in made:
            if memory(each) not in stored:  # views of what the model stores are not the call's own
                self._own[memory(each)] = each
        if depends:
            self.done.append((str(func), described))
            self._derived |= {id(each): each for each in made}
            for each in made:
                self._numbers.setdefault(id(each), len(self._numbers))
        return result

    def _described(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value if isinstance(value, (int, float, bool, str, type(None), torch.dtype)) else str(value)
        which = self._numbers[id(value)] if id(value) in self._derived else f"constant {checksum(value)}"
        return which, tuple(value.shape), tuple(value.stride()), value.dtype

    def _note_write(self, argument: Any, value: Any) -> None:
        """Writing is allowed only to what this very call of the network has made, and to its input."""
        written = argument.alias_info is not None and argument.alias_info.is_write
        if written and any(memory(each) not in self._own for each in tree_leaves(value) if isinstance(each, Tensor)):
            self.fault = "it writes to what it stores"


class _Dispatched(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, operations: Operations) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = operations

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise torch loads its compiler, which takes a second

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.operations.add(func, args, kwargs or {})


class _Leaving(TorchFunctionMode):
    def __init__(self, operations: Operations) -> None:
        super().__init__()
        self.operations = operations

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _LEAVING:
            self.operations.fault = f"it takes values out of tensors ({func.__name__})"
        return func(*args, **(kwargs or {}))


def _is_by_value(func: Any, args: Any) -> bool:
    if func is torch.ops.aten.index.Tensor:  # by whole numbers its result has a known shape
        return any(isinstance(each, Tensor) and each.dtype == torch.bool for each in tree_leaves(args[1:]))
    return any(tag in func.tags for tag in _RANDOM_OR_BY_VALUE)


def memory(tensor: Tensor) -> int:
    """Where the memory of a tensor begins, which it shares with its views."""
    return tensor.untyped_storage().data_ptr()
