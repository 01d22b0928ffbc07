"""Is this a layer of torch that runs as torch wrote it? Only such layers have bounds; all others are refused by name.

A layer is stock if its class is exactly one of torch's, or the class that torch's own parametrizations make of one; if
calling it runs the ``forward`` in torch's file and nothing else; and if its settings and weights are plain numbers and
tensors, for which the rules were written.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from lvmrs._as_written import changed_class, changed_module, changed_process, changed_tensor, hooks_on, own_code
from lvmrs.errors import ModelError

__all__ = [
    "check_functions", "check_layer", "check_network", "check_stated", "is_of_torch", "kind_of", "unknown_layer",
]  # fmt: skip

# Torch's own parametrizations compute a weight from stored tensors only, in eval mode.
_PARAMETRIZATIONS = tuple(
    getattr(parametrizations, name) for name in ("_SpectralNorm", "_WeightNorm", "_Orthogonal")
)  # fmt: skip
# The older form of two of them: hooks that set the weight before each forward pass.
_WEIGHT_HOOKS = (WeightNorm, SpectralNorm)
_WEIGHTS = ("weight", "bias", "running_mean", "running_var")
# What the signs between tensors call.
_OPERATORS = (
    "__add__", "__radd__", "__iadd__", "__sub__", "__rsub__", "__isub__", "__mul__", "__rmul__", "__imul__",
    "__truediv__", "__neg__", "__getitem__",
)  # fmt: skip
_PLAIN = (int, float, bool, str, types.NoneType)
# Where torch's layers and functions look for the functions that they call.
_NAMESPACES: tuple[Any, ...] = (torch, functional, torch._C._nn)


def unknown_layer(name: str, kind: str) -> ModelError:
    """The error that says that no bound is known for this layer."""
    return ModelError(f"no Lipschitz bound is known for the layer {name} ({kind}); give the constant yourself")


def kind_of(layer: nn.Module) -> type[nn.Module]:
    """The class of a layer; of a layer with parametrizations, the class that it had before."""
    kind = type(layer)
    made = kind.__module__ == parametrize.__name__ and len(kind.__bases__) == 1 and parametrize.is_parametrized(layer)
    return kind.__bases__[0] if made else kind


def is_of_torch(module: nn.Module) -> bool:
    """Whether the class of a module says that it is one of torch's. It is then never traced, but known or refused."""
    return type(module).__module__.partition(".")[0] == torch.__name__


def check_network(named: Iterable[tuple[str, nn.Module]]) -> None:
    """Refuse a network with a module that does not run ``forward`` of its class, and only that."""
    fault = changed_process()
    if fault is not None:
        raise ModelError(f"no Lipschitz bound is known for any network now: {fault}")
    for name, module in named:
        fault = changed_module(module, _WEIGHT_HOOKS if is_of_torch(module) else ())
        if fault is not None:
            raise ModelError(
                f"no Lipschitz bound is known for the layer {name or 'itself'}: {fault} "
                f"({type(module).__name__}); undo this, or give the constant yourself"
            )


def check_stated(model: nn.Module, stated: Collection[int]) -> None:
    """Refuse hooks on modules that state a constant, which are given by their ids: the constant is not about those."""
    for name, module in model.named_modules():
        fault = hooks_on(module) if id(module) in stated else None
        if fault is not None:
            raise unknown_layer(name, f"{type(module).__name__}: {fault}")


def check_layer(layer: nn.Module, name: str) -> None:
    """Refuse a layer whose kind is known but which may compute something else.

    Args:
        layer: the layer; that it runs ``forward`` of its class was checked for the whole network.
        name: its name in the network, for errors.
    """
    kind = kind_of(layer)
    fault = changed_class(type(layer)) or _parametrization_fault(layer) or _settings_fault(layer) or _hook_fault(layer)
    if fault is not None:
        raise unknown_layer(name, f"{kind.__name__}: {fault}")


def check_functions(
    kinds: Iterable[type[nn.Module]], methods: Iterable[str], functions: Iterable[Callable[..., Any]]
) -> None:
    """Refuse every network if a function that torch's layers call, or one for which there is a rule, was replaced.

    Args:
        kinds: the layers.
        methods: names of methods of tensors.
        functions: functions of torch, and of Python's ``operator``.
    """
    names = {*methods}
    for kind in kinds:
        for each in kind.__mro__[: kind.__mro__.index(nn.Module)]:
            names |= set(_names_in(vars(each).values()))
    names |= set(_names_in(vars(functional).get(name) for name in tuple(names)))
    found = [(place, name, vars(place).get(name)) for place in _NAMESPACES for name in names]  # nothing is imported
    found += [(Tensor, name, getattr(Tensor, name, None)) for name in (*names, *_OPERATORS)]
    found += [(torch, getattr(one, "__name__", str(one)), one) for one in functions]
    for place, name, thing in found:
        if _is_of_another_name(thing, name) or (
            callable(thing) and not isinstance(thing, type) and not own_code(thing)
        ):
            raise ModelError(f"no Lipschitz bound is known now: {name} of {place.__name__} was replaced")


def _is_of_another_name(thing: object, name: str) -> bool:
    """Whether a compiled function stands under a name that is not its own; torch adds underscores to some."""
    compiled = isinstance(thing, types.BuiltinFunctionType)
    return compiled and thing.__name__.replace("_", "") != name.replace("_", "")  # type: ignore[attr-defined]


def _names_in(functions: Iterable[object]) -> Iterator[str]:
    """The names that appear in the code of some functions."""
    for one in functions:
        if isinstance(one, types.FunctionType):
            yield from (name for name in one.__code__.co_names if not name.startswith("__"))


def _parametrization_fault(layer: nn.Module) -> str | None:
    if kind_of(layer) is type(layer):
        return None
    for name, steps in layer.parametrizations.items():  # type: ignore[operator,union-attr]
        if type(steps) is not parametrize.ParametrizationList or changed_class(type(steps)) is not None:
            return f"its {name} is parametrized by {type(steps).__name__}"
        for step in steps:
            if type(step) not in _PARAMETRIZATIONS or changed_class(type(step)) is not None:
                return f"its {name} is parametrized by {type(step).__name__}, which is not torch's own"
    return None


def _settings_fault(layer: nn.Module) -> str | None:
    """Say which setting or weight of a layer is of a kind for which the rules were not written."""
    for name, value in vars(layer).items():
        own = not name.startswith("_") or name == "_reversed_padding_repeated_twice"
        if own and name not in _WEIGHTS and not _is_plain(value):
            return f"its {name} is not a plain number"
    for name in _WEIGHTS:
        weight = getattr(layer, name, None)
        if weight is None or (name == "bias" and isinstance(weight, bool)):
            continue
        if not isinstance(weight, Tensor):
            return f"its {name} is not a tensor"
        fault = changed_tensor(weight)
        if fault is not None:
            return f"its {name} is {fault}"
        if not weight.is_floating_point():
            return f"its {name} is of {weight.dtype}"
    return None


def _hook_fault(layer: nn.Module) -> str | None:
    for hook in layer._forward_pre_hooks.values():
        methods = (vars(type(hook))[name] for name in ("__call__", "compute_weight"))
        if "compute_weight" in vars(hook) or not all(map(own_code, methods)):
            return f"its hook {type(hook).__name__} was changed"
        if getattr(hook, "name", None) not in _WEIGHTS:
            return f"its hook {type(hook).__name__} changes {getattr(hook, 'name', 'something')}"
    return None


def _is_plain(value: object) -> bool:
    if type(value) in (tuple, list, torch.Size):
        return all(map(_is_plain, value))  # type: ignore[call-overload]
    return type(value) in _PLAIN and not (type(value) is float and math.isnan(value))
