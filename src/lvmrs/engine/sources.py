"""Sources of scores: a network that is sampled for one input after the other, or existing scores."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Generic

from torch import Tensor

from lvmrs.engine.pipeline import AnyItem, Item, Need, Result, Steps, Task, started
from lvmrs.engine.threads import OrderedQueue, ThreadPool, Work
from lvmrs.kernel.noise import Stage, Stream
from lvmrs.kernel.sampler import Answered, Request, Sampler, Watch
from lvmrs.kernel.scores import Scores


@dataclass(frozen=True, eq=False)
class Input(Item):
    """An input, with the sampler of its network."""

    x: Tensor
    """The input as the model takes it, without a batch dimension."""
    sampler: Sampler


class GivenScores(Generic[AnyItem]):
    """Provides existing scores, such as those that a run kept.

    Args:
        scores: returns the scores of an item for a need, from the first sample on. There may be fewer than ``n``, if
            sampling had stopped.
    """

    def __init__(self, scores: Callable[[AnyItem, Need], Scores]) -> None:
        self._scores = scores

    def run(
        self, items: Iterable[AnyItem], steps: Callable[[AnyItem], Steps[Result]]
    ) -> Iterator[tuple[AnyItem, Result]]:
        """Run the steps of each item; see ``Source``."""
        for task in started(items, steps):
            while task.need is not None:
                _feed(task, partial(self._scores, task.item, task.need))
            yield task.outcome()


class Sampled:
    """Samples a network for one input after the other, in batches that never mix inputs.

    Certification samples of an input are requested when its plan exists. Meanwhile threads draw the selection samples
    of the next inputs, so they stay busy while this thread plans and proves.

    Args:
        pool: the threads that compute pieces.
        seed: the seed of the noise.
        watch: called with the stage and the logits of each piece, in the order of the inputs.
    """

    def __init__(self, pool: ThreadPool, seed: int, watch: Watch | None = None) -> None:
        self._pool, self._seed, self._watch = pool, seed, watch

    def run(self, items: Iterable[Input], steps: Callable[[Input], Steps[Result]]) -> Iterator[tuple[Input, Result]]:
        """Run the steps of each input; see ``Source``."""
        return _OrderedSampling(started(items, steps), self._pool, self._seed, self._watch).outcomes()


class _Pending(Generic[Result]):
    """A pending request for all samples of a stage that a task needs."""

    def __init__(self, number: int, task: Task[Input, Result], need: Need, seed: int, *, first: bool) -> None:
        item = task.item
        self.number, self.task, self.first = number, task, first
        self.request = Request(item.sampler, item.x, Stream(seed, item.index, need.stage), need.n)
        self.pieces = _work(self.request, number)


class _OrderedSampling(Generic[Result]):
    """Samples inputs in order. Requests are answered in the order in which they are made."""

    def __init__(self, tasks: Iterator[Task[Input, Result]], pool: ThreadPool, seed: int, watch: Watch | None) -> None:
        self._coming, self._seed, self._watch = tasks, seed, watch
        self._most = 2 * pool.workers
        self._tasks: deque[Task[Input, Result]] = deque()
        """Inputs that were started and not yielded yet, in order."""
        self._unread: deque[_Pending[Result]] = deque()
        self._undone: deque[_Pending[Result]] = deque()
        """Requests with pieces that no thread was given yet."""
        self._numbers = itertools.count()
        self._queue = pool.queue(self)

    def outcomes(self) -> Iterator[tuple[Input, Result]]:
        try:
            while True:
                self._queue.has_more()  # starts inputs while the queue has room for their pieces
                if not self._tasks:
                    return
                while not self._tasks[0].done:
                    self._show_kept()
                    self._answer(self._unread.popleft())
                self._show_kept()
                yield self._tasks.popleft().outcome()
        finally:
            self._queue.close()

    def _answer(self, pending: _Pending[Result]) -> None:
        """Send a task the scores that it requested, and request the samples that it needs next."""
        task, request = pending.task, pending.request
        logits = _logits(self._queue, pending.number)
        _feed(task, lambda: request.scores(self._shown(task, request.stream.stage, logits)))
        if self._undone and self._undone[0] is pending:  # some of its pieces were not started
            self._undone.popleft()
        self._queue.skip(pending.number)
        self._ask(task)

    def _ask(self, task: Task[Input, Result], *, first: bool = False) -> None:
        if task.need is not None:
            pending = _Pending(next(self._numbers), task, task.need, self._seed, first=first)
            self._unread.append(pending)
            self._undone.append(pending)

    def __iter__(self) -> Iterator[Work[Answered]]:
        """The pieces of all requests; further requests may add pieces after StopIteration."""
        return self

    def __next__(self) -> Work[Answered]:
        """The next piece of the oldest request; starts inputs if there is none."""
        while self._undone or self._begin():
            if self._undone:
                try:
                    return next(self._undone[0].pieces)
                except StopIteration:
                    self._undone.popleft()
                except Exception as error:  # raised when the request is answered
                    return Work(self._undone.popleft().number, partial(_fail, error), elsewhere=False)
        raise StopIteration

    def _begin(self) -> bool:
        """Start the next input, unless enough inputs wait for their first scores; False if none was started."""
        failed = bool(self._tasks) and self._tasks[-1].failure is not None
        if failed or sum(pending.first for pending in self._unread) >= self._most:
            return False
        task = next(self._coming, None)
        if task is None:
            return False
        self._tasks.append(task)
        self._ask(task, first=True)
        return True

    def _shown(self, task: Task[Input, Result], stage: Stage, logits: Iterator[Tensor]) -> Iterator[Tensor]:
        """Yield logits. Those of the oldest input are shown to the watch, and those of later inputs kept for it."""
        for batch in logits:
            if self._watch is not None and task is self._tasks[0]:
                self._watch(stage, batch)
            elif self._watch is not None:
                task.kept.append((stage, batch.clone()))
            yield batch

    def _show_kept(self) -> None:
        """Show the watch the kept logits of the oldest input."""
        kept, self._tasks[0].kept = self._tasks[0].kept, []
        for stage, logits in kept if self._watch is not None else ():
            self._watch(stage, logits)  # type: ignore[misc]


def _work(request: Request, number: int) -> Iterator[Work[Answered]]:
    """The pieces of a request; threads compute them if the sampler allows it."""
    sampler = request.sampler
    queued = 1 if request.x.device.type == "cpu" else 2  # on a GPU, the next piece is prepared while the device works
    return (Work(number, compute, sampler.workers > 1, queued) for compute in sampler.pieces(request))


def _logits(queue: OrderedQueue[Answered], number: int) -> Iterator[Tensor]:
    """The logits of one request, checked and in order."""
    classes = 0
    while queue.is_next_of(number):
        logits = queue.take().checked(classes)
        classes = logits.shape[1]
        yield logits


def _feed(task: Task[AnyItem, Result], make: Callable[[], Scores]) -> None:
    """Send a task the scores that it needs: all at once for planning, or portion by portion for a proof."""
    stage = None if task.need is None else task.need.stage
    try:
        scores = make()
        if stage == "selection":
            task.send(scores)
            return
        for portion in scores:
            task.send(portion)
            if task.done:
                return
        task.send(None)
    except Exception as error:  # outcome raises it
        task.fail(error)


def _fail(error: Exception) -> Answered:
    raise error
