"""Samples of several inputs in one batch, for sampling that stops at a goal.

Between two looks at its bounds (``lvmrs.kernel.anytime``) an input needs few samples, so a batch is filled with those of
several inputs. Which samples an input takes and where it stops depend on its own stream alone: not on the batch size,
on other inputs, or on which thread is faster.
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
from lvmrs.kernel.noise import Stream, samples_per_block
from lvmrs.kernel.sampler import Answered, Compare, Sampler, Watch, check_logits
from lvmrs.kernel.scores import Portion, Scores, scores_of

__all__ = ["Batched", "Fullness", "NoisyCopies", "Piece", "answered"]

# Batches that are begun before the oldest is taken, for each thread.
_AHEAD = 2
# Inputs that are sampled at once: at least, at most, and enough to fill batches if each asks for _SPAN samples.
_FEW, _MOST, _SPAN = 32, 256, 32
# Finished inputs that may wait for their turn, as a multiple of those that are sampled, if nobody watches the logits.
_WAIT = 8
# Bytes of a logit, and of the watched logits that wait for the turn of their input.
_BYTES, _WAITING = 4, 1 << 29


@dataclass
class Fullness:
    """How full the batches were."""

    batches: int = 0
    rows: int = 0
    """Samples in all of them."""
    room: int = 0
    """Samples for which there was room."""

    @property
    def share(self) -> float:
        """The share of the room that was used."""
        return self.rows / max(1, self.room)


class Batched:
    """Samples a network for several inputs at once, in batches that they fill together.

    Args:
        pool: the threads.
        seed: the seed of the noise.
        n: the most samples that an input is proved on.
        watch: called with the stage and the logits that an input has used, when its turn comes.
        fullness: counts how full the batches are.
    """

    def __init__(
        self, pool: ThreadPool, seed: int, n: int, watch: Watch | None = None, fullness: Fullness | None = None
    ) -> None:
        self._pool, self._seed, self._n, self._watch = pool, seed, n, watch
        self._fullness = Fullness() if fullness is None else fullness

    def run(self, items: Iterable[Input], steps: Callable[[Input], Steps[Result]]) -> Iterator[tuple[Input, Result]]:
        """Take the steps of each input; see ``Source``."""
        coming: Iterator[Task[Input, Result]] | None = started(items, steps)
        batches, window, waiting = _Batches(self._pool, self._fullness), _FEW, deque[_Sampling[Result]]()
        while True:
            while coming is not None and self._has_room(waiting, window):
                task = next(coming, None)
                if task is None:
                    coming = None
                    break
                waiting.append(_Sampling(task, self._seed, keeps=self._watch is not None))
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

    def _has_room(self, waiting: deque[_Sampling[Result]], window: int) -> bool:
        """Whether another input may begin; those that are done and wait for their turn need room too."""
        most = window * (1 if self._watch is not None else _WAIT)
        return sum(not each.task.done for each in waiting) < window and len(waiting) < most

    def _window(self, sampler: Sampler) -> int:
        """How many inputs are sampled at once: enough to fill batches, and few enough for the logits that are kept."""
        wanted = min(_MOST, max(_FEW, 2 * _AHEAD * sampler.workers * sampler.batch // _SPAN))
        kept = sampler.classes * self._n * _BYTES if self._watch is not None else 0
        return max(1, min(wanted, _WAITING // kept)) if kept else wanted


class Piece(NamedTuple):
    """Consecutive samples of an input, as a part of a batch."""

    sampling: _Sampling[Any]
    stream: Stream
    copies: Callable[[], Tensor]
    samples: range
    """Their numbers in the stream."""


class _Sampling(Generic[Result]):
    """The samples of one input: those that were asked for, and those that its task was sent."""

    def __init__(self, task: Task[Input, Result], seed: int, *, keeps: bool) -> None:
        self.task, self._seed, self._keeps = task, seed, keeps
        self._asked = self._taken = 0
        self._stream: Stream | None = None
        self._begin_stage()

    def _begin_stage(self) -> None:
        """Begin the stage that the task needs, if it is another one than before."""
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
        """The scores of the stage that the task needs."""
        item, stream = self.task.item, Stream(self._seed, self.task.item.index, need.stage)
        return scores_of(stream, item.sampler.noise, item.sampler.sigma, item.x.numel(), need.n, logits)

    @property
    def wanted(self) -> int:
        """How many samples it can use now, beside those that were asked for."""
        need = self.task.need
        if need is None:
            return 0
        missing = need.n - self._taken if need.stage == "selection" else need.wanted
        return missing - (self._asked - self._taken)

    def ask(self, count: int) -> Piece:
        """Ask for the next samples."""
        assert self._stream is not None  # noqa: S101 (it wants some)
        samples = range(self._asked, self._asked + count)
        self._asked = samples.stop
        return Piece(self, self._stream, partial(self._copies.of, samples.start, count), samples)

    def take(self, logits: Tensor) -> None:
        """Take the logits of the next samples that were asked for."""
        need = self.task.need
        if need is None:
            return
        self._taken += len(logits)
        self._arrived.append(logits)
        if self._keeps:
            self.task.kept.append((need.stage, logits.clone()))  # a part of a batch, which is not to be kept
        if need.stage != "selection":
            self.task.send(next(self._portions))
        elif self._taken == need.n:
            self.task.send(self._scores(need, self._arrived))
        if self.task.done:
            self._copies.end()
        self._begin_stage()

    def fail(self, error: Exception) -> None:
        """Give up; the first error is raised when it is its turn."""
        self.task.fail(error)
        self._copies.end()


class _Batches:
    """Batches that inputs fill together, and the threads that run them."""

    def __init__(self, pool: ThreadPool, fullness: Fullness) -> None:
        self._pool, self._fullness = pool, fullness
        self._begun: deque[tuple[list[Piece], Future[list[Answered | LvmrsError]]]] = deque()

    def begin(self, inputs: Iterable[_Sampling[Any]]) -> bool:
        """Begin a full batch, or one that is not full if nothing else is going on; False if there is no room."""
        waiting = [each for each in inputs if each.wanted > 0]
        if not waiting:
            return False
        sampler = waiting[0].task.item.sampler
        if len(self._begun) >= (_AHEAD * sampler.workers if sampler.workers > 1 else 1):
            return False
        same = [each for each in waiting if each.task.item.sampler is sampler]
        if self._begun and sum(each.wanted for each in same) < sampler.batch:
            return False  # what is going on may let them ask for more
        pieces, room = [], sampler.batch
        for each in same:
            if room and (count := min(room, each.wanted)):
                pieces.append(each.ask(count))
                room -= count
        self._fullness.batches += 1
        self._fullness.rows += sampler.batch - room
        self._fullness.room += sampler.batch
        work = Work(0, partial(answered, sampler, pieces), sampler.workers > 1)
        self._begun.append((pieces, self._pool.begin(work)))
        return True

    def take(self) -> None:
        """Wait for the oldest batch, and give each input its logits."""
        pieces, future = self._begun.popleft()
        answers: list[Answered | LvmrsError]
        try:
            answers = future.result()
        except LvmrsError as error:  # the first of these inputs raises it, when it is its turn
            answers = [error] * len(pieces)
        for piece, answer in zip(pieces, answers, strict=True):
            try:
                if isinstance(answer, LvmrsError):
                    raise answer
                check_logits(answer.logits, len(piece.samples), piece.sampling.task.item.sampler.classes)
                answer.compare(answer.logits)
                piece.sampling.take(answer.logits)
            except LvmrsError as error:
                piece.sampling.fail(error)


def answered(sampler: Sampler, pieces: list[Piece]) -> list[Answered | LvmrsError]:
    """The answers to the pieces of a batch, or why there is none.

    A batch has rows of several inputs. So the first piece of every input that proves something is compared, as well as
    those that are compared in any sample; comparing runs the model itself, which threads must not share, and is left to
    the thread that takes the answers. If the model fails on a batch, each piece is run alone once: it may fail on
    one input.
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
    return [Answered(logits, compares, len(logits)) for logits, compares in zip(parts, compare, strict=True)]


def _alone(sampler: Sampler, rows: Tensor, compare: Compare) -> Answered | LvmrsError:
    try:
        return Answered(sampler.answers_as_run(rows), compare, len(rows))
    except LvmrsError as error:
        return error


class NoisyCopies:
    """Draws noisy copies of one input in small requests.

    Noise is drawn in whole blocks; what is left of a block is kept for the next request.
    """

    def __init__(self, sampler: Sampler, x: Tensor, stream: Stream) -> None:
        self._sampler, self._x, self._stream = sampler, x, stream
        self._block = samples_per_block(x.shape, x.device)
        self._first, self._drawn = 0, x[None][:0]
        self._lock, self._ended = threading.Lock(), False

    def of(self, first: int, count: int) -> Tensor:
        """Draw ``count`` copies from sample ``first`` on."""
        with self._lock:
            have = self._first + len(self._drawn)
            if not self._first <= first <= have:  # parts of a batch may be asked for out of order
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
        """Keep nothing any more; what is asked for is drawn for that alone."""
        with self._lock:
            self._ended = True
            self._first, self._drawn = 0, self._x[None][:0]
