"""Is this a layer of torch that runs as torch wrote it? Only such layers have bounds; all others are refused by name.

A layer is stock if its class is exactly one of torch's, or the class that torch's own parametrizations make of one; if
calling it runs the ``forward`` in torch's file and nothing else; and if its settings and weights are plain numbers and
tensors, for which the rules were written.
"""

from __future__ import annotations

import math
import types
from collections.abc import Collection, Iterable

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from lvmrs._as_written import changed_module, changed_process, changed_tensor, hooks_on
from lvmrs.errors import ModelError

__all__ = ["check_layer", "check_network", "check_stated", "is_of_torch", "kind_of", "unknown_layer"]

# Torch's own parametrizations compute a weight from stored tensors only, in eval mode.
_PARAMETRIZATIONS = tuple(
    getattr(parametrizations, name) for name in ("_SpectralNorm", "_WeightNorm", "_Orthogonal")
)  # fmt: skip
# The older form of two of them: hooks that set the weight before each forward pass.
_WEIGHT_HOOKS = (WeightNorm, SpectralNorm)
_WEIGHTS = ("weight", "bias", "running_mean", "running_var")
_PLAIN = (int, float, bool, str, types.NoneType)


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
    fault = _parametrization_fault(layer) or _settings_fault(layer) or _hook_fault(layer)
    if fault is not None:
        raise unknown_layer(name, f"{kind.__name__}: {fault}")


def _parametrization_fault(layer: nn.Module) -> str | None:
    if kind_of(layer) is type(layer):
        return None
    for name, steps in layer.parametrizations.items():  # type: ignore[operator,union-attr]
        if type(steps) is not parametrize.ParametrizationList:
            return f"its {name} is parametrized by {type(steps).__name__}"
        for step in steps:
            if type(step) not in _PARAMETRIZATIONS:
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
        if "compute_weight" in vars(hook):
            return f"its hook {type(hook).__name__} was changed"
        if getattr(hook, "name", None) not in _WEIGHTS:
            return f"its hook {type(hook).__name__} changes {getattr(hook, 'name', 'something')}"
    return None


def _is_plain(value: object) -> bool:
    if type(value) in (tuple, list, torch.Size):
        return all(map(_is_plain, value))  # type: ignore[call-overload]
    return type(value) in _PLAIN and not (type(value) is float and math.isnan(value))
