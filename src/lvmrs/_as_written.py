"""Whether a module runs as its classes were written: no hooks, nothing replaced, and tensors that are only tensors.

What a class says of itself, such as a Lipschitz constant, holds for an object only if calling that object runs the code
of its class. Python and torch offer many ways to change that for one object or for all. Each is looked for here.
"""

from __future__ import annotations

import os
import types
from collections.abc import Collection, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

__all__ = ["changed_class", "changed_module", "changed_process", "changed_tensor", "hooks_on", "own_code"]

_TORCH = Path(torch.__file__).parent
# What torch runs when a module is called, and where a module looks up its weights.
_CALLED = ("__call__", "_call_impl", "_wrapped_call_impl", "_slow_forward", "__getattribute__")
_LOOKED_UP = ("__getattr__",)
_HOOKS = {"_forward_pre_hooks": "a pre-forward hook", "_forward_hooks": "forward hooks"}
_GLOBAL_HOOKS = ("_global_forward_pre_hooks", "_global_forward_hooks")
_COMPILED = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType,
    types.ClassMethodDescriptorType, types.MemberDescriptorType,
)  # fmt: skip
_TENSORS = (Tensor, nn.Parameter, nn.Buffer) if hasattr(nn, "Buffer") else (Tensor, nn.Parameter)


def own_code(thing: object, folder: Path = _TORCH) -> bool:
    """Whether a function or method is compiled, or was written in a file in this folder, by default in torch's own."""
    if isinstance(thing, (staticmethod, classmethod)):
        thing = thing.__func__
    if isinstance(thing, property):
        return all(own_code(one, folder) for one in (thing.fget, thing.fset, thing.fdel) if one is not None)
    if isinstance(thing, types.FunctionType):
        return thing.__code__.co_filename.startswith(f"{folder}{os.sep}")
    return isinstance(thing, _COMPILED)


def changed_class(kind: type[nn.Module], folder: Path = _TORCH) -> str | None:
    """Say which method of a class is not from a file in the folder; None if all are. nn.Module is left out."""
    for each in kind.__mro__[: kind.__mro__.index(nn.Module)]:
        for name, thing in vars(each).items():
            if _is_method(thing) and not isinstance(thing, type) and not own_code(thing, folder):
                return f"{name} of its class {each.__name__} was replaced"
    return None


def changed_process() -> str | None:
    """Say what changes the modules of the whole process, such as a global hook; None if nothing does."""
    for name in (*_CALLED, *_LOOKED_UP):
        if not own_code(_of_class(nn.Module, name)):
            return f"{name} of torch.nn.Module was replaced"
    if any(getattr(torch_module, name) for name in _GLOBAL_HOOKS):
        return "torch has global forward hooks, which change every layer"
    # torch.set_default_device and torch.device as a context are modes too, and change no result.
    functions: list[object] = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    modes = [mode for mode in functions if type(mode) is not DeviceContext]
    for mode in (*modes, *_get_current_dispatch_mode_stack()):
        return f"the mode {type(mode).__name__} is active, which may change every function of torch"
    return None


def changed_module(module: nn.Module, hooks: Collection[type] = ()) -> str | None:
    """Say why calling a module does not run ``forward`` of its class, or not only that; None if it does.

    Args:
        module: the module. The modules in it are not looked at.
        hooks: classes of pre-forward hooks that may be there.
    """
    kind, hooked = type(module), hooks_on(module, hooks)
    if hooked is not None:
        return hooked
    if vars(module).get("_compiled_call_impl") is not None:
        return "it is compiled"
    for name in _CALLED:
        if _of_class(kind, name) is not _of_class(nn.Module, name):
            return f"its class {kind.__name__} replaces {name}"
    if _of_class(kind, "training") is not None:
        return f"its class {kind.__name__} replaces training"
    for name in vars(module):
        if _is_method(_of_class(kind, name)):
            return f"its {name} was replaced"
    for name, tensor in _tensors(module):
        fault = changed_tensor(tensor)
        if fault is not None:
            return f"its {name} is {fault}"
    return None


def hooks_on(module: nn.Module, allowed: Collection[type] = ()) -> str | None:
    """Say which hooks a module has that run when it is called, except those of the allowed classes; None if none."""
    for attribute, words in _HOOKS.items():
        if any(type(hook) not in allowed for hook in vars(module).get(attribute, {}).values()):
            return f"it has {words}"
    return None


def changed_tensor(tensor: Tensor) -> str | None:
    """Say why a tensor may not behave as torch's own; None if it does."""
    if type(tensor) not in _TENSORS:
        return f"a {type(tensor).__name__}, not a plain tensor"
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
        return "sparse, quantized or without values"
    hidden = [name for name in vars(tensor) if _of_class(Tensor, name) is not None]
    return f"a tensor whose {hidden[0]} was replaced" if hidden else None


def _of_class(kind: type, name: str) -> object:
    """What a class or its bases define under a name, as it is, without running anything; None if nothing."""
    return next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), None)


def _is_method(thing: object) -> bool:
    return callable(thing) or hasattr(type(thing), "__get__")


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for table in (module._parameters, module._buffers, vars(module)):
        for name, value in table.items():
            if isinstance(value, Tensor):
                yield name, value
