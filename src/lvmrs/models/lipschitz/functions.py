"""Lipschitz constants of the results of tensor functions and methods in a traced network.

A rule takes a function that looks up the constant of a value, and the node of the call. If a rule raises an error, for
example for an unexpected argument, then no bound is known.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from lvmrs.errors import ModelError
from lvmrs.models.lipschitz.layers import is_plain, of_layer
from lvmrs.models.lipschitz.norms import product

# A function that looks up the constant of a value in the network, or of the concatenation of several values.
_ConstantOf = Callable[[Any], float]
_Rule = Callable[[_ConstantOf, fx.Node], float]


def of_call(of: _ConstantOf, node: fx.Node) -> float:
    """A bound on the constant of the result of a function or method, from the constants of its arguments."""
    rules: Any = METHODS if node.op == "call_method" else FUNCTIONS
    if node.target not in rules:
        raise unknown_call(node)
    try:
        bound = float(rules[node.target](of, node))
    except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise unknown_call(node) from error
    if math.isnan(bound):
        raise unknown_call(node)
    return bound


def unknown_call(node: fx.Node) -> ModelError:
    """The error that says that no bound is known for this call."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    return ModelError(
        f"no Lipschitz bound is known for the function {name} ({node.name}) as it is called; give the constant yourself"
    )


def value_of(node: Any) -> Any:
    """The value of a node for the first example batch."""
    return node.meta["value"]


def _settings(node: fx.Node) -> tuple[list[Any], dict[str, Any]]:
    """The arguments after the first, with values of nodes inserted. Raises TypeError if one is not a plain setting."""
    settings, named = list(fx.map_arg(node.args[1:], value_of)), dict(fx.map_arg(node.kwargs, value_of))
    if not all(map(is_plain, (*settings, *named.values()))):
        raise TypeError("a setting that is a tensor, a type of numbers or the like")
    return settings, named


def _scaled(constant: float) -> _Rule:
    """The rule of a function that multiplies distances by at most this constant for all settings."""

    def rule(of: _ConstantOf, node: fx.Node) -> float:
        _settings(node)
        return product(constant, of(node.args[0]))

    return rule


def _sum(of: _ConstantOf, node: fx.Node) -> float:
    """A sum of two values: broadcasting a value k times multiplies its constant by √k."""
    if node.kwargs or len(node.args) != 2:
        raise ValueError("other arguments than two values")
    total, size = 0.0, math.prod(value_of(node).shape)
    for argument in node.args:
        if not isinstance(argument, fx.Node) and not is_plain(argument):
            raise TypeError("neither a value nor a number")
        constant = of(argument)
        if constant:
            total += constant * math.sqrt(size / math.prod(value_of(argument).shape))
    return total


def _times(of: _ConstantOf, node: fx.Node) -> float:
    """The product or quotient of a value and a number, or a tensor that the network stores, such as a scale."""
    first, second = node.args
    divides = node.target in (operator.truediv, torch.div, "div")
    if (isinstance(first, (int, float)) or _is_stored(first)) and not divides:
        first, second = second, first
    if isinstance(second, fx.Node) and (_is_stored(second) or not isinstance(value_of(second), Tensor)):
        second = value_of(second)
    if not isinstance(first, fx.Node) or node.kwargs:
        raise TypeError("a product of values")
    if isinstance(second, Tensor) and second.is_floating_point():
        factors = second.detach().double().abs().reshape(-1)
    elif isinstance(second, (int, float)) and is_plain(second):
        factors = torch.tensor([abs(second)], dtype=torch.float64)
    else:
        raise TypeError("a product of values")
    least = torch.finfo(value_of(first).dtype).tiny
    used = factors if divides else factors[factors != 0]
    if not len(factors) or not bool(((used >= least) & (used <= 1 / least)).all()):
        raise ValueError("a factor that is, or whose inverse is, 0, infinite or subnormal in this precision")
    copies = value_of(node).numel() / value_of(first).numel()  # by broadcasting
    factor = 1 / float(factors.min()) if divides else float(factors.max())
    return product(of(first), factor * math.sqrt(copies))


def _is_stored(value: object) -> bool:
    """Whether a value is a tensor that the network stores, also if it is copied to each row of the batch."""
    if not isinstance(value, fx.Node) or not isinstance(value_of(value), Tensor):
        return False
    copied = value.op == "call_method" and value.target in ("repeat", "permute")
    return _is_stored(value.args[0]) if copied else value.op == "get_attr"


def _repeat(of: _ConstantOf, node: fx.Node) -> float:
    """A stored tensor stays one; a repeated value would count several times."""
    if not _is_stored(node):
        raise TypeError("a value that is repeated")
    return 0.0


def _concatenation(of: _ConstantOf, node: fx.Node) -> float:
    values, (settings, named) = node.args[0], _settings(node)
    if not isinstance(values, (tuple, list)) or len(settings) > 1 or named.keys() - {"dim"}:
        raise TypeError("not a list of values and a dimension")
    return of(values)


def _slice(of: _ConstantOf, node: fx.Node) -> float:
    """A slice takes each pixel at most once."""
    (places,), _ = _settings(node)
    places = places if isinstance(places, tuple) else (places,)
    if not all(place is None or place is Ellipsis or isinstance(place, (slice, int)) for place in places):
        raise TypeError("an index that may take a pixel twice")
    return of(node.args[0])


def _padding(of: _ConstantOf, node: fx.Node) -> float:
    settings, named = _settings(node)
    if (settings[1] if len(settings) > 1 else named.get("mode", "constant")) != "constant":
        raise ValueError("padding that repeats pixels")
    return of(node.args[0])


def _mean(of: _ConstantOf, node: fx.Node) -> float:
    settings, named = _settings(node)
    if len(settings) > 2 or named.keys() - {"dim", "keepdim"}:
        raise ValueError("other arguments than dimensions")
    before, after = value_of(node.args[0]).shape, value_of(node).shape
    return product(of(node.args[0]), math.sqrt(math.prod(after) / math.prod(before)))


def _dropout(of: _ConstantOf, node: fx.Node) -> float:
    settings, named = _settings(node)
    if (settings[1] if len(settings) > 1 else named.get("training", True)) is not False:
        raise ValueError("it is random in eval mode too")
    return of(node.args[0])


def _as_layer(layer: type[nn.Module]) -> _Rule:
    """The rule of a function with the arguments and the constant of a layer."""

    def rule(of: _ConstantOf, node: fx.Node) -> float:
        settings, named = _settings(node)
        return product(of(node.args[0]), of_layer(layer(*settings, **named), value_of(node.args[0]), node.name))

    return rule


_NONEXPANSIVE = _scaled(1.0)
_SAME = ("flatten", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "relu", "relu_", "tanh", "clamp", "neg")
METHODS: dict[str, _Rule] = {
    **dict.fromkeys((*_SAME, "view", "contiguous", "float", "double", "clone"), _NONEXPANSIVE),
    "sigmoid": _scaled(0.25),
    **dict.fromkeys(("add", "add_", "sub", "sub_"), _sum),
    **dict.fromkeys(("mul", "mul_", "div"), _times),
    "mean": _mean,
    "repeat": _repeat,
}
FUNCTIONS: dict[Callable[..., Any], _Rule] = {
    **{getattr(torch, name): _NONEXPANSIVE for name in _SAME},
    **dict.fromkeys(
        (functional.relu, functional.relu_, functional.relu6, functional.hardtanh, functional.tanh, operator.neg,
         functional.pixel_shuffle, functional.pixel_unshuffle), _NONEXPANSIVE,
    ),
    **dict.fromkeys((torch.sigmoid, functional.sigmoid), _scaled(0.25)),
    functional.gelu: _scaled(1.13),
    functional.silu: _scaled(1.1),
    **dict.fromkeys((operator.add, operator.iadd, operator.sub, operator.isub, torch.add, torch.sub), _sum),
    **dict.fromkeys((operator.mul, operator.truediv, operator.imul, torch.mul, torch.div), _times),
    torch.cat: _concatenation,
    operator.getitem: _slice,
    functional.pad: _padding,
    torch.mean: _mean,
    functional.dropout: _dropout,
    functional.avg_pool2d: _as_layer(nn.AvgPool2d),
    functional.adaptive_avg_pool2d: _as_layer(nn.AdaptiveAvgPool2d),
    functional.max_pool2d: _as_layer(nn.MaxPool2d),
    functional.leaky_relu: _as_layer(nn.LeakyReLU),
    functional.elu: _as_layer(nn.ELU),
    functional.softplus: _as_layer(nn.Softplus),
}  # fmt: skip
