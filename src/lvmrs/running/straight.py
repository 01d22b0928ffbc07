"""A network as a plain list of steps, each of them a layer or function of torch.

The list is found by running the Python code of the network once with a stand-in for the input. The stand-in knows the
shapes of everything, so that code may look at shapes; code that looks at values is refused. A list of such steps has no
memory and no randomness of its own, so that several threads may run it at once.

The trace misses what the code does for other inputs only. So whoever runs the list compares it with the network.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from lvmrs._as_written import changed_class, changed_module, changed_process, own_code

__all__ = ["NotStraightError", "straightened"]

_CONVOLUTIONS = (
    nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.Linear,
)  # fmt: skip
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm, nn.GroupNorm)
_POOLS = (
    nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AdaptiveAvgPool1d,
    nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d,
)  # fmt: skip
_ACTIVATIONS = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish,
    nn.Hardsigmoid, nn.Hardtanh, nn.Sigmoid, nn.Tanh, nn.Softplus, nn.Softsign, nn.Softmax, nn.LogSoftmax,
)  # fmt: skip
# These may give their input itself, or another view of it.
_VIEWS = (
    nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout,
    nn.ZeroPad2d, nn.ReflectionPad2d, nn.ReplicationPad2d, nn.ConstantPad2d, nn.Upsample, nn.PixelShuffle,
    nn.PixelUnshuffle,
)  # fmt: skip
# Results in memory of their own.
_FRESH_LAYERS = (*_CONVOLUTIONS, *_NORMS, *_POOLS)
_LAYERS = (*_FRESH_LAYERS, *_ACTIVATIONS, *_VIEWS)
_FRESH = (operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, torch.add, torch.sub, torch.mul)
_PYTHON = (getattr, operator.getitem, *vars(operator).values())
_IN_PLACE = (operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.setitem)
# What takes values out of tensors, or draws random numbers.
_REFUSED = (
    "item", "tolist", "numpy", "nonzero", "argwhere", "masked_select", "unique", "bincount", "data_ptr", "storage",
    "rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "randperm", "bernoulli", "multinomial",
    "normal", "poisson", "rrelu", "gumbel_softmax", "set_", "data", "cpu", "cuda",
)  # fmt: skip


class NotStraightError(Exception):
    """A network cannot be shown to be a list of known steps; the message says why, for those who ask."""


def straightened(model: nn.Module, example: Tensor) -> fx.GraphModule:
    """The steps of a network, with its own layers and weights.

    Args:
        model: the network, in eval mode.
        example: a batch of inputs, whose shapes decide what the network does.

    Returns:
        The steps; ``meta["dims"]`` of each has the number of dimensions of its result.
    """
    fault = changed_process()
    if fault is not None:
        raise NotStraightError(fault)
    for name, module in model.named_modules():
        fault = changed_module(module)
        if fault is not None or module.training:
            raise NotStraightError(f"{name or 'the network'}: {fault or 'it is in training mode'}")
    tracer = _Tracer(example)
    root = nn.Sequential(model) if tracer.is_leaf_module(model, "") else model
    before = _attributes(model)
    try:
        graph = tracer.trace(root)
        model(example.clone())
    except Exception as error:  # the user's code may raise anything when it is given a stand-in
        raise NotStraightError(f"it cannot be traced ({error!s:.200})") from error
    if _attributes(model) != before:
        raise NotStraightError("it changes its own attributes when it runs")
    graph.eliminate_dead_code(_is_needed)
    made = fx.GraphModule(root, graph)
    for node in graph.nodes:
        _check(node, made)
        value = node.meta.pop("value", None)
        node.meta["dims"] = value.dim() if isinstance(value, Tensor) else None
    return made


def _attributes(model: nn.Module) -> list[tuple[str, int]]:
    """Which objects the attributes of all modules are."""
    return [(name, id(value)) for module in model.modules() for name, value in vars(module).items()]


class _Tracer(fx.Tracer):
    """Runs each step on an example as well, so that code may ask for shapes."""

    proxy_buffer_attributes = True  # what is done to a buffer is a step too

    def __init__(self, example: Tensor) -> None:
        super().__init__()
        self.example, self.running = example, False

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return type(m) in _LAYERS

    def create_node(self, kind: str, target: Any, args: Any, kwargs: Any, *more: Any, **named: Any) -> fx.Node:
        made = super().create_node(kind, target, args, kwargs, *more, **named)
        self.running = True
        made.meta["value"] = self._value(made)
        self.running = False
        return made

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        return attr_val if self.running else super().getattr(attr, attr_val, parameter_proxy_cache)

    def _value(self, node: fx.Node) -> Any:
        if node.op == "placeholder":
            return self.example
        if node.op == "get_attr":
            return _attribute(self.root, str(node.target))
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda one: one.meta["value"])
        if node.op == "call_module":
            return self.root.get_submodule(str(node.target)).forward(*args, **kwargs)
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return None if node.op == "output" else node.target(*args, **kwargs)  # type: ignore[operator]

    def to_bool(self, obj: fx.Proxy) -> bool:
        value = obj.node.meta["value"]
        if isinstance(value, Tensor):
            raise NotStraightError("it looks at values to decide what to compute")
        return bool(value)

    def iter(self, obj: fx.Proxy) -> Iterator[Any]:
        value = obj.node.meta["value"]
        if not isinstance(value, (torch.Size, tuple, list)):
            raise NotStraightError("it goes through the rows of a tensor one by one")
        return iter([obj[k] for k in range(len(value))])  # type: ignore[index]


def _is_needed(node: fx.Node) -> bool:
    return node.op in ("placeholder", "output") or _is_in_place(node)


def _check(node: fx.Node, made: fx.GraphModule) -> None:
    """Refuse a step that is not one of torch's, or that might change what is stored."""
    name = str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", "")
    if node.op in ("call_method", "call_function"):
        known = hasattr(Tensor, name) if node.op == "call_method" else _is_of_torch(node.target)
        if not known or name in _REFUSED:
            raise NotStraightError(f"the step {name} is not known to have no state")
    elif node.op == "call_module":
        layer = made.get_submodule(str(node.target))
        fault = f"{type(layer).__name__} is not known" if type(layer) not in _LAYERS else changed_class(type(layer))
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d) and layer.running_mean is None:
            fault = "it normalises by its batch"
        if fault is not None:
            raise NotStraightError(f"{node.target}: {fault}")
    elif node.op == "get_attr" and type(_attribute(made, str(node.target))) not in (Tensor, nn.Parameter):
        raise NotStraightError(f"{node.target} is not a plain tensor")
    if (_is_in_place(node) or _has_in_place_layer(node, made)) and _may_be_stored(node.args[0], made):
        raise NotStraightError(f"the step {name or node.target} may change what the network stores")


def _is_of_torch(target: Any) -> bool:
    return any(target is known for known in _PYTHON) or own_code(target)


def _is_in_place(node: fx.Node) -> bool:
    name = str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", "")
    named = name.endswith("_") and not name.endswith("__")
    inside = bool(node.kwargs.get("inplace")) or "out" in node.kwargs
    called = node.op in ("call_method", "call_function")
    return called and (named or inside or node.target in _IN_PLACE or _positional_in_place(node))


def _positional_in_place(node: fx.Node) -> bool:
    """Whether a function of torch.nn.functional gets True for ``inplace`` by its place."""
    code = getattr(node.target, "__code__", None)
    if code is None or getattr(node.target, "__module__", "") != functional.__name__:
        return False
    names = code.co_varnames[: code.co_argcount]
    return "inplace" in names and len(node.args) > names.index("inplace") and bool(node.args[names.index("inplace")])


def _has_in_place_layer(node: fx.Node, made: fx.GraphModule) -> bool:
    return node.op == "call_module" and bool(getattr(made.get_submodule(str(node.target)), "inplace", False))


def _may_be_stored(value: Any, made: fx.GraphModule) -> bool:
    """Whether a value may share memory with a tensor that the network stores."""
    if not isinstance(value, fx.Node) or value.op == "placeholder":
        return False
    if value.op == "get_attr":
        return True
    if value.op == "call_module" and type(made.get_submodule(str(value.target))) in _FRESH_LAYERS:
        return False
    if value.op == "call_function" and value.target in _FRESH:
        return False
    return any(_may_be_stored(one, made) for one in value.all_input_nodes)


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module
