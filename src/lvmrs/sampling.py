"""What a model makes of noisy copies of an input."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lvmrs import _checks
from lvmrs.errors import ModelError
from lvmrs.noise import GAUSSIAN, Draws, Noise, Stage, Stream
from lvmrs.scores import Scores, scores_of

__all__ = ["Model", "Sampler", "Watch", "check_logits", "evaluating", "rate_of", "tuned_batch"]

Model = Callable[[Tensor], Tensor]
Watch = Callable[[Stage, Tensor], None]

# The smallest batch size at which the search for the best one may end.
_LARGE = 256


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """A module in eval mode and without gradients, and every part of it left as found."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    were_training = [module for module in modules if module.training]
    for module in were_training:
        module.training = False
    try:
        with torch.inference_mode():
            yield
    finally:
        for module in were_training:
            module.training = True


@dataclass(frozen=True)
class Sampler:
    """Logits of noisy copies of an input, batch by batch."""

    model: Model
    sigma: float
    batch: int
    memory_format: torch.memory_format = torch.contiguous_format
    autocast: torch.dtype | None = None
    noise: Noise = GAUSSIAN

    def scores(self, x: Tensor, stream: Stream, n: int, watch: Watch | None = None) -> Scores:
        """Scores of the first n samples of a stream. ``watch`` is shown each batch of logits as it passes."""
        batches = self.logits(x, stream, n)
        shown = batches if watch is None else _watched(batches, stream.stage, watch)
        return scores_of(stream, self.noise, self.sigma, n, shown)

    def logits(self, x: Tensor, stream: Stream, n: int, *, first: int = 0) -> Iterator[Tensor]:
        """Logits of samples ``first`` to ``first + n``, batch by batch; checked to be finite and all of one shape."""
        with torch.inference_mode(False):  # other threads write here, and inference mode is of one thread
            drawn = torch.empty(min(self.batch, n), *x.shape, device=x.device, dtype=x.dtype)
            copies = torch.empty_like(drawn, memory_format=self.memory_format)
            draws = Draws(self.noise, stream, x.shape, n, device=x.device, dtype=x.dtype)
        classes = 0
        with draws:
            for start in range(first, first + n, self.batch):
                count = min(self.batch, first + n - start)
                inputs = torch.add(x, draws.of(start, drawn[:count]), alpha=self.sigma, out=copies[:count])
                logits = self.forward(inputs)
                check_logits(logits, count, classes)
                classes = logits.shape[1]
                # A model may answer with a view of its input, which the next batch overwrites.
                shared = logits.untyped_storage().data_ptr() == copies.untyped_storage().data_ptr()
                yield logits.clone() if shared else logits

    def forward(self, inputs: Tensor) -> Tensor:
        """The model's answer, in eval mode, without gradients."""
        with evaluating(self.model), self._autocast(inputs.device):
            return self.model(inputs)

    def _autocast(self, device: torch.device) -> AbstractContextManager[object]:
        return torch.autocast(device.type, dtype=self.autocast) if self.autocast is not None else nullcontext()


def _watched(batches: Iterator[Tensor], stage: Stage, watch: Watch) -> Iterator[Tensor]:
    for batch in batches:
        watch(stage, batch)
        yield batch


def check_logits(logits: object, count: int, classes: int) -> None:
    """Refuse what is not a batch of finite logits of two classes or more."""
    if not isinstance(logits, Tensor):
        kind = type(logits).__name__
        raise ModelError(f"the model returned {kind}, not a tensor of logits; wrap it so that it returns logits only")
    if logits.dim() != 2 or len(logits) != count:
        shape = tuple(logits.shape)
        raise ModelError(f"the model returned shape {shape} for {count} inputs; expected ({count}, classes)")
    if logits.shape[1] < 2:
        raise ModelError("the model returned fewer than two classes; for a single logit z, return (z, −z)")
    if classes and logits.shape[1] != classes:
        raise ModelError(f"the model returned {logits.shape[1]} classes after {classes}; it must be the same each time")
    if not logits.is_floating_point():
        raise ModelError(f"the model returned {logits.dtype}; expected floating-point logits")
    if not torch.isfinite(logits).all():
        bad = int((~torch.isfinite(logits)).any(dim=1).sum())
        raise ModelError(
            f"the model returned NaN or infinity for {bad} of {count} noisy inputs; it cannot be certified"
        )


def tuned_batch(
    sampler: Callable[[int], Sampler], x: Tensor, *, most: int, seconds: float = 0.3
) -> tuple[Sampler, float]:
    """The sampler of the batch size at which this model is fastest here, and its samples per second.

    The size is doubled while that may pay.
    On a busy machine small batches can be slow for a while, so larger ones are tried before one is taken for the best.
    """
    _checks.whole("most", most, least=1)
    best, best_rate, size = sampler(1), 0.0, 1
    while size <= most:
        candidate = sampler(size)
        rate = rate_of(candidate, x, seconds)
        if rate > best_rate:
            best, best_rate = candidate, rate
        elif size >= max(4 * best.batch, _LARGE):
            break
        if size / rate > 4 * seconds:  # one batch already takes long: larger ones would not be measured in time
            break
        size *= 2
    return best, best_rate


def rate_of(sampler: Sampler, x: Tensor, seconds: float = 0.3) -> float:
    """Samples per second, after one batch to warm up; synchronised where work is queued."""
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
