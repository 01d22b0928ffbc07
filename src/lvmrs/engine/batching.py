"""Batches with samples of several inputs, for sampling that stops at a goal.

An input needs few samples before its bounds are computed again (``lvmrs.kernel.anytime``), so several share a batch.
The samples of an input, and the sample at which it stops, depend on its own stream alone: not on the batch size, on
other inputs, or on the speed of threads.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, NamedTuple

import torch
from torch import Tensor

from lvmrs.engine.pipeline import Need, Result, Steps, Task, started
from lvmrs.engine.sources import Input
from lvmrs.engine.threads import ThreadPool, Work
from lvmrs.errors import LvmrsError
from lvmrs.kernel.noise import Stream, block_of
from lvmrs.kernel.sampler import Answered, Compare, Sampler, Watch
from lvmrs.kernel.scores import Portion, Scores, scores_of

# Batches that may run before the result of the oldest is taken, for each thread.
_AHEAD = 2
# Number of inputs sampled at once: at least, at most, and enough to fill batches if each needs _SPAN samples.
_FEW, _MOST, _SPAN = 32, 256, 32
# Finished inputs that may wait to be yielded in order, as a multiple of those being sampled, if no logits are kept.
_WAIT = 8
# Bytes of one logit, and the limit in bytes for kept logits of inputs that are not yielded yet.
_BYTES, _WAITING = 4, 1 << 29


@dataclass
class BatchStatistics:
    """Counts how full the batches are."""

    batches: int = 0
    rows: int = 0
    """Samples in all batches."""
    room: int = 0
    """Samples that all batches could have held."""

    @property
    def share(self) -> float:
        """The share of batch rows that held a sample."""
        return self.rows / max(1, self.room)


class Batched:
    """Samples a network for several inputs at once, in shared batches.

    Args:
        pool: the threads that run batches.
        seed: the seed of the noise.
        n: the largest number of certification samples of an input.
        watch: called with the stage and the logits of each input, in the order of the inputs.
        batch_statistics: counts how full the batches are.
    """

    def __init__(
        self,
        pool: ThreadPool,
        seed: int,
        n: int,
        watch: Watch | None = None,
        batch_statistics: BatchStatistics | None = None,
    ) -> None:
        self._pool, self._seed, self._n, self._watch = pool, seed, n, watch
        self._batch_statistics = BatchStatistics() if batch_statistics is None else batch_statistics

    def run(self, items: Iterable[Input], steps: Callable[[Input], Steps[Result]]) -> Iterator[tuple[Input, Result]]:
        """Run the steps of each input; see ``Source``."""
        coming: Iterator[Task[Input, Result]] | None = started(items, steps)
        batches, window, waiting = _Batches(self._pool, self._batch_statistics), _FEW, deque[_InputSampling[Result]]()
        while True:
            while coming is not None and self._has_room(waiting, window):
                task = next(coming, None)
                if task is None:
                    coming = None
                    break
                waiting.append(_InputSampling(task, self._seed, keeps=self._watch is not None))
                window = window if task.done else self._window(task.item.sampler)
            if not waiting:
                return
            if not waiting[0].task.done:
                if not batches.begin(waiting):
                    batches.take()
                continue
            task = waiting.popleft().task
            for stage, logits in task.kept if self._watch is not None else ():
                self._watch(stage, logits)  # type: ignore[misc]
            yield task.outcome()

    def _has_room(self, waiting: deque[_InputSampling[Result]], window: int) -> bool:
        """Whether another input may begin; finished inputs that are not yielded yet count too."""
        most = window * (1 if self._watch is not None else _WAIT)
        return sum(not each.task.done for each in waiting) < window and len(waiting) < most

    def _window(self, sampler: Sampler) -> int:
        """The number of inputs to sample at once: enough to fill batches, few enough to keep their logits in memory."""
        wanted = min(_MOST, max(_FEW, 2 * _AHEAD * sampler.workers * sampler.batch // _SPAN))
        kept = sampler.classes * self._n * _BYTES if self._watch is not None else 0
        return max(1, min(wanted, _WAITING // kept)) if kept else wanted


class Piece(NamedTuple):
    """Consecutive samples of one input within a batch."""

    sampling: _InputSampling[Any]
    stream: Stream
    copies: Callable[[], Tensor]
    samples: range
    """The numbers of the samples in the stream."""


class _InputSampling(Generic[Result]):
    """Tracks the samples of one input: those requested, and those sent to its task."""

    def __init__(self, task: Task[Input, Result], seed: int, *, keeps: bool) -> None:
        self.task, self._seed, self._keeps = task, seed, keeps
        self._asked = self._taken = 0
        self._stream: Stream | None = None
        self._begin_stage()

    def _begin_stage(self) -> None:
        """Begin the stage that the task needs, unless that stage is running already."""
        need, task = self.task.need, self.task
        if need is None or (self._stream is not None and self._stream.stage == need.stage):
            return
        item = task.item
        self._stream = Stream(self._seed, item.index, need.stage)
        self._copies = NoisyCopies(item.sampler, item.x, self._stream)
        self._asked = self._taken = 0
        self._arrived = deque[Tensor]()
        later = (self._arrived.popleft() for _ in itertools.repeat(None))
        self._portions: Iterator[Portion] = iter(self._scores(need, later))

    def _scores(self, need: Need, logits: Iterable[Tensor]) -> Scores:
        """Scores of the stage that the task needs."""
        item, stream = self.task.item, Stream(self._seed, self.task.item.index, need.stage)
        return scores_of(stream, item.sampler.noise, item.sampler.sigma, item.x.numel(), need.n, logits)

    @property
    def wanted(self) -> int:
        """The number of samples that the task can use now, beyond those requested."""
        need = self.task.need
        if need is None:
            return 0
        missing = need.n - self._taken if need.stage == "selection" else need.wanted
        return missing - (self._asked - self._taken)

    def ask(self, count: int) -> Piece:
        """Request the next samples."""
        assert self._stream is not None  # noqa: S101 (the task needs samples)
        samples = range(self._asked, self._asked + count)
        self._asked = samples.stop
        return Piece(self, self._stream, partial(self._copies.of, samples.start, count), samples)

    def take(self, logits: Tensor) -> None:
        """Take the logits of the next requested samples."""
        need = self.task.need
        if need is None:
            return
        self._taken += len(logits)
        self._arrived.append(logits)
        if self._keeps:
            self.task.kept.append((need.stage, logits.clone()))  # a copy: a view would keep the whole batch in memory
        if need.stage != "selection":
            self.task.send(next(self._portions))
        elif self._taken == need.n:
            self.task.send(self._scores(need, self._arrived))
        if self.task.done:
            self._copies.end()
        self._begin_stage()

    def fail(self, error: Exception) -> None:
        """Stop sampling this input; its first error is raised when the input is yielded."""
        self.task.fail(error)
        self._copies.end()


class _Batches:
    """Composes batches from several inputs and runs them in threads."""

    def __init__(self, pool: ThreadPool, batch_statistics: BatchStatistics) -> None:
        self._pool, self._batch_statistics = pool, batch_statistics
        self._begun: deque[tuple[list[Piece], Future[list[Answered | LvmrsError]]]] = deque()

    def begin(self, inputs: Iterable[_InputSampling[Any]]) -> bool:
        """Start a full batch, or a partial one if no batch is running; False if none was started."""
        waiting = [each for each in inputs if each.wanted > 0]
        if not waiting:
            return False
        sampler = waiting[0].task.item.sampler
        if len(self._begun) >= (_AHEAD * sampler.workers if sampler.workers > 1 else 1):
            return False
        same = [each for each in waiting if each.task.item.sampler is sampler]
        if self._begun and sum(each.wanted for each in same) < sampler.batch:
            return False  # running batches may let inputs request more
        pieces, room = [], sampler.batch
        for each in same:
            if room and (count := min(room, each.wanted)):
                pieces.append(each.ask(count))
                room -= count
        self._batch_statistics.batches += 1
        self._batch_statistics.rows += sampler.batch - room
        self._batch_statistics.room += sampler.batch
        work = Work(0, partial(answered, sampler, pieces), sampler.workers > 1)
        self._begun.append((pieces, self._pool.begin(work)))
        return True

    def take(self) -> None:
        """Wait for the oldest batch, and pass each input its logits."""
        pieces, future = self._begun.popleft()
        answers: list[Answered | LvmrsError]
        try:
            answers = future.result()
        except LvmrsError as error:  # raised when the first of these inputs is yielded
            answers = [error] * len(pieces)
        for piece, answer in zip(pieces, answers, strict=True):
            try:
                if isinstance(answer, LvmrsError):
                    raise answer
                piece.sampling.take(answer.checked(piece.sampling.task.item.sampler.classes))
            except LvmrsError as error:
                piece.sampling.fail(error)


def answered(sampler: Sampler, pieces: list[Piece]) -> list[Answered | LvmrsError]:
    """Run one batch, and return logits or an error for each piece.

    A batch has rows of several inputs. So the first piece of every certification sample is compared with the model, in
    addition to the pieces that are always compared. The comparison runs the model itself, which threads must not
    share, so the thread that takes the results makes it. If the model fails on the batch, each piece is run once alone,
    since the failure may concern one input only.
    """
    copies = [piece.copies() for piece in pieces]
    compare = [
        sampler.recheck(piece.stream, piece.samples, piece.samples.start == 0, rows)
        for piece, rows in zip(pieces, copies, strict=True)
    ]
    try:
        together = sampler.answers_as_run(torch.cat(copies))
    except LvmrsError as error:
        if len(pieces) == 1:
            return [error]
        return [_alone(sampler, rows, compares) for rows, compares in zip(copies, compare, strict=True)]
    parts = torch.split(together, [len(piece.samples) for piece in pieces])
    return [Answered.of(logits, compares, len(logits)) for logits, compares in zip(parts, compare, strict=True)]


def _alone(sampler: Sampler, rows: Tensor, compare: Compare) -> Answered | LvmrsError:
    try:
        return Answered.of(sampler.answers_as_run(rows), compare, len(rows))
    except LvmrsError as error:
        return error


class NoisyCopies:
    """Draws noisy copies of one input in small requests.

    Noise is drawn in whole blocks; unused copies of a block are kept for the next request.
    """

    def __init__(self, sampler: Sampler, x: Tensor, stream: Stream) -> None:
        self._sampler, self._x, self._stream = sampler, x, stream
        self._block = block_of(sampler.noise, x.shape, x.device)
        self._first, self._drawn = 0, x[None][:0]
        self._lock, self._ended = threading.Lock(), False

    def of(self, first: int, count: int) -> Tensor:
        """Draw ``count`` copies from sample ``first`` on."""
        with self._lock:
            have = self._first + len(self._drawn)
            if not self._first <= first <= have:  # threads may request pieces out of order
                self._first, self._drawn = first - first % self._block, self._x[None][:0]
                have = self._first
            if first + count > have:
                missing = -(-(first + count - have) // self._block) * self._block
                whole = replace(self._sampler, batch=missing)  # one piece, so that no block is drawn twice
                drawn = list(whole.copies(self._x, self._stream, missing, first=have))
                self._drawn = torch.cat([self._drawn, *drawn]) if len(self._drawn) else torch.cat(drawn)
            found = self._drawn[first - self._first : first - self._first + count].clone()
            kept = (first + count) - (first + count) % self._block
            if self._ended:
                self._first, self._drawn = 0, self._x[None][:0]
            elif kept > self._first:
                self._first, self._drawn = kept, self._drawn[kept - self._first :].clone()
            return found

    def end(self) -> None:
        """Free the kept copies; later requests keep none."""
        with self._lock:
            self._ended = True
            self._first, self._drawn = 0, self._x[None][:0]
