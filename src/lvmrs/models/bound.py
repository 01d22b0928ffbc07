"""A certified upper bound of the Lipschitz constant of a plain network, in the Euclidean norm.

The network is traced, and each step of it bounds the constant of its result by those of what it takes: a product along
a chain, a sum where branches are added. What is not known to be Lipschitz, as it is called, is refused by name.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from lvmrs import _checks
from lvmrs.errors import ModelError, first_line
from lvmrs.models.norms import of_convolution, of_matrix
from lvmrs.models.preprocessing import Preprocessed
from lvmrs.sampling import evaluating

__all__ = ["lipschitz_bound"]


def lipschitz_bound(model: nn.Module, shape: Sequence[int]) -> float:
    """A bound for inputs of that shape (no batch dimension), of the model in eval mode."""
    known = _checks.known_lipschitz(model)
    if known is not None:
        return known
    if isinstance(model, Preprocessed):
        if model.size is not None:
            raise ModelError("the model resizes its inputs, for which no Lipschitz bound is known")
        if not isinstance(model.model, nn.Module):
            raise ModelError("the model is not a torch module, so its layers cannot be seen")
        return lipschitz_bound(model.model, shape) / float(model.std.min())
    with evaluating(model):
        return _Bounds(_traced(model, shape)).of_output()


class _Tracer(fx.Tracer):
    """Modules that know their own constant are not looked into."""

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return _checks.known_lipschitz(module) is not None or super().is_leaf_module(module, name)


class _Remember(fx.Interpreter):
    """Keeps the value of each step, as an example of its shape."""

    def run_node(self, n: fx.Node) -> Any:
        n.meta["value"] = super().run_node(n)
        return n.meta["value"]


def _traced(model: nn.Module, shape: Sequence[int]) -> fx.GraphModule:
    for name, module in model.named_modules():
        if module._forward_hooks:
            raise ModelError(f"no Lipschitz bound is known for the layer {name or 'itself'}: it has forward hooks")
    tracer = _Tracer()
    root = nn.Sequential(model) if tracer.is_leaf_module(model, "") else model
    like = next(iter(model.parameters()), torch.zeros(()))
    some = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0)).to(like)
    try:
        answer = model(some.clone())
    except Exception as error:  # whatever the user's forward pass raises
        raise ModelError(f"the network fails on inputs of shape {tuple(shape)}: {first_line(error)}") from error
    try:
        traced = fx.GraphModule(root, tracer.trace(root))
    except Exception as error:  # tracing raises whatever a forward pass makes of a value that is not there
        reason = first_line(error)
        raise ModelError(f"the network cannot be traced, so no Lipschitz bound is known: {reason}") from error
    found = _Remember(traced).run(some.clone())
    if isinstance(answer, Tensor) and not torch.allclose(answer, found, rtol=1e-3, atol=1e-5, equal_nan=True):
        raise ModelError("the network as it is traced answers otherwise, so no Lipschitz bound is known")
    return traced


class _Bounds:
    """The constant of each value in a traced network, with respect to the input."""

    def __init__(self, traced: fx.GraphModule) -> None:
        self.traced = traced
        self.modules = dict(traced.named_modules())
        self.constants: dict[fx.Node, float] = {}

    def of_output(self) -> float:
        """Of what the network answers."""
        for node in self.traced.graph.nodes:
            if node.op == "output":
                if not isinstance(node.meta["value"], Tensor):
                    raise ModelError(f"the network answers with {type(node.meta['value']).__name__}, not a tensor")
                return self.of(node.args[0])
            self.constants[node] = self._of(node)
        raise ModelError("the network answers with nothing")

    def of(self, argument: Any) -> float:
        """Of a value, or of several side by side."""
        if isinstance(argument, (tuple, list)):
            return math.sqrt(sum(self.of(one) ** 2 for one in argument))
        return self.constants[argument] if isinstance(argument, fx.Node) else 0.0

    def _of(self, node: fx.Node) -> float:
        if node.op == "placeholder":
            return 1.0
        if node.op == "get_attr":
            return 0.0
        if not isinstance(node.meta["value"], Tensor):
            return self._of_number(node)
        self._check_in_place(node)
        if node.op == "call_module":
            return self._of_module(node)
        rules: Any = _METHODS if node.op == "call_method" else _FUNCTIONS
        if node.target not in rules:
            raise _unknown(node)
        try:
            return float(rules[node.target](self, node))
        except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise _unknown(node) from error

    def _of_number(self, node: fx.Node) -> float:
        """Shapes do not depend on the input; other numbers that come from a tensor do."""
        of_shapes = node.target in ("size", "dim", getattr)
        if of_shapes or not any(isinstance(one.meta["value"], Tensor) for one in node.all_input_nodes):
            return 0.0
        raise _unknown(node)

    def _check_in_place(self, node: fx.Node) -> None:
        """What is changed in place must not be read afterwards under an older name."""
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        module = self.modules.get(str(node.target)) if node.op == "call_module" else None
        flagged = (
            node.kwargs.get("inplace") or getattr(module, "inplace", False) or any(one is True for one in node.args)
        )
        if not (flagged or name in _IN_PLACE or (node.op == "call_method" and name.endswith("_"))):
            return
        memory = _memory(node.args[0])
        nodes = list(self.traced.graph.nodes)
        here = nodes.index(node)
        older = [one for one in nodes[:here] if _memory(one) == memory]
        if any(nodes.index(user) > here for one in older for user in one.users):
            raise ModelError(f"no Lipschitz bound is known for {node.name}: it changes a value that is used again")

    def _of_module(self, node: fx.Node) -> float:
        module, name = self.modules[str(node.target)], str(node.target)
        if len(node.args) != 1 or node.kwargs or not isinstance(node.args[0], fx.Node):
            raise _unknown_layer(name, f"{type(module).__name__} with several arguments")
        before = node.args[0]
        own = _checks.known_lipschitz(module)
        if own is not None:
            return self.of(before) * own
        if isinstance(module, _NORMS):
            return self._of_normalisation(before, module, name)
        for kinds, constant in _LAYERS.items():
            if isinstance(module, kinds):
                return self.of(before) * constant(module, _shape(before), name)
        raise _unknown_layer(name, type(module).__name__)

    def _of_normalisation(self, before: fx.Node, module: Any, name: str) -> float:
        """Its scale; together with the layer before it where that serves nothing else, which is tighter."""
        if module.running_var is None:
            raise _unknown_layer(name, f"{type(module).__name__} without running statistics")
        scale = torch.rsqrt(module.running_var.detach().double() + module.eps)
        if module.weight is not None:
            scale = scale * module.weight.detach().double()
        inner = self.modules.get(str(before.target)) if before.op == "call_module" and len(before.users) == 1 else None
        rows = isinstance(inner, nn.Conv2d) or (isinstance(inner, nn.Linear) and len(_shape(before)) == 2)
        if rows:
            taken = before.args[0]
            return self.of(taken) * _linear(inner, _shape(taken), str(before.target), scale)
        return self.of(before) * of_matrix(torch.diag(scale))


def _unknown(node: fx.Node) -> ModelError:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    return ModelError(
        f"no Lipschitz bound is known for the function {name} ({node.name}) as it is called; give the constant yourself"
    )


def _unknown_layer(name: str, kind: str) -> ModelError:
    return ModelError(f"no Lipschitz bound is known for the layer {name} ({kind}); give the constant yourself")


def _memory(node: Any) -> int | None:
    """Where the value of a step is kept."""
    value = node.meta["value"] if isinstance(node, fx.Node) else None
    return value.untyped_storage().data_ptr() if isinstance(value, Tensor) else None


def _shape(node: Any) -> tuple[int, ...]:
    return tuple(node.meta["value"].shape)


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


# ---- layers

_Layer = Callable[[Any, tuple[int, ...], str], float]


def _linear(layer: Any, shape: tuple[int, ...], name: str, scale: Tensor | None = None) -> float:
    """Of a linear or convolutional layer, each row of it scaled."""
    weight = layer.weight.detach().double()
    if scale is not None:
        weight = weight * scale.to(weight).view(-1, *[1] * (weight.dim() - 1))
    if isinstance(layer, nn.Linear):
        return of_matrix(weight)
    grid, padding = (shape[-2], shape[-1]), _padding(layer)
    options = {"stride": layer.stride, "dilation": layer.dilation, "groups": layer.groups}
    if layer.padding_mode == "circular":
        extents = [1 + step * (size - 1) for step, size in zip(layer.dilation, layer.kernel_size, strict=True)]
        whole = all(side % step == 0 for side, step in zip(grid, layer.stride, strict=True))
        around = all(2 * edge == extent - 1 for edge, extent in zip(padding, extents, strict=True))
        fits = all(extent <= side for extent, side in zip(extents, grid, strict=True))
        if not (whole and around and fits):
            raise _unknown_layer(name, "a circular convolution that does not wrap evenly")
        return of_convolution(weight, grid, unrolled=0, **options)
    if layer.padding_mode != "zeros":
        raise _unknown_layer(name, f"a convolution with padding {layer.padding_mode!r}")
    return of_convolution(weight, grid, padding=padding, **options)


def _padding(layer: Any) -> tuple[int, int]:
    if layer.padding == "same":
        extents = zip(layer.dilation, layer.kernel_size, strict=True)
        down, across = (math.ceil(step * (size - 1) / 2) for step, size in extents)
        return down, across
    return (0, 0) if layer.padding == "valid" else _pair(layer.padding)


def _average(layer: Any, shape: tuple[int, ...], name: str) -> float:
    """A convolution of each channel with equal weights."""
    if layer.ceil_mode or (layer.padding not in (0, (0, 0)) and not layer.count_include_pad):
        raise _unknown_layer(name, "AvgPool2d whose windows are not all alike")
    size = _pair(layer.kernel_size)
    share = 1 / (layer.divisor_override or math.prod(size))
    kernel = torch.full((1, 1, *size), share, dtype=torch.float64)
    stride = _pair(layer.stride or layer.kernel_size)
    return of_convolution(kernel, (shape[-2], shape[-1]), stride=stride, padding=_pair(layer.padding))


def _adaptive_average(layer: Any, shape: tuple[int, ...], name: str) -> float:
    sides = shape[-2:]
    asked = (layer.output_size,) * 2 if isinstance(layer.output_size, int) else layer.output_size
    wanted = [side if out is None else out for side, out in zip(sides, asked, strict=True)]
    if any(side % out for side, out in zip(sides, wanted, strict=True)):
        raise _unknown_layer(name, "AdaptiveAvgPool2d whose windows overlap")
    return math.sqrt(math.prod(wanted) / math.prod(sides))


def _largest(layer: Any, shape: tuple[int, ...], name: str) -> float:
    """The square root of in how many windows a pixel can be."""
    if _pair(layer.dilation) != (1, 1):
        raise _unknown_layer(name, "MaxPool2d with dilation")
    sizes, strides = _pair(layer.kernel_size), _pair(layer.stride or layer.kernel_size)
    return math.sqrt(math.prod(math.ceil(size / step) for size, step in zip(sizes, strides, strict=True)))


def _softplus(layer: Any, shape: tuple[int, ...], name: str) -> float:
    if layer.threshold < 20 or layer.beta <= 0:  # it jumps where it becomes linear
        raise _unknown_layer(name, "Softplus with a low threshold")
    return 1.0


def _celu(layer: Any, shape: tuple[int, ...], name: str) -> float:
    if layer.alpha <= 0:
        raise _unknown_layer(name, "CELU with a negative alpha")
    return 1.0


def _at_most(constant: float) -> _Layer:
    return lambda layer, shape, name: constant


_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_ONE = (
    nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout, nn.Dropout2d, nn.ZeroPad2d, nn.PixelShuffle, nn.PixelUnshuffle,
    nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.Tanh, nn.Softsign, nn.LogSigmoid, nn.Softshrink,
)  # fmt: skip
_LAYERS: dict[tuple[type[nn.Module], ...], _Layer] = {
    (nn.Linear, nn.Conv2d): _linear,
    (nn.AvgPool2d,): _average,
    (nn.AdaptiveAvgPool2d,): _adaptive_average,
    (nn.MaxPool2d,): _largest,
    _ONE: _at_most(1.0),
    (nn.Sigmoid,): _at_most(0.25),
    (nn.Hardsigmoid,): _at_most(1 / 6),
    (nn.Hardswish,): _at_most(1.5),
    (nn.SELU,): _at_most(1.7581),  # scale · alpha
    (nn.GELU,): _at_most(1.13),  # its largest slope is 1.1289…
    (nn.SiLU, nn.Mish): _at_most(1.1),  # 1.0998… and 1.0884…
    (nn.LeakyReLU,): lambda layer, shape, name: max(1.0, abs(layer.negative_slope)),
    (nn.ELU,): lambda layer, shape, name: max(1.0, abs(layer.alpha)),
    (nn.PReLU,): lambda layer, shape, name: max(1.0, float(layer.weight.detach().abs().max())),
    (nn.Softplus,): _softplus,
    (nn.CELU,): _celu,
}


# ---- functions

_Function = Callable[[_Bounds, fx.Node], float]


def _settings(node: fx.Node) -> tuple[list[Any], dict[str, Any]]:
    """The arguments after the first, with shapes and the like as numbers; one that is a tensor is refused."""

    def plain(one: fx.Node) -> Any:
        value = one.meta["value"]
        if isinstance(value, Tensor):
            raise TypeError("a setting that is a tensor")
        return value

    return list(fx.map_arg(node.args[1:], plain)), dict(fx.map_arg(node.kwargs, plain))


def _scaled(constant: float) -> _Function:
    def of(bounds: _Bounds, node: fx.Node) -> float:
        _settings(node)
        return constant * bounds.of(node.args[0])

    return of


def _sum(bounds: _Bounds, node: fx.Node) -> float:
    """Each as often as it is spread over the result."""
    if node.kwargs or len(node.args) != 2:
        raise ValueError("other arguments than two values")
    total, size = 0.0, math.prod(_shape(node))
    for argument in node.args:
        constant = bounds.of(argument)
        if constant:
            total += constant * math.sqrt(size / math.prod(_shape(argument)))
    return total


def _times(bounds: _Bounds, node: fx.Node) -> float:
    """By a number."""
    first, second = node.args
    divides = node.target in (operator.truediv, torch.div, "div")
    if isinstance(first, (int, float)) and not divides:
        first, second = second, first
    if isinstance(second, fx.Node) and not isinstance(second.meta["value"], Tensor):
        second = second.meta["value"]
    if not isinstance(first, fx.Node) or not isinstance(second, (int, float)) or node.kwargs:
        raise TypeError("a product of values")
    return bounds.of(first) * (1 / abs(second) if divides else abs(second))


def _side_by_side(bounds: _Bounds, node: fx.Node) -> float:
    values = node.args[0]
    if not isinstance(values, (tuple, list)):
        raise TypeError("not a list of values")
    return bounds.of(values)


def _part(bounds: _Bounds, node: fx.Node) -> float:
    """A slice."""
    (places,), _ = _settings(node)
    places = places if isinstance(places, tuple) else (places,)
    if not all(place is None or place is Ellipsis or isinstance(place, (slice, int)) for place in places):
        raise TypeError("an index that may take a pixel twice")
    return bounds.of(node.args[0])


def _padded(bounds: _Bounds, node: fx.Node) -> float:
    settings, named = _settings(node)
    mode = settings[1] if len(settings) > 1 else named.get("mode", "constant")
    if mode != "constant":
        raise ValueError("padding that repeats pixels")
    return bounds.of(node.args[0])


def _mean(bounds: _Bounds, node: fx.Node) -> float:
    _settings(node)
    before, after = _shape(node.args[0]), _shape(node)
    if before[:1] != after[:1]:
        raise ValueError("a mean over the batch")
    return bounds.of(node.args[0]) * math.sqrt(math.prod(after) / math.prod(before))


def _dropped(bounds: _Bounds, node: fx.Node) -> float:
    settings, named = _settings(node)
    if (settings[1] if len(settings) > 1 else named.get("training", True)) is not False:
        raise ValueError("it is random in eval mode too")
    return bounds.of(node.args[0])


def _as_layer(layer: type[nn.Module], constant: _Layer) -> _Function:
    """A function with the arguments of a layer."""

    def of(bounds: _Bounds, node: fx.Node) -> float:
        settings, named = _settings(node)
        return bounds.of(node.args[0]) * constant(layer(*settings, **named), _shape(node.args[0]), node.name)

    return of


_IN_PLACE = ("iadd", "isub", "imul", "itruediv")
_ONE_TO_ONE = _scaled(1.0)
_SAME = ("flatten", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "relu", "relu_", "tanh", "clamp", "neg")
_METHODS: dict[str, _Function] = {
    **dict.fromkeys((*_SAME, "view", "contiguous", "float", "double", "clone"), _ONE_TO_ONE),
    "sigmoid": _scaled(0.25),
    **dict.fromkeys(("add", "add_", "sub", "sub_"), _sum),
    **dict.fromkeys(("mul", "mul_", "div"), _times),
    "mean": _mean,
}
_FUNCTIONS: dict[Callable[..., Any], _Function] = {
    **{getattr(torch, name): _ONE_TO_ONE for name in _SAME},
    **dict.fromkeys(
        (functional.relu, functional.relu_, functional.relu6, functional.hardtanh, functional.tanh, operator.neg,
         functional.pixel_shuffle, functional.pixel_unshuffle), _ONE_TO_ONE,
    ),
    **dict.fromkeys((torch.sigmoid, functional.sigmoid), _scaled(0.25)),
    functional.gelu: _scaled(1.13),
    functional.silu: _scaled(1.1),
    **dict.fromkeys((operator.add, operator.iadd, operator.sub, operator.isub, torch.add, torch.sub), _sum),
    **dict.fromkeys((operator.mul, operator.truediv, operator.imul, torch.mul, torch.div), _times),
    torch.cat: _side_by_side,
    operator.getitem: _part,
    functional.pad: _padded,
    torch.mean: _mean,
    functional.dropout: _dropped,
    functional.avg_pool2d: _as_layer(nn.AvgPool2d, _average),
    functional.adaptive_avg_pool2d: _as_layer(nn.AdaptiveAvgPool2d, _adaptive_average),
    functional.max_pool2d: _as_layer(nn.MaxPool2d, _largest),
    functional.leaky_relu: _as_layer(nn.LeakyReLU, _LAYERS[(nn.LeakyReLU,)]),
    functional.elu: _as_layer(nn.ELU, _LAYERS[(nn.ELU,)]),
    functional.softplus: _as_layer(nn.Softplus, _softplus),
}  # fmt: skip
