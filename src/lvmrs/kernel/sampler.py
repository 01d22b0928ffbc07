"""Computes the logits of noisy copies of an input, in order, and checks that the model returns logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lvmrs.errors import InvalidArgumentError, ModelError, ProofError, guarded
from lvmrs.kernel.checks import all_finite, memory
from lvmrs.kernel.noise import GAUSSIAN, Draws, Noise, Stage, Stream
from lvmrs.kernel.scores import Scores, scores_of

LOGITS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""The types that logits may have."""


def check_logits(logits: object, count: int, classes: int, *, finite: bool = True) -> None:
    """Raise if the output of a model is not a batch of finite logits of at least two classes.

    Args:
        logits: the output of the model.
        count: the number of inputs.
        classes: the number of classes so far; 0 if unknown.
        finite: whether NaN and infinity raise.
    """
    if not isinstance(logits, Tensor) or logits.layout != torch.strided:
        kind = type(logits).__name__ if not isinstance(logits, Tensor) else f"a tensor of layout {logits.layout}"
        raise ModelError(f"the model returned {kind}, not a tensor of logits; wrap it so that it returns logits only")
    if logits.dim() != 2 or len(logits) != count:
        shape = tuple(logits.shape)
        raise ModelError(f"the model returned shape {shape} for {count} inputs; expected ({count}, classes)")
    if logits.shape[1] < 2:
        raise ModelError("the model returned fewer than two classes; for a single logit z, return (z, −z)")
    if classes and logits.shape[1] != classes:
        raise ModelError(f"the model returned {logits.shape[1]} classes after {classes}; it must be the same each time")
    if logits.dtype not in LOGITS or logits.is_meta:
        kind = "a tensor without values (device meta)" if logits.is_meta else str(logits.dtype)
        raise ModelError(f"the model returned {kind}; expected floating-point logits")
    if finite and not all_finite(logits):
        bad = int((~torch.isfinite(logits)).any(dim=1).sum())
        raise ModelError(
            f"the model returned NaN or infinity for {bad} of {count} noisy inputs; it cannot be certified"
        )


# ---------------------------------------------------------------------------------------------------------------------
# Sampling.
#
# Samples are computed in *pieces*: consecutive samples, which run in one or more batches. If a fast version of the
# model may run in several threads (``lvmrs.engine.execution``), threads compute pieces ahead, including those of the
# next input. Their batches never mix inputs, so that logits do not depend on the thread. If sampling may stop early, a
# batch has rows of several inputs (``lvmrs.engine.batching``), and rows of each input are compared with the model.


Model = Callable[[Tensor], Tensor]
"""From a batch of inputs to logits (batch, classes)."""
Watch = Callable[[Stage, Tensor], None]
"""Called with the stage and the logits of each piece."""
Compare = Callable[[Tensor], None]
"""Takes the logits of a piece, and raises if logits change with the rest of the batch."""
Around = Callable[[Callable[[], Any], int], Any]
"""Takes a function and the number of samples that it computes, calls the function, and returns its result."""
Recheck = Callable[[Stream, range, bool, Tensor], Compare]
"""Called before a piece runs, with its stream, sample numbers, whether it is the last, and its last inputs.

It copies some of these inputs and returns a function that compares their logits with those of the model.
"""

# The least number of pieces of a sample per thread.
_PIECES_EACH = 4
# The amount of noise drawn at once: noise and network compete for the processor's caches.
_AT_ONCE = 1 << 21


def uncompared(logits: Tensor) -> None:
    """Accept logits without a comparison."""


def _unchecked(stream: Stream, samples: range, last: bool, inputs: Tensor) -> Compare:
    return uncompared


@contextmanager
def evaluating(model: Model, *, gradients: bool = False) -> Iterator[None]:
    """Run a block with the model in eval mode, with or without gradients, and restore the mode of each module."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    were_training = [module for module in modules if module.training]
    for module in were_training:
        module.training = False
    try:
        with torch.inference_mode(not gradients), torch.set_grad_enabled(gradients):
            yield
    finally:
        for module in were_training:
            module.training = True


class Answered(NamedTuple):
    """The logits of a piece, and the function that compares its last rows with the model."""

    logits: Tensor
    """On the CPU."""
    compare: Compare
    rows: int
    """The number of last rows, among which the compared ones were chosen."""
    arrived: torch.Event | None = None
    """The end of the transfer of the logits from another device; None if they are there."""

    @classmethod
    def of(cls, logits: Tensor, compare: Compare, rows: int) -> Answered:
        """Begin to move the logits of a piece to the CPU, in one transfer."""
        if logits.device.type != "cuda":
            return cls(logits.cpu(), compare, rows)
        there = torch.empty(logits.shape, dtype=logits.dtype, pin_memory=True)
        there.copy_(logits, non_blocking=True)
        arrived = torch.Event(logits.device)
        arrived.record()
        return cls(there, compare, rows, arrived)

    def checked(self, classes: int) -> Tensor:
        """The logits; raises if they are not finite, have another number of classes, or differ from those of the model.

        Args:
            classes: the number of classes so far; 0 if unknown.
        """
        if self.arrived is not None:
            self.arrived.synchronize()  # the only wait for the device in a piece
        check_logits(self.logits, len(self.logits), classes)
        self.compare(self.logits[-self.rows :])
        return self.logits


@dataclass(frozen=True)
class Sampler:
    """Computes the logits of noisy copies of an input."""

    model: Model
    """The user's model."""
    sigma: float
    batch: int
    """Samples in a forward pass."""
    memory_format: torch.memory_format = torch.contiguous_format
    autocast: torch.dtype | None = None
    """The 16-bit type in which the model runs under torch's autocast; None to run it without autocast."""
    noise: Noise = GAUSSIAN
    recheck: Recheck = _unchecked
    """Chooses pieces whose logits are compared with those of the same rows in other batches; by default none."""
    runner: Model | None = None
    """A fast version of the model, which ``workers`` threads may call at once; None for the model itself."""
    workers: int = 1
    """The number of threads that may compute pieces at once."""
    around: Around | None = None
    """Wraps the computation of samples and chooses its number of torch threads; None for no wrapper."""
    classes: int = 0
    """The number of classes of the model; 0 if unknown."""
    piece: int = 128
    """The largest number of samples of a piece; no result depends on it."""

    def scores(self, x: Tensor, stream: Stream, n: int) -> Scores:
        """Make the scores of the first n samples of a stream.

        Args:
            x: the input, without a batch dimension.
            stream: which noise to draw.
            n: how many samples.

        Returns:
            The scores; they are computed when they are read.
        """
        return Request(self, x, stream, n).scores(self.logits(x, stream, n))

    def logits(self, x: Tensor, stream: Stream, n: int, *, first: int = 0) -> Iterator[Tensor]:
        """Give the logits of n samples from number ``first`` on, piece by piece; they are checked to be finite."""
        classes = 0
        for compute in self.pieces(Request(self, x, stream, n, first)):
            yield (logits := compute().checked(classes))
            classes = logits.shape[1]

    def copies(self, x: Tensor, stream: Stream, n: int, *, first: int = 0) -> Iterator[Tensor]:
        """Give n noisy copies of an input, from sample ``first`` on, in parts."""
        for _, parts in self._noisy(Request(self, x, stream, n, first)):
            yield from (noisy() for noisy in parts)

    def pieces(self, request: Request) -> Iterator[Callable[[], Answered]]:
        """Functions that compute the pieces of a request, in order. Several threads may call them at once."""
        for samples, parts in self._noisy(request):
            check = partial(self.recheck, request.stream, samples, samples.stop == request.n)
            compute = partial(self._answered, parts, check)
            yield compute if self.around is None else partial(self.around, compute, len(samples))

    def _sizes(self, request: Request, block: int) -> tuple[int, int]:
        """The number of samples of a piece, and of a part of it, whose noise is drawn at once; both are whole batches.

        Args:
            request: the request.
            block: the number of samples that a generator draws at a time; unused ones are wasted.
        """
        wanted = min(self.piece, request.n // (_PIECES_EACH * self.workers))
        at_once = min(wanted, max(block, _AT_ONCE // max(1, request.x.numel())))
        part = max(1, at_once // self.batch) * self.batch
        return min(request.n, max(1, wanted // part) * part), min(request.n, part)

    def _noisy(self, request: Request) -> Iterator[tuple[range, list[Callable[[], Tensor]]]]:
        """For each piece: the numbers of its samples in the request, and functions that make its noisy inputs."""
        x, base = request.x, self.noise.base(request.x)
        threads = torch.get_num_threads() if self.workers == 1 else 1
        kind: dict[str, Any] = {"device": x.device, "dtype": x.dtype}
        with Draws(self.noise, self.sigma, request.stream, x.shape, **kind, threads=threads) as draws:
            size, part = self._sizes(request, draws.samples_per_block)
            if part * x.numel() * x.element_size() > memory():
                raise InvalidArgumentError(
                    f"a batch of {part} noisy copies does not fit into memory: choose a smaller batch size"
                )
            for start in range(0, request.n, size):
                samples = range(start, min(start + size, request.n))
                yield (
                    samples,
                    [
                        partial(self._made, x, base, draws, request.first + begin, min(part, samples.stop - begin))
                        for begin in samples[::part]
                    ],
                )

    def _made(self, x: Tensor, base: Tensor, draws: Draws, start: int, count: int) -> Tensor:
        copies = torch.empty((count, *x.shape), device=x.device, dtype=x.dtype, memory_format=self.memory_format)
        with guarded(f"the noise {self.noise.name} fails", error=ProofError):
            return self.noise.combine(base, draws.of(start, count).to(x.device), self.sigma, copies)

    def _answered(self, parts: list[Callable[[], Tensor]], check: Callable[[Tensor], Compare]) -> Answered:
        answers = list[Tensor]()
        for noisy in parts:
            inputs = noisy()
            compare = check(inputs) if noisy is parts[-1] else uncompared
            for batch in torch.split(inputs, self.batch):
                answers.append(self.answers_as_run(batch, answers[0].shape[1] if answers else 0))
        return Answered.of(torch.cat(answers), compare, len(inputs))

    def answers_as_run(self, inputs: Tensor, classes: int = 0) -> Tensor:
        """The logits of a batch as used for certificates: by the fast version of the model if there is one.

        They are checked as in ``answers``, but may be NaN or infinite.
        """
        if self.runner is None:
            return self.answers(inputs, classes, finite=False)
        failing = f"the model fails on a batch of shape {tuple(inputs.shape)}, {inputs.dtype}"
        with guarded(failing, error=ModelError), torch.inference_mode(), self._autocast(inputs.device):
            logits = self.runner(inputs)
        check_logits(logits, len(inputs), classes, finite=False)
        return self._copied(logits)

    def answers(self, inputs: Tensor, classes: int, *, finite: bool = True) -> Tensor:
        """The checked logits of a batch by the model itself, in their own memory.

        A model may return a view of its input, or of memory that the next call overwrites.

        Args:
            inputs: the batch; the model may change it.
            classes: the number of classes so far; 0 if unknown.
            finite: whether NaN and infinity raise.
        """
        logits = self.forward(inputs)
        check_logits(logits, len(inputs), classes, finite=finite)
        return self._copied(logits)

    def forward(self, inputs: Tensor, *, gradients: bool = False) -> Tensor:
        """Run the model itself on a batch in eval mode; a failure raises a ``ModelError`` of one sentence."""
        failing = f"the model fails on a batch of shape {tuple(inputs.shape)}, {inputs.dtype}"
        running = evaluating(self.model, gradients=gradients)
        with guarded(failing, error=ModelError), running, self._autocast(inputs.device):
            return self.model(inputs)

    def _copied(self, logits: Tensor) -> Tensor:
        """A copy of logits, at least in float32 if the model runs under autocast."""
        kind = logits.dtype if self.autocast is None else torch.promote_types(logits.dtype, torch.float32)
        return logits.to(kind, copy=True)

    def _autocast(self, device: torch.device) -> AbstractContextManager[object]:
        return torch.autocast(device.type, dtype=self.autocast) if self.autocast is not None else nullcontext()


@dataclass(frozen=True)
class Request:
    """Asks a sampler for samples of an input."""

    sampler: Sampler
    x: Tensor
    """The input, without a batch dimension."""
    stream: Stream
    """Which noise to draw."""
    n: int
    """How many samples."""
    first: int = 0
    """The number of the first of them in the stream."""

    def scores(self, logits: Iterator[Tensor]) -> Scores:
        """The scores of these samples, from the logits computed for this request."""
        sampler = self.sampler
        return scores_of(self.stream, sampler.noise, sampler.sigma, self.x.numel(), self.n, logits)
