"""Lipschitz constants of layers and functions, in the Euclidean norm and in eval mode.

The rule of a layer takes the layer, an example of its inputs and its name. It raises ModelError for settings for which
no bound is known, or for which torch's function differs from the bounded function by more than a few roundings of its
input (``tests/models/test_activations.py`` measures this).

The rules hold for layers whose class is exactly one of torch's, or the class that torch's own parametrizations make of
one; for which calling the layer runs ``forward`` of its class and nothing else; and whose settings and weights are
plain numbers and tensors. For all other layers, ModelError names the layer.

Layers of deel-torchlip and orthogonium are bounded from their effective weights and not from what the libraries state.
A linear or convolutional layer is compared with torch's own layer of the same weights and settings, and an activation
or centering with a reference written here. If the outputs for the example inputs are equal up to rounding, in float32
and in float64, the layer has the bound of torch's layer, or the proved constant of the reference.

The rule of a tensor function or method takes a function that looks up the constant of a value, and the node of the
call. If such a rule raises an error, for example for an unexpected argument, then no bound is known.
"""

from __future__ import annotations

import copy
import inspect
import math
import operator
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from types import EllipsisType, NoneType
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from lvmrs.errors import ModelError, guarded
from lvmrs.models.lipschitz.norms import finite, of_convolution, of_matrix, product
from lvmrs.models.lipschitz.stated import changed_module, changed_process, hooks_on

NORMALISATIONS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_Layer = Callable[[Any, Tensor, str], float]
# Torch's own parametrizations compute a weight from stored tensors only, in eval mode.
_PARAMETRIZATIONS = tuple(getattr(parametrizations, name) for name in ("_SpectralNorm", "_WeightNorm", "_Orthogonal"))
# The older form of two of them: hooks that set the weight before each forward pass.
_WEIGHT_HOOKS = (WeightNorm, SpectralNorm)
_WEIGHTS = ("weight", "bias", "running_mean", "running_var")


def unknown_layer(name: str, kind: str) -> ModelError:
    """The error that says that no bound is known for this layer."""
    return ModelError(f"no Lipschitz bound is known for the layer {name} ({kind}); give the constant yourself")


def kind_of(layer: nn.Module) -> type[nn.Module]:
    """The class of a layer; for a layer with parametrizations, its class before they were registered."""
    kind = type(layer)
    base = kind.__bases__[0]
    here = kind.__module__ == parametrize.__name__ or (
        kind.__module__ == "abc" and is_of_library(base)
    )  # abstract class
    return base if here and len(kind.__bases__) == 1 and parametrize.is_parametrized(layer) else kind


def is_of_torch(module: nn.Module) -> bool:
    """Whether the class of a module is from torch. Such modules are not traced: they have a rule or raise an error."""
    return type(module).__module__.partition(".")[0] == torch.__name__


def check_network(model: nn.Module, stated: Collection[int], others: Iterable[tuple[str, nn.Module]]) -> None:
    """Raise if calling a module of the network runs other code than ``forward`` of its class.

    ``stated`` are the ids of the modules that state a constant. They may run any code, but must not have hooks, which
    the constant does not cover. ``others`` are the modules that are not inside one of these, with their names.
    """
    if (fault := changed_process()) is not None:
        raise ModelError(f"no Lipschitz bound is known for any network now: {fault}")
    for name, module in others:
        fault = changed_module(module, _WEIGHT_HOOKS if is_of_torch(module) else ())
        if fault is not None:
            raise ModelError(
                f"no Lipschitz bound is known for the layer {name or 'itself'}: {fault} "
                f"({type(module).__name__}); undo this, or give the constant yourself"
            )
    for name, module in model.named_modules():
        fault = hooks_on(module) if id(module) in stated else None
        if fault is not None:
            raise unknown_layer(name, f"{type(module).__name__}: {fault}")


def _check_layer(layer: nn.Module, name: str) -> None:
    """Raise if a layer of a known class, which runs ``forward`` of its class, may compute another function."""
    for fault in _faults(layer):
        raise unknown_layer(name, f"{kind_of(layer).__name__}: {fault}")


def _parametrization_faults(layer: Any) -> Iterator[str]:
    parametrized = {} if kind_of(layer) is type(layer) else layer.parametrizations
    for name, steps in parametrized.items():
        for step in [steps] if type(steps) is not parametrize.ParametrizationList else steps:
            if type(step) not in _PARAMETRIZATIONS and not is_of_library(type(step)):
                by = type(step).__name__
                yield f"its {name} is parametrized by {by}, which is not torch's own: remove_parametrizations fixes it"


def _faults(layer: Any) -> Iterator[str]:
    """Parametrizations, settings, weights and hooks of a layer that the rules do not cover."""
    yield from _parametrization_faults(layer)
    for name, value in vars(layer).items():
        own = not name.startswith("_") or name == "_reversed_padding_repeated_twice"
        if own and name not in _WEIGHTS and not is_plain(value):
            yield f"its {name} is not a plain number"
    for name in _WEIGHTS:
        weight = getattr(layer, name, None)
        if weight is None or (name == "bias" and isinstance(weight, bool)):
            continue
        if not isinstance(weight, Tensor) or not weight.is_floating_point():
            yield f"its {name} is not a tensor of floating-point numbers"
    for hook in layer._forward_pre_hooks.values():
        if "compute_weight" in vars(hook):
            yield f"its hook {type(hook).__name__} was changed"
        if hook.name not in _WEIGHTS:
            yield f"its hook {type(hook).__name__} changes {hook.name}"


def is_plain(value: object) -> bool:
    """Whether a setting has a type that the rules cover: a number, a text, an index, or several of them."""
    if type(value) in (tuple, list, torch.Size):
        return all(map(is_plain, value))  # type: ignore[call-overload]
    if type(value) is slice:
        return all(map(is_plain, (value.start, value.stop, value.step)))
    return type(value) in (int, float, bool, str, NoneType, EllipsisType, torch.memory_format) and value == value


def of_layer(layer: nn.Module, inputs: Tensor, name: str, scale: Tensor | None = None) -> float:
    """A bound on the constant of a layer that is not a normalisation; raises ModelError for a layer without a rule.

    A batch of its inputs gives shape and precision. ``scale`` multiplies the outputs of a linear or convolutional
    layer.
    """
    kind = kind_of(layer)
    rule = LAYERS.get(kind) if scale is None or kind in (nn.Linear, nn.Conv2d) else None
    if scale is None and is_of_library(kind):
        rule = _of_library
    if rule is None:
        raise unknown_layer(name, kind.__name__)
    if rule is not _of_library:
        _check_layer(layer, name)
    if (parametrize.is_parametrized(layer) or rule is _of_library) and inputs.dtype != torch.float64:
        # The weight is another one in float64, in which certificates compare the network with itself.
        with guarded(f"no Lipschitz bound is known for the layer {name}: it fails in float64", error=ModelError):
            exact = _bound(rule, copy.deepcopy(layer).double(), inputs.double(), name, scale)
        return max(_bound(rule, layer, inputs, name, scale), exact)
    return _bound(rule, layer, inputs, name, scale)


def _bound(rule: _Layer, layer: nn.Module, inputs: Tensor, name: str, scale: Tensor | None) -> float:
    kind = kind_of(layer)
    try:
        return rule(layer, inputs, name) if scale is None else _linear(layer, inputs, name, scale)
    except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise unknown_layer(name, f"{kind.__name__} as it is set up") from error


def _of_library(layer: nn.Module, inputs: Tensor, name: str) -> float:
    """A bound on the constant of a layer of another library, which must compute what the bounded function computes."""
    kind = kind_of(layer)
    if (fault := next(_parametrization_faults(layer), None)) is not None:
        raise unknown_layer(name, f"{kind.__name__}: {fault}")
    if (same := equivalent(layer, kind)) is None:
        raise unknown_layer(name, kind.__name__)
    function, constant = same
    with torch.no_grad():
        found, expected = layer(inputs), function(inputs)
    rounding = 1e3 * torch.finfo(inputs.dtype).eps * expected.abs().max()
    if found.shape != expected.shape or not bool(((found - expected).abs() <= rounding).all()):
        raise unknown_layer(name, f"{kind.__name__}, whose result is not that of {function}")
    return of_layer(function, inputs, name) if isinstance(function, nn.Module) else constant


def normalisation_scale(layer: Any, name: str) -> Tensor:
    """The factors by which a normalisation multiplies the channels."""
    _check_layer(layer, name)
    if layer.running_var is None:
        raise unknown_layer(name, f"{type(layer).__name__} without running statistics")
    variance = layer.running_var.detach()
    least = torch.finfo(torch.promote_types(variance.dtype, torch.float32)).tiny
    if layer.eps < 0 or not bool(((variance >= 0) & (variance.double() + layer.eps >= least)).all()):
        raise unknown_layer(name, f"{type(layer).__name__} whose variance is negative, or too small with its eps")
    scale = torch.rsqrt(variance.double() + layer.eps)
    return scale if layer.weight is None else scale * layer.weight.detach().double()


def _linear(layer: Any, inputs: Tensor, name: str, scale: Tensor | None = None) -> float:
    """A bound on the constant of a linear or convolutional layer; ``scale`` multiplies its outputs."""
    weight = layer.weight.detach().double()
    if scale is not None:
        weight = weight * scale.to(weight).view(-1, *[1] * (weight.dim() - 1))
    if kind_of(layer) is nn.Linear:
        return of_matrix(weight)
    if inputs.dim() != 4:
        raise unknown_layer(name, "a convolution of inputs that are not images")
    grid, padding, kernel = (inputs.shape[-2], inputs.shape[-1]), _padding(layer), weight.shape[-2:]
    options = {"stride": layer.stride, "dilation": layer.dilation, "groups": layer.groups}
    if layer.padding_mode == "circular":
        extents = [1 + step * (size - 1) for step, size in zip(layer.dilation, kernel, strict=True)]
        whole = all(side % step == 0 for side, step in zip(grid, layer.stride, strict=True))
        # With less padding, rows are missing from the matrix of the convolution that wraps around.
        around = all(2 * edge <= extent - 1 for edge, extent in zip(padding, extents, strict=True))
        around = around and list(layer._reversed_padding_repeated_twice) == [*[padding[1]] * 2, *[padding[0]] * 2]
        fits = all(extent <= side for extent, side in zip(extents, grid, strict=True))
        if not (whole and around and fits):
            raise unknown_layer(name, "a circular convolution that does not wrap evenly")
        return of_convolution(weight, grid, unrolled=0, **options)
    if layer.padding_mode != "zeros":
        raise unknown_layer(name, f"a convolution with padding {layer.padding_mode!r}")
    return of_convolution(weight, grid, padding=padding, **options)


def _pair(value: Any) -> tuple[int, int]:
    sides = (value,) if isinstance(value, int) else tuple(value)
    down, across = sides * 2 if len(sides) == 1 else sides
    return down, across


def _padding(layer: Any) -> tuple[int, int]:
    if layer.padding == "same":
        extents = zip(layer.dilation, layer.weight.shape[-2:], strict=True)
        down, across = (math.ceil(step * (size - 1) / 2) for step, size in extents)
        return down, across
    return (0, 0) if layer.padding == "valid" else _pair(layer.padding)


def _average(layer: Any, inputs: Tensor, name: str) -> float:
    """The constant of average pooling, a convolution of each channel with equal weights."""
    if layer.ceil_mode or (layer.padding not in (0, (0, 0)) and not layer.count_include_pad):
        raise unknown_layer(name, "AvgPool2d whose windows are not all alike")
    size = _pair(layer.kernel_size)
    share = 1 / (layer.divisor_override or math.prod(size))
    kernel = torch.full((1, 1, *size), share, dtype=torch.float64)
    stride = _pair(layer.stride or layer.kernel_size)
    return of_convolution(kernel, (inputs.shape[-2], inputs.shape[-1]), stride=stride, padding=_pair(layer.padding))


def _adaptive_average(layer: Any, inputs: Tensor, name: str) -> float:
    sides = inputs.shape[-2:]
    wanted = [side if out is None else out for side, out in zip(sides, _pair(layer.output_size), strict=True)]
    if any(side % out for side, out in zip(sides, wanted, strict=True)):
        raise unknown_layer(name, "AdaptiveAvgPool2d whose windows overlap")
    return math.sqrt(math.prod(wanted) / math.prod(sides))


def _largest(layer: Any, inputs: Tensor, name: str) -> float:
    """The square root of the largest number of windows that contain one pixel."""
    if _pair(layer.dilation) != (1, 1):
        raise unknown_layer(name, "MaxPool2d with dilation")
    sizes, strides = _pair(layer.kernel_size), _pair(layer.stride or layer.kernel_size)
    return math.sqrt(math.prod(math.ceil(size / step) for size, step in zip(sizes, strides, strict=True)))


def _softplus(layer: Any, inputs: Tensor, name: str) -> float:
    """Torch computes log(1 + exp(βx))/β where βx is below the threshold, and x above it.

    For a small β the rounding error is that of log(2)/β, even for a small x. At the threshold t the function jumps by
    exp(−t)/β, and for a large t it overflows below the threshold.
    """
    least, most = (34, 700) if inputs.dtype == torch.float64 else (20, 80)
    if not 0.125 <= layer.beta < math.inf:
        raise unknown_layer(name, f"Softplus with the beta {layer.beta:g}, where torch's rounding is too large")
    if not least <= layer.threshold <= most:
        raise unknown_layer(
            name, f"Softplus with the threshold {layer.threshold:g}, which must be {least} to {most} in {inputs.dtype}"
        )
    return 1.0


def _celu(layer: Any, inputs: Tensor, name: str) -> float:
    if not 0 < layer.alpha < math.inf:
        raise unknown_layer(name, f"CELU with the alpha {layer.alpha:g}")
    return 1.0


def _prelu(layer: Any, inputs: Tensor, name: str) -> float:
    return max(1.0, float(finite(layer.weight.detach()).abs().max()))


def _at_most(constant: float) -> _Layer:
    return lambda layer, inputs, name: constant


_ONE = (
    nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout, nn.Dropout2d, nn.ZeroPad2d, nn.PixelShuffle, nn.PixelUnshuffle,
    nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.Tanh, nn.Softsign, nn.LogSigmoid, nn.Softshrink,
)  # fmt: skip
LAYERS: dict[type[nn.Module], _Layer] = {
    **dict.fromkeys((nn.Linear, nn.Conv2d), _linear),
    nn.AvgPool2d: _average,
    nn.AdaptiveAvgPool2d: _adaptive_average,
    nn.MaxPool2d: _largest,
    **dict.fromkeys(_ONE, _at_most(1.0)),
    nn.Sigmoid: _at_most(0.25),
    nn.Hardsigmoid: _at_most(1 / 6),
    nn.Hardswish: _at_most(1.5),
    nn.SELU: _at_most(1.7581),  # scale · alpha
    nn.GELU: _at_most(1.13),  # its largest slope is 1.1289…
    **dict.fromkeys((nn.SiLU, nn.Mish), _at_most(1.1)),  # 1.0998… and 1.0884…
    nn.LeakyReLU: lambda layer, inputs, name: max(1.0, abs(layer.negative_slope)),
    nn.ELU: lambda layer, inputs, name: max(1.0, abs(layer.alpha)),
    nn.PReLU: _prelu,
    nn.Softplus: _softplus,
    nn.CELU: _celu,
}

# ---------------------------------------------------------------------------------------------------------------------
# Layers of deel-torchlip and orthogonium.

_LIBRARIES = ("deel.torchlip", "orthogonium")
_Reference = Callable[[Any, Tensor], Tensor]
_Function = Callable[[Tensor], Tensor]


def is_of_library(kind: type) -> bool:
    """Whether a class is from one of the two libraries."""
    return any(f"{kind.__module__}.".startswith(f"{library}.") for library in _LIBRARIES)


def equivalent(layer: Any, kind: type) -> tuple[_Function, float] | None:
    """A function that a layer of these libraries should equal, and its constant; None without a rule.

    For a linear or convolutional layer, whose class is ``kind``, the function is torch's layer with the present weights
    and settings, and the constant is infinite: it follows from the weights.
    """
    base = next((base for base in (nn.Linear, nn.Conv2d) if issubclass(kind, base)), None)
    if base is not None:
        wanted = [name for name in inspect.signature(base).parameters if name not in ("bias", "device", "dtype")]
        settings = {name: getattr(layer, name) for name in wanted}
        plain: Any = base(**settings, bias=layer.bias is not None, device="meta")
        plain.weight = nn.Parameter(layer.weight.detach(), requires_grad=False)
        if layer.bias is not None:
            plain.bias = nn.Parameter(layer.bias.detach(), requires_grad=False)
        return plain.eval(), math.inf
    reference = _REFERENCES.get(f"{kind.__module__}.{kind.__qualname__}")
    if reference is None:
        return None
    return partial(reference, layer), abs(float(getattr(layer, "_coefficient_lip", 1.0)))


def _sorted_groups(layer: Any, x: Tensor) -> Tensor:
    """Sorting each group of channels: two sorted lists are at most as far apart as the lists."""
    size = min(layer.group_size or x.shape[1], x.shape[1])
    groups = x.reshape(len(x), x.shape[1] // size, size, *x.shape[2:])
    return groups.sort(dim=2)[0].reshape(x.shape) * float(layer._coefficient_lip)


def _both_signs(layer: Any, x: Tensor) -> Tensor:
    """The positive and the negative part: the squares of their changes add to at most that of x."""
    return torch.cat((x.relu(), (-x).relu()), dim=1) * float(layer._coefficient_lip)


def _sorted_halves(layer: Any, x: Tensor) -> Tensor:
    """Sorting pairs of channels."""
    first, second = torch.split(x, x.shape[layer.axis] // 2, layer.axis)
    larger, smaller = torch.stack((first, second)).sort(dim=0, descending=True)[0]
    return torch.cat((larger, smaller), dim=layer.axis)


_ACTIVATIONS, _LAYERS = "deel.torchlip.modules.activation", "orthogonium.layers"
# Each reference has the constant 1, times the factor ``_coefficient_lip`` of torchlip's layers.
_REFERENCES: dict[str, _Reference] = {
    **dict.fromkeys((f"{_ACTIVATIONS}.{name}" for name in ("GroupSort", "GroupSort2", "FullSort")), _sorted_groups),
    f"{_ACTIVATIONS}.MaxMin": _both_signs,
    f"{_LAYERS}.custom_activations.MaxMin": _sorted_halves,
    f"{_LAYERS}.custom_activations.Abs": lambda layer, x: x.abs(),
    f"{_LAYERS}.normalization.BatchCentering2D": lambda layer, x: x - layer.running_mean + layer.bias,
    # A projection: the means of the channels are subtracted.
    f"{_LAYERS}.normalization.LayerCentering2D": lambda layer, x: x - x.mean(dim=(-2, -1), keepdim=True) + layer.bias,
}


# ---------------------------------------------------------------------------------------------------------------------
# Functions and methods.

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


def _pad(of: _ConstantOf, node: fx.Node) -> float:
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
    functional.pad: _pad,
    torch.mean: _mean,
    functional.dropout: _dropout,
    functional.avg_pool2d: _as_layer(nn.AvgPool2d),
    functional.adaptive_avg_pool2d: _as_layer(nn.AdaptiveAvgPool2d),
    functional.max_pool2d: _as_layer(nn.MaxPool2d),
    functional.leaky_relu: _as_layer(nn.LeakyReLU),
    functional.elu: _as_layer(nn.ELU),
    functional.softplus: _as_layer(nn.Softplus),
}  # fmt: skip
