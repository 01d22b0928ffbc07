"""A network as a plain list of steps, each of them a layer or function of torch.

The list is found by running the Python code of a copy of the network once with a stand-in for the input. The stand-in
knows the shapes of everything, for batches of two sizes, so that code may look at shapes. Then network and list are run
on real inputs, and every operation that torch performs is recorded with the results that it takes: the list is taken
only if it performs the same operations on the same results and constants.

Refused is a network that looks at values or at the size of its batch to decide what to do, draws random numbers, or
writes to what it stores. What is left does the same for every input of this shape, in a batch of any size, and has no
memory and no randomness of its own; so several threads may run the list at once.
"""

from __future__ import annotations

import copy
import inspect
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils._pytree import tree_leaves

from lvmrs._as_written import changed_module, changed_process, own_code
from lvmrs.running.held import held_by
from lvmrs.running.operations import Operations, memory

__all__ = ["NotStraightError", "is_layout_free", "straightened"]

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
# Steps whose result is defined by shapes and indices, whatever the order of the numbers in memory. Not among them are
# as_strided, stride, is_contiguous, storage, view with a type, resize_, set_ and what else torch may have.
_LAYOUT_FREE = frozenset(
    """
    abs absolute acos adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
    adaptive_max_pool2d adaptive_max_pool3d add add_ addcdiv addcmul addmm all alpha_dropout amax amin and_ any
    argmax argmin asin atan atan2 avg_pool1d avg_pool2d avg_pool3d baddbmm batch_norm bilinear bmm bool broadcast_to
    cat ceil celu chunk clamp clamp_ clamp_max clamp_min clip clone concat conv1d conv2d conv3d conv_transpose1d
    conv_transpose2d conv_transpose3d contiguous cos cosh cosine_similarity cumsum detach diag diagonal dim div div_
    double dropout dropout2d einsum elu embedding eq erf erfc exp expand expand_as expm1 fill_ flatten flip float floor
    floor_divide floordiv fmod frac ge gather gelu getattr getitem glu group_norm gt half hardsigmoid hardswish hardtanh
    iadd imul index_select instance_norm interpolate invert isub itruediv layer_norm le leaky_relu leaky_relu_ lerp
    linear log log10 log1p log2 log_softmax logaddexp logical_and logical_not logical_or logit logsigmoid logsumexp lt
    masked_fill masked_fill_ matmul max max_pool1d max_pool2d max_pool3d maximum mean median min minimum mish mm mod
    movedim mul mul_ multiply narrow ndim ne neg negative new_full new_ones new_zeros norm normalize numel one_hot
    ones_like or_ outer pad permute pixel_shuffle pixel_unshuffle pos positive pow prelu prod reciprocal relu relu6
    relu_ remainder repeat repeat_interleave reshape reshape_as roll round rsqrt rsub scaled_dot_product_attention
    scatter select selu sigmoid sigmoid_ sign silu silu_ sin sinh size softmax softmin softplus softsign split sqrt
    square squeeze stack std sub sub_ subtract sum swapaxes t tan tanh tanh_ tensor_split threshold tile to topk
    transpose tril triu true_divide truediv trunc type_as unbind unflatten unsqueeze upsample var where xor zero_
    zeros_like
    """.split()  # noqa: SIM905 (a list of strings would be ten times as long)
)
# Attributes that a layout does not change.
_ATTRIBUTES = frozenset({"shape", "dtype", "device", "ndim", "T", "mT", "H", "mH", "is_cuda", "requires_grad"})


# Steps that give a view of what they take, or a copy: the layout decides.
_VIEW_OR_COPY = frozenset({"contiguous", "flatten", "reshape", "reshape_as", "to", "unflatten"})


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
    before = held_by(copied)
    if before is None:
        raise NotStraightError("it holds too much to be watched")
    examples = example, example[:1]  # some steps, such as squeeze, do something else in a batch of one
    expected = [_operations_of(copied, batch) for batch in examples]
    if held_by(copied) != before:
        raise NotStraightError("it changes what it holds when it runs")
    tracer = _Tracer(examples)
    root = nn.Sequential(copied) if tracer.is_leaf_module(copied, "") else copied
    graph = tracer.trace(root, concrete_args=_defaults(root))
    if tracer.refusal is not None:  # the network may have caught the exception
        raise NotStraightError(tracer.refusal)
    made = fx.GraphModule(root, graph)
    for node in graph.nodes:
        _check(node, made)
        value, _ = node.meta.pop("values")
        node.meta["dims"] = value.dim() if isinstance(value, Tensor) else None
    if [_operations_of(made, batch) for batch in examples] != expected:
        raise NotStraightError("it does not do what its trace does")
    return made


def is_layout_free(steps: fx.GraphModule) -> bool:
    """Whether the steps compute the same when numbers are in another order in memory: each of them is known to.

    A step that writes to what may be a view or a copy, by the layout, is seen by other steps in one layout only.
    """
    either = set[int]()
    for node in steps.graph.nodes:
        if not _is_layout_free(node) or either & node.meta["written"]:
            return False
        target = type(steps.get_submodule(node.target)).__name__.lower() if node.op == "call_module" else _name(node)
        if target in _VIEW_OR_COPY:
            either |= node.meta["memory"]
    return True


def _is_layout_free(node: fx.Node) -> bool:
    if node.op not in ("call_method", "call_function"):
        return True  # inputs, weights, and layers that are listed above
    name = _name(node)
    if name == "getattr":
        return node.args[1] in _ATTRIBUTES
    if name == "view":  # of another shape, not of another type
        return not any(isinstance(each, torch.dtype) for each in (*node.args, *node.kwargs.values()))
    return name.strip("_") in _LAYOUT_FREE or name in _LAYOUT_FREE


def _name(node: fx.Node) -> str:
    """The name of the method or function that a step calls."""
    return str(node.target) if node.op == "call_method" else str(getattr(node.target, "__name__", ""))


def _operations_of(model: nn.Module, example: Tensor) -> list[Any]:
    """What torch does when the network runs; refused if it looks at values, or writes to what it stores."""
    inputs = example.clone()
    operations = Operations(inputs)
    with operations:
        model(inputs)
    if operations.fault is not None:
        raise NotStraightError(operations.fault)
    return operations.done


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
    """Runs each step on batches of two sizes as well, so that code may ask for shapes, but not for the batch's size."""

    proxy_buffer_attributes = True  # what is done to a buffer is a step too

    def __init__(self, examples: tuple[Tensor, Tensor]) -> None:
        super().__init__()
        self.examples, self.running = examples, False
        self.refusal: str | None = None

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return type(m) in _LAYERS

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Changing(node, self)

    def create_node(self, kind: str, target: Any, args: Any, kwargs: Any, *more: Any, **named: Any) -> fx.Node:
        made = super().create_node(kind, target, args, kwargs, *more, **named)
        self.running = True
        given = [tensor for each in made.all_input_nodes for tensor in _tensors(each.meta["values"])]
        versions = [tensor._version for tensor in given]
        made.meta["values"] = [self._value(made, number) for number in range(len(self.examples))]
        # The memory of what the step took and made, and of what it wrote to; nothing is freed before the trace ends.
        made.meta["memory"] = {memory(each) for each in (*given, *_tensors(made.meta["values"]))}
        changed = (tensor for tensor, version in zip(given, versions, strict=True) if tensor._version != version)
        made.meta["written"] = {memory(each) for each in changed}
        self.running = False
        return made

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        return attr_val if self.running else super().getattr(attr, attr_val, parameter_proxy_cache)

    def _value(self, node: fx.Node, number: int) -> Any:
        if node.op == "placeholder":
            return self.examples[number].clone() if not node.args else node.args[0]
        if node.op == "get_attr":
            return _attribute(self.root, str(node.target))
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda one: one.meta["values"][number])
        if node.op == "call_module":
            return self.root.get_submodule(str(node.target)).forward(*args, **kwargs)
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return None if node.op == "output" else node.target(*args, **kwargs)  # type: ignore[operator]

    def to_bool(self, obj: fx.Proxy) -> bool:
        value, _ = obj.node.meta["values"]
        if isinstance(value, Tensor):
            raise self._refused("it looks at values to decide what to compute")
        if self._varies(obj.node):
            raise self._refused("it looks at the size of its batch to decide what to compute")
        return bool(value)

    def _varies(self, node: fx.Node) -> bool:
        """Whether a number that is not a tensor was computed from one that depends on the size of the batch."""
        value, other = node.meta["values"]
        if isinstance(value, Tensor):
            return False
        if isinstance(value, int | float) and value != other:
            return True
        return any(self._varies(each) for each in node.all_input_nodes)

    def iter(self, obj: fx.Proxy) -> Iterator[Any]:
        value, _ = obj.node.meta["values"]
        if not isinstance(value, (torch.Size, tuple, list)):
            raise self._refused("it goes through the rows of a tensor one by one")
        return iter([obj[k] for k in range(len(value))])  # type: ignore[index]

    def _refused(self, why: str) -> NotStraightError:
        self.refusal = why
        return NotStraightError(why)


def _tensors(values: object) -> list[Tensor]:
    return [each for each in tree_leaves(values) if isinstance(each, Tensor) and not each.is_inference()]


def _check(node: fx.Node, made: fx.GraphModule) -> None:
    """Refuse a step that is not one of torch's own, as torch wrote it."""
    name = _name(node)
    if node.op in ("call_method", "call_function"):
        known = hasattr(Tensor, name) if node.op == "call_method" else _is_of_torch(node.target)
        if not known:
            raise NotStraightError(f"the step {name} is not torch's own")
    elif node.op == "call_module":
        layer = made.get_submodule(str(node.target))
        fault = f"{type(layer).__name__} is not known" if type(layer) not in _LAYERS else None
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
