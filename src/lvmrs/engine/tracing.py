"""Traces a network as a list of torch operations, folds it, and detects changes of its weights and attributes.

A fast version of a model is made from copies of its weights. ``snapshot`` records all weights and plain
values, so that a later change is found however it was made: by an optimizer, ``.data``, a NumPy view, or an assignment.
The snapshot includes attributes of classes, and closure variables and default arguments of functions, but not global
variables; for these, rows of each input are compared with the logits of the model itself.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import logging
import operator
import types
import zlib
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.nn import functional
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lvmrs.models.lipschitz.stated import changed_module, changed_process, own_code

# A model with more values than this is not watched; 100 layers have about 3000 values.
_MOST = 200_000
_PLAIN = frozenset(
    {str, int, bool, bytes, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size}
)
# Attributes that may change: the model always runs in eval mode, and torch.compile sets a flag.
_PASSING = ("training", "_is_torch_compile")
# Objects that are not searched: code does not change, and a logger refers to all loggers of the process.
_FIXED = (type, types.BuiltinFunctionType, types.ModuleType, types.CodeType, logging.Filterer)


def snapshot(model: nn.Module) -> list[object] | None:
    """A snapshot of all weights and plain values of a model, to compare with a later one; None if there are too many.

    Tensors and arrays are compared by a checksum of their bytes, so each weight is read once.

    >>> linear = nn.Linear(2, 2)
    >>> before = snapshot(linear)
    >>> before == snapshot(linear)
    True
    >>> linear.weight.data[0, 0] *= 1.03
    >>> before == snapshot(linear)
    False
    """
    found = list[object]()
    seen = dict[int, object]()  # holds the objects, so that no new object gets the same id
    waiting: list[object] = [model]
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if kind in _PLAIN:
            found.append(value)
        elif isinstance(value, Tensor):
            # Lazy parameters have no values before the model first runs.
            found += [kind] if is_lazy(value) else [tuple(value.shape), value.dtype, checksum(value)]
        elif isinstance(value, float | complex):
            found.append(repr(value))  # NaN is not equal to itself
        elif id(value) in seen:
            found.append(kind)
        else:
            seen[id(value)] = value
            found.append(id(value))
            waiting += _parts(value)
        if len(found) > _MOST:
            return None
    return found


def _parts(value: object) -> list[object]:
    """The parts of an object that can be read without running its code."""
    if isinstance(value, dict):  # modules have many, and most are empty
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset | deque):
        return list(value)
    if isinstance(value, torch.Generator):
        return [value.get_state()]
    if isinstance(value, np.ndarray):
        return [str(value.shape), value.tobytes()] if not value.dtype.hasobject else value.ravel().tolist()
    if isinstance(value, np.generic):
        return [value.tobytes()]
    if isinstance(value, bytearray):
        return [bytes(value)]
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, types.FunctionType):
        return [] if own_code(value) else [value.__defaults__, value.__kwdefaults__, value.__closure__, vars(value)]
    if isinstance(value, types.CellType):
        return [value.cell_contents] if value != types.CellType() else []
    if isinstance(value, type) and issubclass(value, nn.Module) and value.__module__.partition(".")[0] != "torch":
        return [each for name, each in vars(value).items() if not name.startswith("__")]
    return [] if isinstance(value, _FIXED) else _attributes(value)


def _attributes(value: object) -> list[object]:
    held = getattr(value, "__dict__", {})
    slots = [getattr(value, name, None) for name in _slots(type(value))]  # type: ignore[arg-type]
    if isinstance(value, nn.Module):
        held = {name: each for name, each in held.items() if name not in _PASSING}
        slots += type(value).__mro__
    return [*held.keys(), *held.values(), *slots]


@lru_cache(maxsize=1024)
def _slots(kind: type) -> tuple[str, ...]:
    """Names of attributes outside of ``__dict__``: ``__slots__``, and those of partial functions and properties."""
    return tuple(
        name
        for each in kind.__mro__
        for name, value in vars(each).items()
        if isinstance(value, types.MemberDescriptorType)
    )


def checksum(tensor: Tensor) -> object:
    """A checksum of the values of a tensor."""
    plain = type(tensor) in (Tensor, nn.Parameter)  # others, such as those of a trace, may have no values
    if not plain or tensor.layout != torch.strided or tensor.is_meta or tensor.is_quantized:
        return id(tensor)
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return zlib.crc32(flat.view(torch.uint8).numpy().data)


# ---------------------------------------------------------------------------------------------------------------------
# Recording the operations that torch performs while a network runs.


# Methods that take values out of tensors without an operation that torch dispatches.
_CONVERSIONS = (
    "tolist",
    "numpy",
    "__array__",
    "__dlpack__",
    "data_ptr",
    "storage",
    "untyped_storage",
    "untyped_data_ptr",
)
_RANDOM_OR_BY_VALUE = (
    torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.nondeterministic_seeded,
)  # fmt: skip


class Operations:
    """Records the operations within a ``with`` block that depend on an input, and the results that each one reads.

    Args:
        inputs: the input; operations on constants alone are not recorded, since a trace stores their results.
    """

    def __init__(self, inputs: Tensor) -> None:
        self.done: list[Any] = []
        """Each operation with its arguments: results by number, constants by checksum, plain values as they are."""
        self.fault: str | None = None
        """Why the network is not a list of steps; None if no reason was found."""
        self._derived = {id(inputs): inputs}  # holds the tensors, so that no new tensor gets the same id
        self._numbers = {id(inputs): 0}
        self._own = {memory(inputs): inputs}
        self._modes: tuple[Any, ...] = _Dispatched(self), _Conversions(self)

    def __enter__(self) -> Self:
        """Start recording."""
        for mode in self._modes:
            mode.__enter__()
        return self

    def __exit__(self, *given: Any) -> None:
        """Stop recording."""
        for mode in reversed(self._modes):
            mode.__exit__(*given)

    def add(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Perform an operation, and record it."""
        if _is_by_value(func, args, kwargs):
            self.fault = f"it looks at values or draws random numbers ({func})"
        for argument, value in zip(func._schema.arguments, args, strict=False):
            self._note_write(argument, value)
        for argument in func._schema.arguments:
            if argument.name in kwargs:
                self._note_write(argument, kwargs[argument.name])
        given = tree_leaves((args, kwargs))
        tensors = [each for each in given if isinstance(each, Tensor)]
        depends = any(id(each) in self._derived for each in tensors)
        described = [self._described(each) for each in given] if depends else []
        stored = {memory(each) for each in tensors} - self._own.keys()
        result = func(*args, **kwargs)
        made = [each for each in tree_leaves(result) if isinstance(each, Tensor)]
        for each in made:
            if memory(each) not in stored:  # a view of a stored tensor belongs to the model
                self._own[memory(each)] = each
        if depends:
            self.done.append((str(func), described))
            self._derived |= {id(each): each for each in made}
            for each in made:
                self._numbers.setdefault(id(each), len(self._numbers))
        return result

    def _described(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value if isinstance(value, (int, float, bool, str, type(None), torch.dtype)) else str(value)
        which = self._numbers[id(value)] if id(value) in self._derived else f"constant {checksum(value)}"
        return which, tuple(value.shape), tuple(value.stride()), value.dtype

    def _note_write(self, argument: Any, value: Any) -> None:
        """Set the fault if an operation writes to a tensor that is neither the input nor made in this call."""
        written = argument.alias_info is not None and argument.alias_info.is_write
        if written and any(memory(each) not in self._own for each in tree_leaves(value) if isinstance(each, Tensor)):
            self.fault = "it writes to what it stores"


class _Dispatched(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, operations: Operations) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = operations

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # True would load torch's compiler, which takes a second

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.operations.add(func, args, kwargs or {})


class _Conversions(TorchFunctionMode):
    def __init__(self, operations: Operations) -> None:
        super().__init__()
        self.operations = operations

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _CONVERSIONS:
            self.operations.fault = f"it takes values out of tensors ({func.__name__})"
        return func(*args, **(kwargs or {}))


def _is_by_value(func: Any, args: Any, kwargs: Any) -> bool:
    if func is torch.ops.aten.index.Tensor:  # indexing by integers gives a known shape
        return any(isinstance(each, Tensor) and each.dtype == torch.bool for each in tree_leaves(args[1:]))
    if func._schema.name.startswith("aten::_scaled_dot_product_"):  # attention is random by its dropout only
        given = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)} | kwargs
        return bool(given.get("dropout_p", 0.0))
    return any(tag in func.tags for tag in _RANDOM_OR_BY_VALUE)


def memory(tensor: Tensor) -> int:
    """The address of the storage of a tensor, which its views share."""
    return tensor.untyped_storage().data_ptr()


# ---------------------------------------------------------------------------------------------------------------------
# Tracing a network as a list of steps, each of them a layer or function of torch.
#
# A copy of the network runs once with an ``fx.Proxy`` as its input. The proxy carries values for batches of two sizes,
# so code may depend on shapes. Then network and list run on real inputs, and every operation that torch performs is
# recorded with the results that it reads. The list is accepted only if it performs the same operations on the same
# results and constants.
#
# A network is rejected if its control flow depends on values or on the batch size, if it draws random numbers, or if it
# writes to tensors that it stores. Any other network computes the same for every input of this shape, in a batch of any
# size, without state or randomness; so several threads may run the list at once.


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
# Steps whose result does not depend on the memory layout. The list leaves out as_strided, stride, is_contiguous,
# storage, view with a type, resize_ and set_, and every step that is not known.
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
# Attributes that do not depend on the memory layout.
_ATTRIBUTES = frozenset({"shape", "dtype", "device", "ndim", "T", "mT", "H", "mH", "is_cuda", "requires_grad"})


# Steps that return a view or a copy of their argument, depending on the memory layout.
_VIEW_OR_COPY = frozenset({"contiguous", "flatten", "reshape", "reshape_as", "to", "unflatten"})


class NotTraceableError(Exception):
    """A network cannot be shown to be a list of known steps; the message says why."""


def traced(model: nn.Module, example: Tensor) -> fx.GraphModule:
    """Trace a network as a list of steps, with copies of its layers and weights.

    Args:
        model: the network, in eval mode.
        example: a batch of inputs; the list is valid for inputs of this shape.

    Returns:
        The steps; ``meta["dims"]`` of each is the number of dimensions of its result.
    """
    fault = changed_process()
    if fault is not None:
        raise NotTraceableError(fault)
    for name, module in model.named_modules():
        fault = changed_module(module)
        if fault is not None or module.training:
            raise NotTraceableError(f"{name or 'the network'}: {fault or 'it is in training mode'}")
    copied = copy.deepcopy(model)
    before = snapshot(copied)
    if before is None:
        raise NotTraceableError("it holds too much to be watched")
    examples = example, example[:1]  # some steps, such as squeeze, differ in a batch of one
    expected = [_operations_of(copied, batch) for batch in examples]
    if snapshot(copied) != before:
        raise NotTraceableError("it changes what it holds when it runs")
    tracer = _Tracer(examples)
    root = nn.Sequential(copied) if tracer.is_leaf_module(copied, "") else copied
    graph = tracer.trace(root, concrete_args=_defaults(root))
    if tracer.refusal is not None:  # the network may have caught the exception
        raise NotTraceableError(tracer.refusal)
    made = fx.GraphModule(root, graph)
    for node in graph.nodes:
        _check(node, made)
        value, _ = node.meta.pop("values")
        node.meta["dims"] = value.dim() if isinstance(value, Tensor) else None
    if [_operations_of(made, batch) for batch in examples] != expected:
        raise NotTraceableError("it does not do what its trace does")
    return made


def is_layout_free(steps: fx.GraphModule) -> bool:
    """Whether the steps compute the same in every memory layout.

    A write to a tensor that is a view in one layout and a copy in another changes other steps in one layout only.
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
        return True  # inputs, weights and known layers
    name = _name(node)
    if name == "getattr":
        return node.args[1] in _ATTRIBUTES
    if name == "view":  # a view of another shape, not of another type
        return not any(isinstance(each, torch.dtype) for each in (*node.args, *node.kwargs.values()))
    return name.strip("_") in _LAYOUT_FREE or name in _LAYOUT_FREE


def _name(node: fx.Node) -> str:
    """The name of the method or function that a step calls."""
    return str(node.target) if node.op == "call_method" else str(getattr(node.target, "__name__", ""))


def _operations_of(model: nn.Module, example: Tensor) -> list[Any]:
    """The operations of a run of the network; raises if it reads values, or writes to tensors that it stores."""
    inputs = example.clone()
    operations = Operations(inputs)
    with operations:
        model(inputs)
    if operations.fault is not None:
        raise NotTraceableError(operations.fault)
    return operations.done


def _defaults(root: nn.Module) -> dict[str, Any]:
    """The default values of the arguments after the first."""
    _, *others = inspect.signature(root.forward).parameters.values()
    return {each.name: each.default for each in others if each.default is not each.empty}


class _Changing(fx.Proxy):
    """A proxy on which operators such as += work in place, as on tensors."""

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
    """A tracer that runs each step on batches of two sizes, so that code may use shapes but not the batch size."""

    proxy_buffer_attributes = True  # operations on buffers are steps too

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
        # The storages that the step read, made and wrote to; no memory is freed before the trace ends.
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
        """Whether a plain number depends on the batch size."""
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

    def _refused(self, why: str) -> NotTraceableError:
        self.refusal = why
        return NotTraceableError(why)


def _tensors(values: object) -> list[Tensor]:
    return [each for each in tree_leaves(values) if isinstance(each, Tensor) and not each.is_inference()]


def _check(node: fx.Node, made: fx.GraphModule) -> None:
    """Raise if a step is not a known operation or layer of torch."""
    name = _name(node)
    if node.op in ("call_method", "call_function"):
        known = hasattr(Tensor, name) if node.op == "call_method" else _is_of_torch(node.target)
        if not known:
            raise NotTraceableError(f"the step {name} is not torch's own")
    elif node.op == "call_module":
        layer = made.get_submodule(str(node.target))
        fault = f"{type(layer).__name__} is not known" if type(layer) not in _LAYERS else None
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d) and layer.running_mean is None:
            fault = "it normalises by its batch"
        if fault is not None:
            raise NotTraceableError(f"{node.target}: {fault}")
    elif node.op == "get_attr" and type(_attribute(made, str(node.target))) not in (Tensor, nn.Parameter):
        raise NotTraceableError(f"{node.target} is not a plain tensor")


def _is_of_torch(target: Any) -> bool:
    return any(target is known for known in _PYTHON) or own_code(target)


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_LINEAR = (nn.Conv1d, nn.Conv2d, nn.Conv3d, *_TRANSPOSED, nn.Linear)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_CONVOLVING = {functional.conv1d: nn.Conv1d, functional.conv2d: nn.Conv2d, functional.conv3d: nn.Conv3d}
_ARGUMENTS = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")


def functions_to_layers(steps: fx.GraphModule) -> int:
    """Replace calls of convolution functions with stored weights by layers with copies of these weights, in place.

    Networks whose layers pad in their own way call these functions.

    Args:
        steps: a list of steps, as ``traced`` returns it.

    Returns:
        The number of calls replaced.
    """
    made = 0
    for node in list(steps.graph.nodes):
        kind = _CONVOLVING.get(node.target) if node.op == "call_function" else None
        if kind is None:
            continue
        given = dict(zip(_ARGUMENTS, node.args, strict=False)) | node.kwargs
        stored = [given[name] for name in ("weight", "bias") if given.get(name) is not None]
        if not _all_stored(stored) or set(node.all_input_nodes) != {given["input"], *stored}:
            continue  # the weights or the settings are computed
        weight, *bias = (operator.attrgetter(str(each.target))(steps).detach().clone() for each in stored)
        settings = {name: given[name] for name in _ARGUMENTS[3:] if name in given}
        channels = weight.shape[1] * settings.get("groups", 1), weight.shape[0]
        layer = kind(*channels, weight.shape[2:], bias=bool(bias), device="meta", **settings).eval()  # nothing is drawn
        layer.weight = nn.Parameter(weight, requires_grad=False)
        layer.bias = nn.Parameter(bias[0], requires_grad=False) if bias else None
        _replace(steps, node, layer, given["input"])
        made += 1
    _clean(steps)
    return made


def _all_stored(values: list[object]) -> bool:
    return all(isinstance(each, fx.Node) and each.op == "get_attr" for each in values)


def _replace(steps: fx.GraphModule, node: fx.Node, layer: nn.Module, taken: fx.Node) -> None:
    """Replace a step by a call of a new layer, without changing other steps or the tensors that they read."""
    name = next(name for number in itertools.count() if not hasattr(steps, name := f"layer_{number}"))
    steps.add_submodule(name, layer)
    with steps.graph.inserting_before(node):
        called = steps.graph.call_module(name, (taken,))
    called.meta = node.meta
    node.replace_all_uses_with(called)
    steps.graph.erase_node(node)


def _clean(steps: fx.GraphModule) -> None:
    """Remove stored tensors and layers that no step reads."""
    for node in list(steps.graph.nodes):
        if node.op == "get_attr" and not node.users:
            steps.graph.erase_node(node)
    steps.graph.lint()
    steps.recompile()
    steps.delete_all_unused_submodules()


def fold_normalisation(steps: fx.GraphModule) -> int:
    """Replace each linear layer, and the batch normalisation that alone reads its output, by one new layer.

    The weights of both old layers are not changed, since other steps may read them.

    Args:
        steps: a list of steps, as ``traced`` returns it.

    Returns:
        The number of normalisations folded.
    """
    folded = 0
    for node in list(steps.graph.nodes):
        before = _only_argument(node)
        taken = None if before is None or len(before.users) != 1 else _only_argument(before)
        if before is None or taken is None:
            continue
        norm, layer = (steps.get_submodule(str(one.target)) for one in (node, before))
        if type(norm) not in _NORMS or not _channels_are_second(layer, before.meta["dims"]):
            continue
        made = _folded(layer, norm)
        if made is None:
            continue
        node.replace_all_uses_with(before)
        steps.graph.erase_node(node)
        _replace(steps, before, made, taken)
        folded += 1
    _clean(steps)
    return folded


def _only_argument(node: fx.Node) -> fx.Node | None:
    """The step whose output a layer reads; None if the step is no layer, or has other arguments."""
    given = (*node.args, *node.kwargs.values()) if node.op == "call_module" else ()
    return given[0] if len(given) == 1 and isinstance(given[0], fx.Node) else None


def _channels_are_second(layer: nn.Module, dims: int) -> bool:
    """Whether a layer is linear, and batch normalisation acts on the dimension of its output channels."""
    if type(layer) is nn.Linear:
        return dims == 2
    return type(layer) in _LINEAR and dims == layer.weight.dim()  # type: ignore[operator]


def _folded(layer: nn.Module, norm: nn.Module) -> nn.Module | None:
    """One layer for both, with weights computed in float64 and rounded once; None if a weight overflows."""
    made = copy.deepcopy(layer)
    weight, bias = _double(layer.weight), _double(layer.bias)
    mean, variance = _double(norm.running_mean), _double(norm.running_var)
    assert weight is not None and mean is not None and variance is not None  # noqa: S101, PT018 (for mypy)
    scale = torch.rsqrt(variance + float(norm.eps))  # type: ignore[arg-type]
    gamma, beta = _double(norm.weight), _double(norm.bias)
    scale = scale if gamma is None else scale * gamma
    shift = -mean if bias is None else bias - mean
    shift = shift * scale if beta is None else shift * scale + beta
    scaled = weight * _by_output(layer, weight, scale)
    made.weight, made.bias = (
        nn.Parameter(value.to(layer.weight), requires_grad=False)  # type: ignore[arg-type]
        for value in (scaled, shift)
    )
    return made if all(bool(torch.isfinite(value).all()) for value in (made.weight, made.bias)) else None


def _by_output(layer: nn.Module, weight: Tensor, scale: Tensor) -> Tensor:
    """The factor of each output channel, reshaped to broadcast with the weight."""
    if type(layer) not in _TRANSPOSED:
        return scale.reshape(-1, *[1] * (weight.dim() - 1))
    groups = int(layer.groups)  # type: ignore[arg-type]
    each = scale.reshape(groups, 1, -1).expand(-1, weight.shape[0] // groups, -1)
    return each.reshape(weight.shape[0], weight.shape[1], *[1] * (weight.dim() - 2))


def _double(value: object) -> Tensor | None:
    return value.detach().double() if isinstance(value, Tensor) else None
