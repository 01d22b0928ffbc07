"""A certified upper bound of the Lipschitz constant of a plain network, in the Euclidean norm.

The network is traced, and each step of it bounds the constant of its result by those of what it takes: a product along
a chain, a sum where branches are added. What is not known to be Lipschitz is refused by name.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.passes.shape_prop import ShapeProp

from lvmrs.errors import ModelError, first_line
from lvmrs.models.norms import of_convolution, of_matrix
from lvmrs.models.preprocessing import Preprocessed

__all__ = ["lipschitz_bound"]


def lipschitz_bound(model: nn.Module, shape: Sequence[int]) -> float:
    """A bound for inputs of that shape (no batch dimension), of the model in eval mode."""
    known = getattr(model, "lipschitz", None)
    if known is not None:
        return float(known)
    if isinstance(model, Preprocessed):
        if model.size is not None:
            raise ModelError("the model resizes its inputs, for which no Lipschitz bound is known")
        inner = _as_module(model.model)
        return lipschitz_bound(inner, shape) / float(model.std.min())
    training = model.training
    model.eval()
    try:
        return _Bounds(_traced(model, shape)).of_output()
    finally:
        model.train(training)


def _as_module(model: object) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise ModelError("the model is not a torch module, so its layers cannot be seen")
    return model


class _Tracer(fx.Tracer):
    """Modules that know their own constant are not looked into."""

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return getattr(module, "lipschitz", None) is not None or super().is_leaf_module(module, name)


def _traced(model: nn.Module, shape: Sequence[int]) -> fx.GraphModule:
    like = next(iter(model.parameters()), torch.zeros(()))
    some = torch.zeros(2, *shape, dtype=like.dtype, device=like.device)
    try:
        with torch.no_grad():
            model(some)
    except Exception as error:  # whatever the user's forward pass raises
        raise ModelError(f"the network fails on inputs of shape {tuple(shape)}: {first_line(error)}") from error
    try:
        traced = fx.GraphModule(model, _Tracer().trace(model))
    except Exception as error:  # tracing raises whatever a forward pass makes of a value that is not there
        reason = first_line(error)
        raise ModelError(f"the network cannot be traced, so no Lipschitz bound is known: {reason}") from error
    with torch.no_grad():
        ShapeProp(traced).propagate(some)
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
                return self.of(node.args[0])
            self.constants[node] = self._of(node)
        raise ModelError("the network answers with nothing")

    def _of(self, node: fx.Node) -> float:
        if node.op == "placeholder":
            return 1.0
        if node.op == "get_attr":
            return 0.0
        if "tensor_meta" not in node.meta:
            return 0.0  # a number, such as a size
        if node.op == "call_module":
            return self._of_module(node)
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
        if name not in _FUNCTIONS:
            raise ModelError(f"no Lipschitz bound is known for the function {name} in the network")
        return _FUNCTIONS[name](self, node)

    def _of_module(self, node: fx.Node) -> float:
        module, name = self.modules[str(node.target)], str(node.target)
        before = node.args[0]
        own = getattr(module, "lipschitz", None)
        if own is not None:
            return self.of(before) * float(own)
        if isinstance(module, _NORMS):
            return self._of_normalisation(before, module, name)
        for kinds, constant in _LAYERS.items():
            if isinstance(module, kinds):
                return self.of(before) * constant(module, _shape(before), name)
        raise _unknown(name, type(module).__name__)

    def _of_normalisation(self, before: Any, module: Any, name: str) -> float:
        """Its scale; together with the layer before it where that serves nothing else, which is tighter."""
        if module.running_var is None:
            raise _unknown(name, f"{type(module).__name__} without running statistics")
        scale = torch.rsqrt(module.running_var.detach().double() + module.eps)
        if module.weight is not None:
            scale = scale * module.weight.detach().double()
        inner = self.modules.get(str(before.target)) if before.op == "call_module" and len(before.users) == 1 else None
        if isinstance(inner, (nn.Conv2d, nn.Linear)):
            taken = before.args[0]
            return self.of(taken) * _linear(inner, _shape(taken), str(before.target), scale)
        return self.of(before) * float(scale.abs().max())

    def of(self, argument: Any) -> float:
        """Of an argument: a value, several side by side, or something fixed."""
        if isinstance(argument, fx.Node):
            return self.constants[argument]
        if isinstance(argument, (tuple, list)):
            return math.sqrt(sum(self.of(one) ** 2 for one in argument))
        return 0.0


def _unknown(name: str, kind: str) -> ModelError:
    return ModelError(f"no Lipschitz bound is known for the layer {name} ({kind}); give the constant yourself")


def _shape(argument: Any) -> tuple[int, ...]:
    return tuple(argument.meta["tensor_meta"].shape)


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


def _linear(layer: Any, shape: tuple[int, ...], name: str, scale: Tensor | None = None) -> float:
    """Of a linear or convolutional layer, each row of it scaled."""
    weight = layer.weight.detach().double()
    if scale is not None:
        weight = weight * scale.to(weight).view(-1, *[1] * (weight.dim() - 1))
    if isinstance(layer, nn.Linear):
        return of_matrix(weight)
    grid, padding = (shape[-2], shape[-1]), _padding(layer)
    if layer.padding_mode == "circular":
        around = zip(padding, layer.dilation, layer.kernel_size, strict=True)
        evenly = all(side % step == 0 for side, step in zip(grid, layer.stride, strict=True))
        if not evenly or any(2 * edge != step * (size - 1) for edge, step, size in around):
            raise _unknown(name, "a circular convolution that does not wrap evenly")
        return of_convolution(
            weight, grid, stride=layer.stride, dilation=layer.dilation, groups=layer.groups, unrolled=0
        )
    if layer.padding_mode != "zeros":
        raise _unknown(name, f"a convolution with padding {layer.padding_mode!r}")
    return of_convolution(
        weight, grid, stride=layer.stride, padding=padding, dilation=layer.dilation, groups=layer.groups
    )


def _padding(layer: Any) -> tuple[int, int]:
    if layer.padding == "same":
        down, across = (
            math.ceil(step * (size - 1) / 2) for step, size in zip(layer.dilation, layer.kernel_size, strict=True)
        )
        return down, across
    return (0, 0) if layer.padding == "valid" else _pair(layer.padding)


def _average(layer: Any, shape: tuple[int, ...], name: str) -> float:
    """A convolution of each channel with equal weights."""
    if layer.ceil_mode or (layer.padding not in (0, (0, 0)) and not layer.count_include_pad):
        raise _unknown(name, "AvgPool2d whose windows are not all alike")
    size = _pair(layer.kernel_size)
    share = 1 / (layer.divisor_override or math.prod(size))
    kernel = torch.full((1, 1, *size), share, dtype=torch.float64)
    stride = _pair(layer.stride or layer.kernel_size)
    return of_convolution(kernel, (shape[-2], shape[-1]), stride=stride, padding=_pair(layer.padding))


def _adaptive_average(layer: Any, shape: tuple[int, ...], name: str) -> float:
    size = layer.output_size
    wanted = [
        side if out is None else out
        for side, out in zip(shape[-2:], (size, size) if isinstance(size, int) else size, strict=True)
    ]
    if any(side % out for side, out in zip(shape[-2:], wanted, strict=True)):
        raise _unknown(name, "AdaptiveAvgPool2d whose windows overlap")
    return math.sqrt(math.prod(wanted) / math.prod(shape[-2:]))


def _largest(layer: Any, shape: tuple[int, ...], name: str) -> float:
    """The square root of in how many windows a pixel can be."""
    if _pair(layer.dilation) != (1, 1):
        raise _unknown(name, "MaxPool2d with dilation")
    sizes, strides = _pair(layer.kernel_size), _pair(layer.stride or layer.kernel_size)
    return math.sqrt(math.prod(math.ceil(size / step) for size, step in zip(sizes, strides, strict=True)))


_Layer = Callable[[Any, tuple[int, ...], str], float]


def _at_most(constant: float) -> _Layer:
    return lambda layer, shape, name: constant


_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_ONE = (
    nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout, nn.Dropout2d, nn.ZeroPad2d, nn.PixelShuffle, nn.PixelUnshuffle,
    nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.Tanh, nn.Softplus, nn.Softsign, nn.LogSigmoid, nn.Softshrink,
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
    (nn.ELU, nn.CELU): lambda layer, shape, name: max(1.0, layer.alpha),
    (nn.PReLU,): lambda layer, shape, name: max(1.0, float(layer.weight.detach().abs().max())),
}

_Function = Callable[[_Bounds, fx.Node], float]


def _scaled(constant: float) -> _Function:
    return lambda bounds, node: constant * bounds.of(node.args[0])


def _sum(bounds: _Bounds, node: fx.Node) -> float:
    if node.kwargs:
        raise ModelError(f"no Lipschitz bound is known for {node.name} with {', '.join(node.kwargs)}")
    return sum(bounds.of(argument) for argument in node.args)


def _times(bounds: _Bounds, node: fx.Node) -> float:
    """By a number."""
    first, second = node.args
    if isinstance(first, (int, float)) and node.target is not operator.truediv:
        first, second = second, first
    if not isinstance(second, (int, float)) or isinstance(first, (int, float)):
        raise ModelError(f"no Lipschitz bound is known for {node.name}: only products with numbers have one")
    factor = abs(second) if "mul" in str(node.name) else 1 / abs(second)
    return factor * bounds.of(first)


def _part(bounds: _Bounds, node: fx.Node) -> float:
    """A slice."""
    places = node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)
    if not all(place is None or place is Ellipsis or isinstance(place, (slice, int)) for place in places):
        raise ModelError(f"no Lipschitz bound is known for {node.name}: only slices have one")
    return bounds.of(node.args[0])


def _padded(bounds: _Bounds, node: fx.Node) -> float:
    if (len(node.args) > 2 and node.args[2] != "constant") or node.kwargs.get("mode", "constant") != "constant":
        raise ModelError(f"no Lipschitz bound is known for {node.name}: only padding with a constant has one")
    return bounds.of(node.args[0])


def _mean(bounds: _Bounds, node: fx.Node) -> float:
    before, after = math.prod(_shape(node.args[0])), math.prod(_shape(node))
    return bounds.of(node.args[0]) * math.sqrt(after / before)


def _reshaped_by(layer: type[nn.Module], constant: _Layer) -> _Function:
    """A function with the arguments of a layer."""

    def of(bounds: _Bounds, node: fx.Node) -> float:
        made = layer(*node.args[1:], **node.kwargs)
        return bounds.of(node.args[0]) * constant(made, _shape(node.args[0]), node.name)

    return of


_SAME = (
    "flatten", "view", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "contiguous", "relu", "relu_", "tanh",
    "relu6", "hardtanh", "softplus", "dropout", "float", "clone", "neg", "pixel_shuffle", "pixel_unshuffle", "clamp",
)  # fmt: skip
_FUNCTIONS: dict[str, _Function] = {
    **dict.fromkeys(_SAME, _scaled(1.0)),
    "sigmoid": _scaled(0.25),
    "gelu": _scaled(1.13),
    "silu": _scaled(1.1),
    **dict.fromkeys(("add", "add_", "iadd", "sub"), _sum),
    **dict.fromkeys(("mul", "truediv"), _times),
    "cat": _scaled(1.0),
    "getitem": _part,
    "pad": _padded,
    "mean": _mean,
    "avg_pool2d": _reshaped_by(nn.AvgPool2d, _average),
    "adaptive_avg_pool2d": _reshaped_by(nn.AdaptiveAvgPool2d, _adaptive_average),
    "max_pool2d": _reshaped_by(nn.MaxPool2d, _largest),
}
