"""Noisy copies of an input, and what a model makes of them.

**Noise is a pure function of (seed, index, stage, sample number)**, for a given shape of input and kind of device. It
is drawn in blocks of a fixed number of samples, each from a generator of its own, so that neither the batch size, nor
the order of inputs, nor the split over workers changes a bit of it. Stages are separate streams: what is chosen on the
selection sample is independent of the certification sample.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from numbers import Integral
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from lvmrs import _checks
from lvmrs.errors import InvalidArgumentError, ModelError

__all__ = ["Model", "Noise", "Sampler", "Stage", "Stream", "check_logits", "evaluating", "in_portions", "tuned_batch"]

Model = Callable[[Tensor], Tensor]
Stage = Literal["selection", "certification", "prediction", "calibration"]

# Numbers in a block of noise: enough to hide what a new generator costs, and few enough that threads share them evenly.
_BLOCK, _BLOCK_ELSEWHERE = 1 << 15, 1 << 22
# Numbers drawn at a time for small batches, which are then used where they lie: waking other threads pays.
_STORE = 1 << 20
# Numbers below which handing work to other threads costs more than it saves.
_WORTH_THREADS = 1 << 17
# The smallest batch size at which the search for the best one may end.
_LARGE = 256
# Each stage has this many blocks of its own among the 2³² seeds that the CPU generator tells apart.
_BLOCKS_PER_STAGE = 1 << 28


@dataclass(frozen=True)
class Stream:
    """Which noise: the run's seed, the index of the input in its data set, and the stage."""

    seed: int
    index: int
    stage: Stage

    def __post_init__(self) -> None:
        for name in ("seed", "index"):
            value = getattr(self, name)
            whole = isinstance(value, Integral) and not isinstance(value, bool)
            if not whole or not 0 <= int(value) < 1 << 63:
                raise InvalidArgumentError(f"{name} must be a whole number from 0 to 2⁶³ − 1, got {value!r}")
            object.__setattr__(self, name, int(value))
        _checks.one_of("stage", self.stage, get_args(Stage))

    @property
    def first_seed(self) -> int:
        """The seed of block 0; block b has b more: each block and stage of an input has a generator of its own."""
        digest = hashlib.blake2b(f"{self.seed},{self.index}".encode(), digest_size=4).digest()
        return int.from_bytes(digest, "little") + get_args(Stage).index(self.stage) * _BLOCKS_PER_STAGE


class Noise:
    """Standard normal noise of one stream, for inputs of one shape: any range of samples, best asked for in order.

    Blocks are drawn in place and, on the CPU, by as many threads as torch uses: they do not depend on each other.
    """

    def __init__(
        self, stream: Stream, shape: torch.Size, samples: int, *, device: torch.device, dtype: torch.dtype
    ) -> None:
        """Prepare for about so many samples; noise beyond them is the same, and no slower by much."""
        self.first_seed = stream.first_seed
        room = (_BLOCK if device.type == "cpu" else _BLOCK_ELSEWHERE) // max(1, shape.numel())
        self.samples_per_block = 1 << max(0, room.bit_length() - 1)
        enough = -(-samples // self.samples_per_block)
        most = _STORE // (self.samples_per_block * max(1, shape.numel()))
        self.blocks_in_store = max(1, min(enough, 1 << max(0, most.bit_length() - 1)))
        self.samples_in_store = self.samples_per_block * self.blocks_in_store
        self.store = torch.empty(self.samples_in_store, *shape, device=device, dtype=dtype)
        self.stored = -1  # which of the stream's storefuls is there
        self.threads = torch.get_num_threads() if device.type == "cpu" else 1
        self.pool = ThreadPoolExecutor(max(1, self.threads - 1))  # starts no thread before there is work for it

    def __enter__(self) -> Noise:
        """Noise that gives its threads back at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give the threads back."""
        self.pool.shutdown()

    def of(self, first: int, out: Tensor) -> Tensor:
        """Noise of as many samples as ``out`` has room for, from ``first`` on: there, or a view where it lies ready."""
        storeful, within = divmod(first, self.samples_in_store)
        if within + len(out) <= self.samples_in_store:
            self._draw_all(self._storeful(storeful))
            return self.store[within : within + len(out)]
        return self.fill(out, first)

    def fill(self, out: Tensor, first: int) -> Tensor:
        """Overwrite ``out`` with the noise of as many samples as it has room for, from ``first`` on."""
        room = self.samples_in_store
        head = min(-first % room, len(out))  # what remains of a storeful that was begun
        if head:
            self._draw_all(self._storeful(first // room))
            self._copy(self.store[first % room : first % room + head], out[:head])
        tail = (len(out) - head) % room
        body = out[head : len(out) - tail]
        self._draw_all(
            self._blocks((first + head) // self.samples_per_block, body)
            + (self._storeful((first + len(out)) // room) if tail else [])
        )
        if tail:
            self._copy(self.store[:tail], out[len(out) - tail :])
        return out

    def _copy(self, source: Tensor, out: Tensor) -> None:
        # In parts too small for torch to wake threads of its own, which would go on spinning in the way of ours.
        for part, into in zip(
            torch.split(source, self.samples_per_block), torch.split(out, self.samples_per_block), strict=True
        ):
            into.copy_(part)

    def _blocks(self, first: int, out: Tensor) -> list[tuple[int, Tensor]]:
        return list(enumerate(torch.split(out, self.samples_per_block), first)) if len(out) else []

    def _storeful(self, wanted: int) -> list[tuple[int, Tensor]]:
        """The blocks to draw so that the store holds the one that is wanted."""
        if self.stored == wanted:
            return []
        self.stored = wanted
        return self._blocks(wanted * self.blocks_in_store, self.store)

    def _draw_all(self, blocks: list[tuple[int, Tensor]]) -> None:
        """Each thread takes the next block when it is free; one that has not woken up by the end is not waited for."""
        helpers = self.threads - 1 if sum(out.numel() for _, out in blocks) >= _WORTH_THREADS else 0
        left = iter(blocks)
        others = [self.pool.submit(self._draw_from, left) for _ in range(helpers)]
        self._draw_from(left)
        for other in others:
            if not other.cancel():
                other.result()

    def _draw_from(self, blocks: Iterator[tuple[int, Tensor]]) -> None:
        for block, out in blocks:
            self._draw(block, out)

    def _draw(self, block: int, out: Tensor) -> None:
        # The CPU generator looks at 32 bits of its seed.
        seed = (self.first_seed + block) % (1 << 32)
        out.normal_(generator=torch.Generator(device=out.device).manual_seed(seed))


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

    def logits(self, x: Tensor, stream: Stream, n: int, *, first: int = 0) -> Iterator[Tensor]:
        """Logits of samples ``first`` to ``first + n``; checked to be finite and all of one shape."""
        with torch.inference_mode(False):  # other threads write here, and inference mode is of one thread
            drawn = torch.empty(min(self.batch, n), *x.shape, device=x.device, dtype=x.dtype)
            copies = torch.empty_like(drawn, memory_format=self.memory_format)
            noise = Noise(stream, x.shape, n, device=x.device, dtype=x.dtype)
        classes = 0
        with noise:
            for start in range(first, first + n, self.batch):
                count = min(self.batch, first + n - start)
                inputs = torch.add(x, noise.of(start, drawn[:count]), alpha=self.sigma, out=copies[:count])
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


def in_portions(batches: Iterable[Tensor], rows: int) -> Iterator[Tensor]:
    """The same rows in portions of one size (the last may be smaller), so that batches leave no trace in any sum."""
    waiting: list[Tensor] = []
    count = 0
    for batch in batches:
        start = 0
        while count + len(batch) - start >= rows:
            stop = start + rows - count
            yield torch.cat([*waiting, batch[start:stop]])
            waiting, count, start = [], 0, stop
        if start < len(batch):
            # Copied, since whoever made the batch may use its memory again.
            waiting.append(batch[start:].clone())
            count += len(batch) - start
    if waiting:
        yield torch.cat(waiting)


def tuned_batch(sampler: Callable[[int], Sampler], x: Tensor, *, most: int, seconds: float = 0.3) -> Sampler:
    """The sampler of the batch size at which this model is fastest here: doubled while that may pay.

    On a busy machine small batches can be slow for a while, so larger ones are tried before one is taken for the best.
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


def _rate(sampler: Sampler, x: Tensor, seconds: float) -> float:
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
