"""Sampling: the logits that a model gives for noisy copies of an input.

Samples are computed in *pieces*: consecutive samples, whose noise is drawn at once and which run in one or more
batches. Where a fast version of the model may run in several threads (``lvmrs.running``), pieces are computed ahead by
a crew of threads, also those of the next input. Pieces never mix inputs, so that logits do not depend on who computes
them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lvmrs._memory import memory
from lvmrs._torch_checks import all_finite
from lvmrs.errors import InvalidArgumentError, ModelError, ProofError, guarded
from lvmrs.noise import GAUSSIAN, Draws, Noise, Stage, Stream
from lvmrs.running.crew import Crew, Line, Work
from lvmrs.running.sharing import Sharing
from lvmrs.scores import Scores, scores_of

__all__ = [
    "LOGITS", "Answered", "Compare", "Model", "Recheck", "Request", "Sampler", "Watch", "check_logits", "evaluating",
    "sampled", "uncompared",
]  # fmt: skip

Model = Callable[[Tensor], Tensor]
"""From a batch of inputs to logits (batch, classes)."""
Watch = Callable[[Stage, Tensor], None]
"""Called with the stage and the logits of each piece."""
Compare = Callable[[Tensor], None]
"""Takes the logits of a piece, and refuses them if they are not those of its rows in other company."""
Recheck = Callable[[Stream, int, bool, Tensor], Compare]
"""Is given the stream, the number of a piece, whether it is the last, and its rows, before the model is."""

LOGITS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# A piece has about as many samples as this if they run in smaller batches, and if there are enough for all threads.
_PIECE = 128
_PIECES_EACH = 16


def uncompared(logits: Tensor) -> None:
    """Take logits as they are."""


def _unchecked(stream: Stream, number: int, last: bool, inputs: Tensor) -> Compare:
    return uncompared


@contextmanager
def evaluating(model: Model, *, gradients: bool = False) -> Iterator[None]:
    """Run a block with the model in eval mode, with gradients or without; then each module has its old mode again."""
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
    """The logits of a piece, and what compares some of them with those of the same rows in other company."""

    logits: Tensor
    compare: Compare


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
    """The precision that the model runs in; None for that of its inputs and weights."""
    noise: Noise = GAUSSIAN
    recheck: Recheck = _unchecked
    """Chooses pieces whose logits are compared with those of their rows in other company; by default none."""
    runner: Model | None = None
    """A fast version of the model, which ``workers`` threads may call at once; None for the model itself."""
    workers: int = 1
    """How many threads may compute pieces at once."""
    sharing: Sharing | None = None
    """Decides how many threads share a pass where there is one worker; None for as many as torch has."""

    def scores(self, x: Tensor, stream: Stream, n: int, watch: Watch | None = None) -> Scores:
        """Make the scores of the first n samples of a stream.

        Args:
            x: the input, without a batch dimension.
            stream: which noise to draw.
            n: how many samples.
            watch: called with the logits of each piece.

        Returns:
            The scores; they are computed when they are read.
        """
        return Request(self, x, stream, n).scores(self.logits(x, stream, n), watch)

    def logits(self, x: Tensor, stream: Stream, n: int, *, first: int = 0) -> Iterator[Tensor]:
        """Give the logits of n samples from number ``first`` on, piece by piece; they are checked to be finite."""
        with Crew(self.workers) as crew:
            for logits in sampled([Request(self, x, stream, n, first)], crew):
                yield from logits

    def copies(self, x: Tensor, stream: Stream, n: int, *, first: int = 0) -> Iterator[Tensor]:
        """Give n noisy copies of an input, from sample ``first`` on, in pieces."""
        for _, noisy in self._noisy(Request(self, x, stream, n, first)):
            yield noisy()

    def pieces(self, request: Request, owner: int) -> Iterator[Work[Answered]]:
        """The work of a request, to be done in this order."""
        queued = 1 if request.x.device.type == "cpu" else 2  # elsewhere the next is prepared while the device works
        for number, (end, noisy) in enumerate(self._noisy(request)):
            check = partial(self.recheck, request.stream, number, end == request.n)
            do = partial(self._answered, noisy, check)
            if self.sharing is not None:
                do = partial(self.sharing.run, do, self._piece(request))
            yield Work(owner, do, self.workers > 1, queued)

    def _piece(self, request: Request) -> int:
        """How many samples a piece has: some batches, so that there are enough pieces for all threads."""
        wanted = min(_PIECE, request.n // (_PIECES_EACH * self.workers))
        return min(request.n, max(1, wanted // self.batch) * self.batch)

    def _noisy(self, request: Request) -> Iterator[tuple[int, Callable[[], Tensor]]]:
        """For each piece: how many samples there are up to its end, and a function that makes its noisy inputs."""
        x, size = request.x, self._piece(request)
        if size * x.numel() * x.element_size() > memory():
            raise InvalidArgumentError(
                f"a batch of {size} noisy copies does not fit into memory: choose a smaller batch size"
            )
        base = self.noise.base(x)
        threads = torch.get_num_threads() if self.workers == 1 else 1
        kind: dict[str, Any] = {"device": x.device, "dtype": x.dtype}
        with Draws(self.noise, self.sigma, request.stream, x.shape, **kind, threads=threads) as draws:
            for start in range(0, request.n, size):
                count = min(size, request.n - start)
                yield start + count, partial(self._made, x, base, draws, request.first + start, count)

    def _made(self, x: Tensor, base: Tensor, draws: Draws, start: int, count: int) -> Tensor:
        copies = torch.empty(count, *x.shape, device=x.device, dtype=x.dtype)
        if self.memory_format != torch.contiguous_format:
            copies = copies.to(memory_format=self.memory_format)
        with guarded(f"the noise {self.noise.name} fails", error=ProofError):
            return self.noise.combine(base, draws.of(start, count).to(x.device), self.sigma, copies)

    def _answered(self, noisy: Callable[[], Tensor], check: Callable[[Tensor], Compare]) -> Answered:
        inputs = noisy()
        compare, answers = check(inputs), list[Tensor]()
        for part in torch.split(inputs, self.batch):
            answers.append(self.answers_as_run(part, answers[0].shape[1] if answers else 0))
        return Answered(torch.cat(answers), compare)

    def answers_as_run(self, inputs: Tensor, classes: int = 0) -> Tensor:
        """The logits of a batch as certificates are computed from them, of the fast version of the model if it has one.

        They are checked as by ``answers``, but may be NaN or infinite.
        """
        if self.runner is None:
            return self.answers(inputs, classes, finite=False)
        failing = f"the model fails on a batch of shape {tuple(inputs.shape)}, {inputs.dtype}"
        with guarded(failing, error=ModelError), torch.inference_mode():
            logits = self.runner(inputs)
        check_logits(logits, len(inputs), classes, finite=False)
        return logits.clone()

    def answers(self, inputs: Tensor, classes: int, *, finite: bool = True) -> Tensor:
        """The checked logits of a batch by the model itself, in memory of their own.

        A model may return a view of its input, or of memory that its next answer is written to.

        Args:
            inputs: the batch; the model may change it.
            classes: how many classes there were before; 0 if this is not known.
            finite: whether NaN and infinity are refused.
        """
        logits = self.forward(inputs)
        check_logits(logits, len(inputs), classes, finite=finite)
        return logits.clone()

    def forward(self, inputs: Tensor, *, gradients: bool = False) -> Tensor:
        """Run the model itself on a batch in eval mode; its failure is one sentence of a ``ModelError``."""
        failing = f"the model fails on a batch of shape {tuple(inputs.shape)}, {inputs.dtype}"
        running = evaluating(self.model, gradients=gradients)
        with guarded(failing, error=ModelError), running, self._autocast(inputs.device):
            return self.model(inputs)

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

    def scores(self, logits: Iterator[Tensor], watch: Watch | None = None) -> Scores:
        """The scores of these samples, from the logits that ``sampled`` gives for this request."""
        shown = logits if watch is None else _watched(logits, self.stream.stage, watch)
        sampler = self.sampler
        return scores_of(self.stream, sampler.noise, sampler.sigma, self.x.numel(), self.n, shown)


def sampled(requests: Iterable[Request], crew: Crew) -> Iterator[Iterator[Tensor]]:
    """Answer requests in order: for each, give an iterator over the logits of its samples, piece by piece.

    While one is read, the next are computed ahead. What is not read of one is left out when the next is asked for.
    An error of a request, or of what makes the requests, is raised when its turn comes.
    """
    line = crew.line(_pieces(requests))
    try:
        for number in itertools.count():
            if not line.goes_on():
                return
            yield _logits(line, number)
            line.leave(number)
    finally:
        line.close()


def _pieces(requests: Iterable[Request]) -> Iterator[Work[Answered]]:
    for number, request in enumerate(requests):
        yield from request.sampler.pieces(request, number)


def _logits(line: Line[Answered], number: int) -> Iterator[Tensor]:
    classes = 0
    while line.is_of(number):
        logits, compare = line.take()
        check_logits(logits, len(logits), classes)
        compare(logits)
        classes = logits.shape[1]
        yield logits


def _watched(batches: Iterator[Tensor], stage: Stage, watch: Watch) -> Iterator[Tensor]:
    for batch in batches:
        watch(stage, batch)
        yield batch


def check_logits(logits: object, count: int, classes: int, *, finite: bool = True) -> None:
    """Refuse an answer of a model that is not a batch of finite logits of at least two classes.

    Args:
        logits: what the model returned.
        count: how many inputs it was given.
        classes: how many classes it had before; 0 if this is not known.
        finite: whether NaN and infinity are refused.
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
