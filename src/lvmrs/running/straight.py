"""A network as a plain list of steps, each of them a layer or function of torch.

The list is found by running the Python code of a copy of the network once with a stand-in for the input. The stand-in
knows the shapes of everything, so that code may look at shapes. Then network and list are run on real inputs, and every
operation that torch performs is written down: the list is taken only if it performs the same operations. A network that
looks at values to decide what to do, draws random numbers, or writes to what it stores is refused. So a list has no
memory and no randomness of its own, and several threads may run it at once.
"""

from __future__ import annotations

import copy
import inspect
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx, nn

from lvmrs._as_written import changed_class, changed_module, changed_process, own_code
from lvmrs.running.operations import Operations

__all__ = ["NotStraightError", "straightened"]

_LAYERS = (
    nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.Linear,
    nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm, nn.GroupNorm,
    nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AdaptiveAvgPool1d,
    nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d,
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish,
    nn.Hardsigmoid, nn.Hardtanh, nn.Sigmoid, nn.Tanh, nn.Softplus, nn.Softsign, nn.Softmax, nn.LogSoftmax,
    nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout,
    nn.ZeroPad2d, nn.ReflectionPad2d, nn.ReplicationPad2d, nn.ConstantPad2d, nn.Upsample, nn.PixelShuffle,
    nn.PixelUnshuffle,
)  # fmt: skip
_PYTHON = (getattr, operator.getitem, *vars(operator).values())


class NotStraightError(Exception):
    """A network cannot be shown to be a list of known steps; the message says why, for those who ask."""


def straightened(model: nn.Module, example: Tensor) -> fx.GraphModule:
    """The steps of a network, with copies of its layers and weights.

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
    copied = copy.deepcopy(model)
    expected = _operations_of(copied, example)
    tracer = _Tracer(example)
    root = nn.Sequential(copied) if tracer.is_leaf_module(copied, "") else copied
    graph = tracer.trace(root, concrete_args=_defaults(root))
    if tracer.refusal is not None:  # the network may have caught the exception
        raise NotStraightError(tracer.refusal)
    made = fx.GraphModule(root, graph)
    for node in graph.nodes:
        _check(node, made)
        value = node.meta.pop("value", None)
        node.meta["dims"] = value.dim() if isinstance(value, Tensor) else None
    if _operations_of(made, example) != expected:
        raise NotStraightError("it does not do what its trace does")
    return made


def _operations_of(model: nn.Module, example: Tensor) -> list[Any]:
    """What torch does when the network runs; refused if it looks at values, or changes what it stores."""
    before, inputs = _attributes(model), example.clone()
    operations = Operations(inputs, model)
    with operations:
        model(inputs)
    if operations.fault is not None:
        raise NotStraightError(operations.fault)
    if _attributes(model) != before:
        raise NotStraightError("it changes its own attributes when it runs")
    return operations.done


def _attributes(model: nn.Module) -> list[tuple[str, int]]:
    """Which objects the attributes of all modules are."""
    return [(name, id(value)) for module in model.modules() for name, value in vars(module).items()]


def _defaults(root: nn.Module) -> dict[str, Any]:
    """The values of the arguments after the first, which are those that they have by default."""
    _, *others = inspect.signature(root.forward).parameters.values()
    return {each.name: each.default for each in others if each.default is not each.empty}


class _Changing(fx.Proxy):
    """A stand-in that is changed in place by signs such as +=, as tensors are."""

    def _changed(self, how: Any, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", how, (self, other), {})

    def __iadd__(self, other: Any) -> Any:
        return self._changed(operator.iadd, other)

    def __isub__(self, other: Any) -> Any:
        return self._changed(operator.isub, other)

    def __imul__(self, other: Any) -> Any:
        return self._changed(operator.imul, other)

    def __itruediv__(self, other: Any) -> Any:
        return self._changed(operator.itruediv, other)


class _Tracer(fx.Tracer):
    """Runs each step on an example as well, so that code may ask for shapes."""

    proxy_buffer_attributes = True  # what is done to a buffer is a step too

    def __init__(self, example: Tensor) -> None:
        super().__init__()
        self.example, self.running = example, False
        self.refusal: str | None = None

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return type(m) in _LAYERS

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Changing(node, self)

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
            return self.example.clone() if not node.args else node.args[0]
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
            raise self._refused("it looks at values to decide what to compute")
        return bool(value)

    def iter(self, obj: fx.Proxy) -> Iterator[Any]:
        value = obj.node.meta["value"]
        if not isinstance(value, (torch.Size, tuple, list)):
            raise self._refused("it goes through the rows of a tensor one by one")
        return iter([obj[k] for k in range(len(value))])  # type: ignore[index]

    def _refused(self, why: str) -> NotStraightError:
        self.refusal = why
        return NotStraightError(why)


def _check(node: fx.Node, made: fx.GraphModule) -> None:
    """Refuse a step that is not one of torch's own, as torch wrote it."""
    name = str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", "")
    if node.op in ("call_method", "call_function"):
        known = hasattr(Tensor, name) if node.op == "call_method" else _is_of_torch(node.target)
        if not known:
            raise NotStraightError(f"the step {name} is not torch's own")
    elif node.op == "call_module":
        layer = made.get_submodule(str(node.target))
        fault = f"{type(layer).__name__} is not known" if type(layer) not in _LAYERS else changed_class(type(layer))
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d) and layer.running_mean is None:
            fault = "it normalises by its batch"
        if fault is not None:
            raise NotStraightError(f"{node.target}: {fault}")
    elif node.op == "get_attr" and type(_attribute(made, str(node.target))) not in (Tensor, nn.Parameter):
        raise NotStraightError(f"{node.target} is not a plain tensor")


def _is_of_torch(target: Any) -> bool:
    return any(target is known for known in _PYTHON) or own_code(target)


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module
