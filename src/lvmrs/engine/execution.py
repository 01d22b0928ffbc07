"""Makes a fast version of a model: the same function up to rounding, which several threads may run at once."""

from __future__ import annotations

import copy
import queue
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from lvmrs.engine.threads import torch_threads
from lvmrs.engine.tracing import NotTraceableError, fold_normalisation, functions_to_layers, is_layout_free, traced
from lvmrs.engine.way import Way
from lvmrs.errors import first_line
from lvmrs.kernel.model_check import measured, moved, precision_of
from lvmrs.models.fixed_batch import InParts
from lvmrs.models.lipschitz.stated import runs_as_lvmrs_wrote

Model = Callable[[Tensor], Tensor]
_IMAGES = (nn.Conv2d, nn.ConvTranspose2d)


@dataclass(frozen=True, eq=False)
class Fast:
    """A fast version of a model, with copies of the weights at the time of construction."""

    network: nn.Module
    folded: bool
    """Whether the network is a list of steps, which all threads may share; otherwise each thread needs a copy."""
    layout_free: bool
    """Whether no step depends on the memory layout, so that the network may be laid out anew and compiled."""
    programs: dict[Way, nn.Module] = field(default_factory=dict)
    """Networks compiled so far."""

    @property
    def convolves(self) -> bool:
        """Whether another layout of images in memory may be faster."""
        return self.layout_free and any(isinstance(layer, _IMAGES) for layer in self.network.modules())

    def way(self, batch: int, *, channels_last: bool = False, compiled: bool = False) -> Way:
        """The settings to run this network with."""
        return Way(batch, self.folded, channels_last and self.convolves, compiled)

    def lower(self, precision: torch.dtype) -> Fast:
        """The network in a 16-bit type, for trials of its speed: its logits are not compared with the model."""
        network = _InPrecision(copy.deepcopy(self.network), precision)
        return replace(self, network=network, programs={})

    def runner(self, way: Way, workers: int, x: Tensor) -> Model:
        """A function that ``workers`` threads may call at once, each with a batch of inputs shaped like ``x``."""
        if way.compiled:
            if way not in self.programs:
                self.programs[way] = self._compiled(way, x)
            return self.programs[way]
        network = self._laid_out(way)
        if self.folded:
            return network.forward  # calling the module itself prints a traceback if a step fails
        copies = [copy.deepcopy(network) for _ in range(workers)]
        with torch.inference_mode():
            for each in copies:  # warm up: a first run may allocate or initialise
                each(x[None])
        return _Copies(copies)

    def _laid_out(self, way: Way) -> nn.Module:
        made = copy.deepcopy(self.network)
        return made.to(memory_format=torch.channels_last) if way.channels_last else made  # type: ignore[call-overload]

    def _compiled(self, way: Way, x: Tensor) -> nn.Module:
        """Compile with frozen weights for one batch size and one thread; smaller batches run uncompiled."""
        import torch._inductor.config as inductor  # importing it takes seconds

        network = self._laid_out(way)
        program = torch.compile(network, dynamic=False)
        with torch_threads(1), torch.inference_mode(), inductor.patch(freezing=True):
            program(x.expand(way.batch, *x.shape).contiguous())
        return InParts(program, way.batch, rest=network)


class _Copies:
    """Copies of a network; each call uses a free one."""

    def __init__(self, copies: list[nn.Module]) -> None:
        self._free: queue.SimpleQueue[nn.Module] = queue.SimpleQueue()
        for each in copies:
            self._free.put(each)

    def __call__(self, inputs: Tensor) -> Tensor:
        network = self._free.get()
        try:
            answer: Tensor = network(inputs)
        finally:
            self._free.put(network)
        return answer


class _InPrecision(nn.Module):
    """Runs a network in a 16-bit type: casts its weights, casts inputs once, and returns logits in float32."""

    def __init__(self, network: nn.Module, precision: torch.dtype) -> None:
        super().__init__()
        self.network, self.precision = network.to(precision), precision

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.network(inputs.to(self.precision))
        return logits.float()


def fast_version(model: object, inputs: Tensor, precision: torch.dtype | None = None) -> Fast:
    """Make a fast version of a model, or raise ``NotTraceableError`` if it cannot be shown to be the same function.

    Args:
        model: a module in eval mode; other callables have no fast version.
        inputs: a batch of noisy inputs, on which both versions are compared: all together, one by one and in threes.
        precision: the 16-bit type of weights, inputs and intermediate results; None for those of the model. With it,
            differences up to the rounding of this type are accepted.
    """
    if not isinstance(model, nn.Module):
        raise NotTraceableError("it is not a torch module")
    held = (*model.parameters(), *model.buffers())
    if {tensor.dtype for tensor in held if tensor.is_floating_point()} - {torch.float32, torch.float64}:
        raise NotTraceableError("its weights have another precision than float32 and float64")
    if any(tensor.is_inference() for tensor in held):
        raise NotTraceableError("its weights were made in inference mode")
    try:
        with torch.inference_mode(False), torch.no_grad():
            made = _made(model, inputs, precision)
    except NotTraceableError:
        raise
    except Exception as error:  # the user's code may raise anything when it is traced or copied
        raise NotTraceableError(f"it cannot be traced ({first_line(error)})") from error
    if not same(model, made.network.forward, inputs, precision):
        raise NotTraceableError("its list of steps gives other logits")
    return replace(made, layout_free=made.layout_free and _may_be_laid_out_anew(made, model, inputs, precision))


def _may_be_laid_out_anew(made: Fast, model: nn.Module, inputs: Tensor, precision: torch.dtype | None) -> bool:
    last = made.way(1, channels_last=True)
    if not last.channels_last:
        return True
    try:
        run = made.runner(last, 1, inputs[0])
    except RuntimeError:  # torch has no such layout for weights of five dimensions
        return False
    return same(model, run, inputs, precision)


def _made(model: nn.Module, inputs: Tensor, precision: torch.dtype | None) -> Fast:
    if runs_as_lvmrs_wrote(model):
        if precision is not None:
            raise NotTraceableError("it computes its weights in float32")
        return Fast(copy.deepcopy(model), folded=False, layout_free=False)
    steps = traced(model, inputs[:2].clone())
    if precision is not None:
        steps.double()  # folded weights are rounded once
    functions_to_layers(steps)
    fold_normalisation(steps)
    steps.requires_grad_(False)
    layout_free = is_layout_free(steps)
    network = steps if precision is None else _InPrecision(steps, precision)
    return Fast(network, folded=True, layout_free=layout_free)


def same(model: nn.Module, fast: Model, inputs: Tensor, kind: torch.dtype | None = None) -> bool:
    """Whether two versions of a model give the same logits in batches of several sizes, up to rounding.

    Args:
        model: the reference.
        fast: the version to compare with it.
        inputs: a batch of inputs.
        kind: the 16-bit type in which ``fast`` computes, if there is one.
    """
    with torch.inference_mode():
        try:
            found = [fast(batch.clone()).cpu() for batch in _batches(inputs)]
        except Exception:  # torch raises errors of many kinds, such as for a view that a layout does not allow
            return False
        expected = [model(batch.clone()).cpu().clone() for batch in _batches(inputs)]
        eps = precision_of(model, expected[0].dtype, kind, device=inputs.device)
        other = moved(model, eps)
        agreement = measured(lambda rows: other(rows).cpu(), inputs, expected[0], eps)
        return all(
            (kind is not None or one.dtype == other.dtype) and agreement.agree(one, other)
            for one, other in zip(found, expected, strict=True)
        )


def _batches(inputs: Tensor) -> tuple[Tensor, ...]:
    return inputs, inputs[:3], inputs[-1:]
