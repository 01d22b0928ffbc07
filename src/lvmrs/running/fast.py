"""A fast version of a model: the same function up to rounding, which several threads may run at once."""

from __future__ import annotations

import copy
import queue
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from lvmrs.known_constant import runs_as_lvmrs_wrote
from lvmrs.running.crew import torch_threads
from lvmrs.running.fixed_batch import InParts
from lvmrs.running.folding import fold_normalisation, functions_to_layers
from lvmrs.running.straight import straightened
from lvmrs.running.way import Way

__all__ = ["Fast", "fast_version", "same", "state_of"]

Model = Callable[[Tensor], Tensor]
# How far the logits may be from those of the model, as a share of how far logits lie apart.
_APART = 1e-5
_IMAGES = (nn.Conv2d, nn.ConvTranspose2d)


@dataclass(frozen=True, eq=False)
class Fast:
    """A fast version of a model, as it was when it was made."""

    network: nn.Module
    folded: bool
    """Whether it is a list of steps, which any number of threads may run; otherwise each thread needs a copy."""
    programs: dict[Way, nn.Module] = field(default_factory=dict)
    """What was compiled already."""

    @property
    def convolves(self) -> bool:
        """Whether the layout of images in memory matters."""
        return any(isinstance(layer, _IMAGES) for layer in self.network.modules())

    def way(self, batch: int, *, channels_last: bool = False, compiled: bool = False) -> Way:
        """A way to run it."""
        return Way(batch, self.folded, channels_last and self.convolves, compiled)

    def runner(self, way: Way, workers: int, x: Tensor) -> Model:
        """A function that so many threads may call at once, each with a batch of inputs like x."""
        if way.compiled:
            if way not in self.programs:
                self.programs[way] = self._compiled(way, x)
            return self.programs[way]
        network = self._laid_out(way)
        if self.folded:
            return network
        copies = [copy.deepcopy(network) for _ in range(workers)]
        with torch.inference_mode():
            for each in copies:  # what a copy prepares when it first runs is prepared now
                each(x[None])
        return _Copies(copies)

    def _laid_out(self, way: Way) -> nn.Module:
        made = copy.deepcopy(self.network)
        return made.to(memory_format=torch.channels_last) if way.channels_last else made  # type: ignore[call-overload]

    def _compiled(self, way: Way, x: Tensor) -> nn.Module:
        """Compile it with frozen weights, for batches of one size, each in one thread; smaller ones run as they are."""
        import torch._inductor.config as inductor  # importing it takes seconds

        network = self._laid_out(way)
        program = torch.compile(network, dynamic=False)
        with torch_threads(1), torch.inference_mode(), inductor.patch(freezing=True):
            program(x.expand(way.batch, *x.shape).contiguous())
        return InParts(program, way.batch, rest=network)


class _Copies:
    """Copies of a network; each call takes one that is free."""

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


def state_of(model: nn.Module) -> object | None:
    """What changes when the weights of a model change; None if torch does not count these changes."""
    held = [*model.parameters(), *model.buffers()]
    if any(tensor.is_inference() for tensor in held):
        return None
    return [(t.data_ptr(), t._version, t.dtype, t.device) for t in held]


def fast_version(model: object, inputs: Tensor) -> Fast | None:
    """Make a fast version of a model; None if it cannot be shown to be the same function.

    Args:
        model: a module in eval mode; other callables have no fast version.
        inputs: a batch of noisy inputs, on which both are compared: in the batch, one by one and in threes.
    """
    if not isinstance(model, nn.Module) or inputs.device.type != "cpu":
        return None
    kinds = {tensor.dtype for tensor in (*model.parameters(), *model.buffers()) if tensor.is_floating_point()}
    if state_of(model) is None or kinds - {torch.float32, torch.float64}:
        return None
    try:
        with torch.inference_mode(False), torch.no_grad():
            made = _made(model, inputs)
            answers = [made.network(batch.clone()) for batch in _batches(inputs)]
    except Exception:  # the user's code may raise anything when it is traced or copied; then it runs as it is
        return None
    return made if _agree(model, answers, inputs) else None


def _made(model: nn.Module, inputs: Tensor) -> Fast:
    if runs_as_lvmrs_wrote(model):
        return Fast(copy.deepcopy(model), folded=False)
    steps = straightened(model, inputs[:2].clone())
    functions_to_layers(steps)
    fold_normalisation(steps)
    return Fast(steps.requires_grad_(False), folded=True)


def same(model: Model, fast: Model, inputs: Tensor) -> bool:
    """Whether two versions of a model give the same logits, in batches of several sizes, up to rounding."""
    with torch.inference_mode():
        return _agree(model, [fast(batch.clone()) for batch in _batches(inputs)], inputs)


def _batches(inputs: Tensor) -> tuple[Tensor, ...]:
    return inputs, inputs[:3], inputs[-1:]


def _agree(model: Model, answers: list[Tensor], inputs: Tensor) -> bool:
    """Whether answers are those of the model, up to a small share of how far logits usually lie apart."""
    with torch.inference_mode():
        expected = [model(batch.clone()).clone() for batch in _batches(inputs)]
        allowed = _APART * float((expected[0].amax(dim=1) - expected[0].amin(dim=1)).median())
        return all(
            found.shape == wanted.shape
            and found.dtype == wanted.dtype
            and float((found - wanted).abs().max()) <= allowed  # not where something is NaN
            for found, wanted in zip(answers, expected, strict=True)
        )
