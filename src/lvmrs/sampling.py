"""Sampling: the logits that a model gives for noisy copies of an input."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lvmrs import _checks
from lvmrs._memory import memory
from lvmrs.errors import InvalidArgumentError, ModelError, ProofError, guarded
from lvmrs.noise import GAUSSIAN, Draws, Noise, Stage, Stream
from lvmrs.scores import Scores, scores_of

__all__ = [
    "LOGITS", "Compare", "Model", "Recheck", "Sampler", "Watch", "check_logits", "evaluating", "tuned_batch",
    "uncompared",
]  # fmt: skip

Model = Callable[[Tensor], Tensor]
"""From a batch of inputs to logits (batch, classes)."""
Watch = Callable[[Stage, Tensor], None]
"""Called with the stage and each batch of logits."""
Compare = Callable[[Tensor], None]
"""Takes the logits of a batch, and refuses them if they are not those of its rows in other company."""
Recheck = Callable[[Stream, int, bool, Tensor], Compare]
"""Is given the stream, the number of a batch, whether it is the last, and its rows, before the model is."""

LOGITS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# The smallest batch size at which the search for the best one may end.
_LARGE = 256


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


@dataclass(frozen=True)
class Sampler:
    """Computes the logits of noisy copies of an input, batch by batch."""

    model: Model
    sigma: float
    batch: int
    """Samples in a forward pass."""
    memory_format: torch.memory_format = torch.contiguous_format
    autocast: torch.dtype | None = None
    """The precision that the model runs in; None for that of its inputs and weights."""
    noise: Noise = GAUSSIAN
    recheck: Recheck = _unchecked
    """Chooses batches whose logits are compared with those of their rows in other company; by default none."""

    def scores(self, x: Tensor, stream: Stream, n: int, watch: Watch | None = None) -> Scores:
        """Make the scores of the first n samples of a stream.

        Args:
            x: the input, without a batch dimension.
            stream: which noise to draw.
            n: how many samples.
            watch: called with each batch of logits.

        Returns:
            The scores; they are computed when they are read.
        """
        batches = self.logits(x, stream, n)
        shown = batches if watch is None else _watched(batches, stream.stage, watch)
        return scores_of(stream, self.noise, self.sigma, x.numel(), n, shown)

    def logits(self, x: Tensor, stream: Stream, n: int, *, first: int = 0) -> Iterator[Tensor]:
        """Give the logits of n samples from number ``first`` on, batch by batch; they are checked to be finite."""
        classes = 0
        for number, inputs in enumerate(self.copies(x, stream, n, first=first)):
            last = (number + 1) * self.batch >= n
            compare = self.recheck(stream, number, last, inputs)
            logits = self.answers(inputs, classes)
            compare(logits)
            classes = logits.shape[1]
            yield logits

    def copies(self, x: Tensor, stream: Stream, n: int, *, first: int = 0) -> Iterator[Tensor]:
        """Give n noisy copies of an input, from sample ``first`` on; each batch overwrites the one before."""
        base, room = self.noise.base(x), min(self.batch, n)
        with torch.inference_mode(False):  # other threads write here, and inference mode is of one thread
            draws = Draws(self.noise, self.sigma, stream, x.shape, n, device=x.device, dtype=x.dtype)
            with guarded(
                f"a batch of {room} noisy copies does not fit into memory: choose a smaller batch size",
                error=InvalidArgumentError,
            ):
                if room * x.numel() * x.element_size() > memory():
                    raise MemoryError("this machine has less")
                drawn = draws.empty(room)
                copies = torch.empty(room, *x.shape, device=x.device, dtype=x.dtype)
                copies = torch.empty_like(copies, memory_format=self.memory_format)
        with draws:
            for start in range(first, first + n, self.batch):
                count = min(self.batch, first + n - start)
                with guarded(f"the noise {self.noise.name} fails", error=ProofError):
                    noise = draws.of(start, drawn[:count]).to(x.device)
                    inputs = self.noise.combine(base, noise, self.sigma, copies[:count])
                yield inputs

    def answers(self, inputs: Tensor, classes: int, *, finite: bool = True) -> Tensor:
        """The checked logits of a batch, in memory of their own.

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
        """Run the model on a batch in eval mode; its failure is one sentence of a ``ModelError``."""
        failing = f"the model fails on a batch of shape {tuple(inputs.shape)}, {inputs.dtype}"
        running = evaluating(self.model, gradients=gradients)
        with guarded(failing, error=ModelError), running, self._autocast(inputs.device):
            return self.model(inputs)

    def _autocast(self, device: torch.device) -> AbstractContextManager[object]:
        return torch.autocast(device.type, dtype=self.autocast) if self.autocast is not None else nullcontext()


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
    if finite and not torch.isfinite(logits).all():
        bad = int((~torch.isfinite(logits)).any(dim=1).sum())
        raise ModelError(
            f"the model returned NaN or infinity for {bad} of {count} noisy inputs; it cannot be certified"
        )


def tuned_batch(sampler: Callable[[int], Sampler], x: Tensor, *, most: int, seconds: float = 0.3) -> Sampler:
    """Find the batch size at which a model is fastest on this machine.

    The size is doubled while that may help. On a busy machine small batches can be slow for a while, so larger ones are
    measured too before the search ends.

    Args:
        sampler: makes a sampler of a given batch size.
        x: an input to measure with.
        most: the largest batch size to try.
        seconds: about how long to measure each size.

    Returns:
        The fastest sampler.
    """
    _checks.whole("most", most, least=1)
    best, best_rate, size = sampler(1), 0.0, 1
    while size <= most:
        candidate = sampler(size)
        rate = _rate(candidate, x, seconds)
        if rate > best_rate:
            best, best_rate = candidate, rate
        elif size >= max(4 * best.batch, _LARGE):
            break
        if size / rate > 4 * seconds:  # one batch already takes long: larger ones would not be measured in time
            break
        size *= 2
    return best


def _rate(sampler: Sampler, x: Tensor, seconds: float = 0.3) -> float:
    """Measure samples per second, after one batch to warm up; on a device that queues work, the queue is waited for."""
    inputs = x.expand(sampler.batch, *x.shape).contiguous(memory_format=sampler.memory_format)
    sampler.forward(inputs)
    return max(_rate_once(sampler, inputs, seconds / 8) for _ in range(2))


def _rate_once(sampler: Sampler, inputs: Tensor, seconds: float) -> float:
    done, start = 0, time.perf_counter()
    while True:
        logits = sampler.forward(inputs)
        if logits.device.type != "cpu":
            logits.sum().item()
        done += sampler.batch
        elapsed = time.perf_counter() - start
        if elapsed > seconds:
            return done / elapsed
