"""What the modules of a network store, and whether it changes while the network runs.

A network is a function only if it leaves its weights, buffers and attributes as they are. One that counts its calls, or
keeps what it has seen, may answer differently later, when nobody looks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from lvmrs.errors import ModelError

__all__ = ["Stored", "memory_of"]

_PLAIN = (int, float, complex, bool, str, bytes, type(None))


class Stored:
    """A copy of all that some modules store."""

    def __init__(self, named: Iterable[tuple[str, nn.Module]]) -> None:
        self.named = list(named)
        self.copies = [_copied(vars(module)) for _, module in self.named]
        tensors = (tensor for _, module in self.named for tensor in _tensors(vars(module)))
        self.memory = {memory_of(tensor) for tensor in tensors}
        """The addresses of the tensors that are stored."""

    def check(self) -> None:
        """Refuse a network that changed something since the copy was made."""
        for (name, module), copy in zip(self.named, self.copies, strict=True):
            changed = _first_change(copy, vars(module))
            if changed is not None:
                raise ModelError(
                    f"no Lipschitz bound is known for the layer {name or 'itself'} ({type(module).__name__}): "
                    f"its {changed} changes while the network runs"
                )


def memory_of(value: object) -> int | None:
    """The address of the memory that holds a tensor; None for what is not a tensor."""
    return value.untyped_storage().data_ptr() if isinstance(value, Tensor) else None


def _tensors(table: dict[str, Any]) -> Iterable[Tensor]:
    for value in table.values():
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, dict):
            yield from _tensors(value)


def _copied(value: Any) -> Any:
    """A copy that later changes do not reach; an object that is none of these stands for itself."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return [_copied(one) for one in value] if isinstance(value, (list, tuple)) else value


def _first_change(copy: dict[Any, Any], now: dict[Any, Any]) -> str | None:
    """The name of the first entry of a table that is not as it was."""
    for key in [*copy, *(key for key in now if key not in copy)]:
        if key not in copy or key not in now:
            return str(key)
        if not _same(copy[key], now[key]):
            inner = _first_change(copy[key], now[key]) if isinstance(now[key], dict) else None
            return str(key) if inner is None else inner
    return None


def _same(copy: Any, now: Any) -> bool:
    if isinstance(now, Tensor):
        alike = isinstance(copy, Tensor) and copy.shape == now.shape and copy.dtype == now.dtype
        return alike and bool(((copy == now) | ((copy != copy) & (now != now))).all())
    if isinstance(now, dict):
        return isinstance(copy, dict) and _first_change(copy, now) is None
    if isinstance(now, (list, tuple)):
        return isinstance(copy, list) and len(copy) == len(now) and all(map(_same, copy, now))
    return bool(copy == now or copy != copy) if type(now) in _PLAIN else copy is now
