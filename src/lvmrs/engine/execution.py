"""Makes a fast version of a model: the same function up to rounding, which several threads may run at once."""

from __future__ import annotations

import copy
import queue
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from lvmrs.engine.folding import fold_normalisation, functions_to_layers
from lvmrs.engine.threads import torch_threads
from lvmrs.engine.tracing import NotTraceableError, is_layout_free, traced
from lvmrs.engine.way import Way
from lvmrs.errors import first_line
from lvmrs.kernel.agreement import measured, moved, precision
from lvmrs.models.fixed_batch import InParts
from lvmrs.models.lipschitz.stated import runs_as_lvmrs_wrote

__all__ = ["Fast", "fast_version", "same"]

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


def fast_version(model: object, inputs: Tensor) -> Fast:
    """Make a fast version of a model, or raise ``NotTraceableError`` if it cannot be shown to be the same function.

    Args:
        model: a module in eval mode; other callables have no fast version.
        inputs: a batch of noisy inputs, on which both versions are compared: all together, one by one and in threes.
    """
    if not isinstance(model, nn.Module):
        raise NotTraceableError("it is not a torch module")
    if inputs.device.type != "cpu":
        raise NotTraceableError("it does not run on the CPU")
    held = (*model.parameters(), *model.buffers())
    if {tensor.dtype for tensor in held if tensor.is_floating_point()} - {torch.float32, torch.float64}:
        raise NotTraceableError("its weights have another precision than float32 and float64")
    if any(tensor.is_inference() for tensor in held):
        raise NotTraceableError("its weights were made in inference mode")
    try:
        with torch.inference_mode(False), torch.no_grad():
            made = _made(model, inputs)
    except NotTraceableError:
        raise
    except Exception as error:  # the user's code may raise anything when it is traced or copied
        raise NotTraceableError(f"it cannot be traced ({first_line(error)})") from error
    if not same(model, made.network.forward, inputs):
        raise NotTraceableError("its list of steps gives other logits")
    return replace(made, layout_free=made.layout_free and _may_be_laid_out_anew(made, model, inputs))


def _may_be_laid_out_anew(made: Fast, model: nn.Module, inputs: Tensor) -> bool:
    last = made.way(1, channels_last=True)
    if not last.channels_last:
        return True
    try:
        run = made.runner(last, 1, inputs[0])
    except RuntimeError:  # torch has no such layout for weights of five dimensions
        return False
    return same(model, run, inputs)


def _made(model: nn.Module, inputs: Tensor) -> Fast:
    if runs_as_lvmrs_wrote(model):
        return Fast(copy.deepcopy(model), folded=False, layout_free=False)
    steps = traced(model, inputs[:2].clone())
    functions_to_layers(steps)
    fold_normalisation(steps)
    return Fast(steps.requires_grad_(False), folded=True, layout_free=is_layout_free(steps))


def same(model: nn.Module, fast: Model, inputs: Tensor) -> bool:
    """Whether two versions of a model give the same logits in batches of several sizes, up to rounding."""
    with torch.inference_mode():
        try:
            found = [fast(batch.clone()) for batch in _batches(inputs)]
        except Exception:  # torch raises errors of many kinds, such as for a view that a layout does not allow
            return False
        expected = [model(batch.clone()).clone() for batch in _batches(inputs)]
        eps = precision(model, expected[0].dtype, device=inputs.device)
        agreement = measured(moved(model, eps), inputs, expected[0], eps)
        return all(
            one.dtype == other.dtype and agreement.agree(one, other) for one, other in zip(found, expected, strict=True)
        )


def _batches(inputs: Tensor) -> tuple[Tensor, ...]:
    return inputs, inputs[:3], inputs[-1:]
