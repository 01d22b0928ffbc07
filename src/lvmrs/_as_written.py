"""Whether a module runs as its class was written: no hooks, nothing replaced on the object, and plain tensors.

What a class says of itself, such as a Lipschitz constant, holds for an object only if calling the object runs the code
of its class. Ordinary torch code changes this with hooks, replaced methods, subclasses and other kinds of tensors. Code
that replaces torch's own classes and functions in the process is not looked for.
"""

from __future__ import annotations

import os
import types
from collections.abc import Collection
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

__all__ = ["changed_module", "changed_process", "changed_tensor", "hooks_on", "own_code"]

# What torch runs when a module is called.
_CALLED = ("__call__", "_call_impl", "_wrapped_call_impl", "_slow_forward", "__getattribute__")
_HOOKS = {"_forward_pre_hooks": "a pre-forward hook", "_forward_hooks": "forward hooks"}
_TENSORS = (Tensor, nn.Parameter, nn.Buffer) if hasattr(nn, "Buffer") else (Tensor, nn.Parameter)


def own_code(function: object) -> bool:
    """Whether a function or method is compiled, or written in one of torch's files."""
    if isinstance(function, types.FunctionType):
        return function.__code__.co_filename.startswith(f"{Path(torch.__file__).parent}{os.sep}")
    return isinstance(function, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType))


def changed_process() -> str | None:
    """Say which global hooks change the modules of the whole process; None if there are none."""
    if any(getattr(torch_module, f"_global{name}") for name in _HOOKS):
        return "torch has global forward hooks, which change every layer"
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
        if getattr(kind, name) is not getattr(nn.Module, name):
            return f"its class {kind.__name__} replaces {name}"
    if hasattr(kind, "training"):
        return f"its class {kind.__name__} replaces training"
    for name in vars(module):
        method = getattr(kind, name, None)
        if callable(method) or hasattr(type(method), "__get__"):
            return f"its {name} was replaced"
    for table in (module._parameters, module._buffers, vars(module)):
        for name, value in table.items():
            fault = changed_tensor(value) if isinstance(value, Tensor) else None
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
    return None
