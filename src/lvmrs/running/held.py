"""What a model holds: its weights and every plain value in its attributes, in a form that can be compared.

Looked at are also attributes of its classes, and the variables and default arguments that its functions keep. Global
variables that its code reads are not: rows of each input are compared with those of the model itself.

A fast version of a model is made from copies. The copies stand for the model as long as it holds what it held when they
were made, whichever way a weight is changed: by an optimizer, ``.data``, a NumPy view, or an attribute that is set.
"""

from __future__ import annotations

import logging
import types
import zlib
from collections import deque
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from lvmrs._as_written import own_code

__all__ = ["checksum", "held_by"]

# A model that holds more than this is not watched; 100 layers hold about 3000 values.
_MOST = 200_000
_PLAIN = frozenset(
    {str, int, bool, bytes, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size}
)
# It runs in eval mode, whatever mode it is in between; torch.compile leaves a mark.
_PASSING = ("training", "_is_torch_compile")
# What code consists of, and what does not change. A logger knows all loggers of the process, which come and go.
_FIXED = (type, types.BuiltinFunctionType, types.ModuleType, types.CodeType, logging.Filterer)


def held_by(model: nn.Module) -> list[object] | None:
    """All that a model holds, to be compared with what it holds later; None if that is too much to look at.

    Tensors and arrays are compared by a checksum of their bytes. The cost is that of reading each weight once.

    >>> linear = nn.Linear(2, 2)
    >>> before = held_by(linear)
    >>> before == held_by(linear)
    True
    >>> linear.weight.data[0, 0] *= 1.03
    >>> before == held_by(linear)
    False
    """
    found = list[object]()
    seen = dict[int, object]()  # with the objects themselves, so that no other one gets their id
    waiting: list[object] = [model]
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if kind in _PLAIN:
            found.append(value)
        elif isinstance(value, Tensor):
            # What is lazy has no values before the model first runs.
            found += [kind] if is_lazy(value) else [tuple(value.shape), value.dtype, checksum(value)]
        elif isinstance(value, float | complex):
            found.append(repr(value))  # NaN is not equal to itself
        elif id(value) in seen:
            found.append(kind)
        else:
            seen[id(value)] = value
            found.append(id(value))
            waiting += _parts(value)
        if len(found) > _MOST:
            return None
    return found


def _parts(value: object) -> list[object]:
    """What an object consists of, as far as it can be looked at without running code of the object."""
    if isinstance(value, dict):  # those of modules, of which most are empty
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset | deque):
        return list(value)
    if isinstance(value, torch.Generator):
        return [value.get_state()]
    if isinstance(value, np.ndarray):
        return [str(value.shape), value.tobytes()] if not value.dtype.hasobject else value.ravel().tolist()
    if isinstance(value, np.generic):
        return [value.tobytes()]
    if isinstance(value, bytearray):
        return [bytes(value)]
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, types.FunctionType):
        return [] if own_code(value) else [value.__defaults__, value.__kwdefaults__, value.__closure__, vars(value)]
    if isinstance(value, types.CellType):
        return [value.cell_contents] if value != types.CellType() else []
    if isinstance(value, type) and issubclass(value, nn.Module) and value.__module__.partition(".")[0] != "torch":
        return [each for name, each in vars(value).items() if not name.startswith("__")]
    return [] if isinstance(value, _FIXED) else _attributes(value)


def _attributes(value: object) -> list[object]:
    held = getattr(value, "__dict__", {})
    slots = [getattr(value, name, None) for name in _slots(type(value))]  # type: ignore[arg-type]
    if isinstance(value, nn.Module):
        held = {name: each for name, each in held.items() if name not in _PASSING}
        slots += type(value).__mro__
    return [*held.keys(), *held.values(), *slots]


@lru_cache(maxsize=1024)
def _slots(kind: type) -> tuple[str, ...]:
    """The attributes of a class that are not in a dictionary: those of ``__slots__``, partial functions, properties."""
    return tuple(
        name
        for each in kind.__mro__
        for name, value in vars(each).items()
        if isinstance(value, types.MemberDescriptorType)
    )


def checksum(tensor: Tensor) -> object:
    """A number that changes when a value in a tensor does."""
    plain = type(tensor) in (Tensor, nn.Parameter)  # others, such as those of a trace, may have no values
    if not plain or tensor.layout != torch.strided or tensor.is_meta or tensor.is_quantized:
        return id(tensor)
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return zlib.crc32(flat.view(torch.uint8).numpy().data)
