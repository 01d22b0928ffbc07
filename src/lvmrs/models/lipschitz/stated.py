"""Lipschitz constants that models state, and checks that a module runs the code of its class.

A Lipschitz constant that a class states holds for an object only if calling the object runs the code of the class.
Hooks, replaced methods, subclasses and other kinds of tensors change this. The checks do not detect code that replaces
torch's own classes and functions.
"""

from __future__ import annotations

import os
import types
from collections.abc import Collection
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from lvmrs.errors import InvalidArgumentError, ModelError, guarded, shown
from lvmrs.kernel import checks

# The methods that torch runs when a module is called.
_CALLED = ("__call__", "_call_impl", "_wrapped_call_impl", "_slow_forward", "__getattribute__")
_HOOKS = {"_forward_pre_hooks": "a pre-forward hook", "_forward_hooks": "forward hooks"}
_NAME = "lipschitz"
_TENSORS = (Tensor, nn.Parameter, nn.Buffer) if hasattr(nn, "Buffer") else (Tensor, nn.Parameter)


def own_code(function: object) -> bool:
    """Whether a function or method is compiled, or written in one of torch's files."""
    if isinstance(function, types.FunctionType):
        return function.__code__.co_filename.startswith(f"{Path(torch.__file__).parent}{os.sep}")
    return isinstance(function, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType))


def changed_process() -> str | None:
    """Describe global hooks, which change all modules of the process; None if there are none."""
    if any(getattr(torch_module, f"_global{name}") for name in _HOOKS):
        return "torch has global forward hooks, which change every layer"
    return None


def changed_module(module: nn.Module, hooks: Collection[type] = ()) -> str | None:
    """Describe why calling a module runs other code than ``forward`` of its class; None if it does not.

    ``hooks`` are classes of pre-forward hooks that are allowed. Submodules are not checked.
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
            if not isinstance(value, Tensor):
                continue
            if type(value) not in _TENSORS:
                return f"its {name} is a {type(value).__name__}, not a plain tensor"
            if value.layout != torch.strided or value.is_quantized or value.is_meta:
                return f"its {name} is sparse, quantized or without values"
    return None


def hooks_on(module: nn.Module, allowed: Collection[type] = ()) -> str | None:
    """Describe the forward hooks of a module, except those of the allowed classes; None if there are none."""
    for attribute, words in _HOOKS.items():
        if any(type(hook) not in allowed for hook in vars(module).get(attribute, {}).values()):
            return f"it has {words}"
    return None


def known_lipschitz(model: object) -> float | None:
    """The Lipschitz constant in the attribute ``lipschitz`` of a model; None if it has none.

    The user is responsible for the constant of a user's own class, as for the option ``--lipschitz``. The constant of a
    class of lvmrs is accepted only if calling the object runs just the code of lvmrs: no hooks, no replaced methods, no
    subclass that inherits the constant, and no other layers inside. A constant that a wrapper forwards from the wrapped
    object by ``__getattr__`` does not count.
    """
    kind = type(model)
    if not _is_its_own(model):
        return None
    with guarded(f"lipschitz of {kind.__name__} cannot be read", error=InvalidArgumentError):
        value = getattr(model, _NAME, None)
    if value is None:
        return None
    if isinstance(value, bool) or callable(value):
        raise InvalidArgumentError(
            f"lipschitz of {kind.__name__} must be a positive number or None, got {shown(value)}"
        )
    constant = checks.positive_number(_NAME, value, infinite=True)
    owner = next((each for each in kind.__mro__ if _NAME in vars(each)), None)
    if isinstance(model, nn.Module) and owner is not None and _is_ours(owner):
        _check_ours(model, owner)
    return constant


def check_still(model: object, constant: float | None) -> None:
    """Raise if a model that stated this constant was changed or states another one now; None is never an error."""
    now = None if constant is None else known_lipschitz(model)
    if now != constant:
        raise ModelError(f"the model stated the Lipschitz constant {constant:g} and now states {now}; make it anew")


def runs_as_lvmrs_wrote(model: nn.Module) -> bool:
    """Whether a module states a constant, contains only layers of lvmrs, and runs the code of lvmrs."""
    kinds = {type(module) for module in model.modules()} - {nn.Sequential}
    try:
        return all(map(_is_ours, kinds)) and known_lipschitz(model) is not None
    except ModelError:
        return False


def _is_its_own(model: object) -> bool:
    """Whether the attribute belongs to the object or its class, and not to an object that it wraps."""
    tables = [vars(model)] if hasattr(model, "__dict__") else []
    if isinstance(model, nn.Module):
        tables += [model._parameters, model._buffers, model._modules]
    return any(_NAME in table for table in (*tables, *map(vars, type(model).__mro__)))


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == __name__.partition(".")[0]


def _check_ours(model: nn.Module, owner: type) -> None:
    """Raise if an object of a class of lvmrs, ``owner``, or one of its layers does not run the code of lvmrs."""
    check_itself(model, owner)
    for name, module in stated_inside(model)[1]:
        kind = type(module)
        ours = kind is nn.Sequential or _is_ours(kind)
        fault = changed_module(module) if ours else f"{kind.__name__} is not a layer that lvmrs put there"
        if fault is not None:
            raise _not_believed(owner, f"the layer {name}: {fault}" if name else fault)


def check_itself(model: nn.Module, owner: type) -> None:
    """Raise if an object of a class of lvmrs, ``owner``, does not run the code of lvmrs; ignores its submodules."""
    if type(model) is not owner:
        raise _not_believed(
            type(model), f"it is a subclass of {owner.__name__}; define lipschitz in {type(model).__name__}"
        )
    fault = changed_process() or changed_module(model)
    if fault is not None:
        raise _not_believed(owner, fault)


def stated_inside(model: nn.Module) -> tuple[dict[int, float], list[tuple[str, nn.Module]]]:
    """The constants that submodules of a model state, and the modules outside of these submodules.

    A constant of the model itself is ignored. Returns the constants by the id of their module, and the other modules
    with their names, the model first.
    """
    stated: dict[int, float] = {}
    others: dict[int, tuple[str, nn.Module]] = {}
    waiting = [("", model)]
    while waiting:
        name, module = waiting.pop(0)
        constant = known_lipschitz(module) if name else None
        if constant is not None:
            stated[id(module)] = constant
        elif id(module) not in others:
            others[id(module)] = name, module
            waiting += [(f"{name}.{key}".lstrip("."), child) for key, child in module.named_children()]
    return stated, list(others.values())


def _not_believed(kind: type, fault: str) -> ModelError:
    return ModelError(
        f"the Lipschitz constant of {kind.__name__} is not known, since it may not run as it was written: {fault}; "
        "undo this, or give the constant yourself"
    )
