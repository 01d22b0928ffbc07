"""Threads that work ahead, and results that come in order.

On a CPU, several threads that each run whole batches are faster than one pass that uses all cores: no core waits for
another. And where other programs use the cores too, they stay so: threads that share a pass wait for the slowest in
every layer.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from lvmrs._util.machine import allowed_cores

__all__ = ["OrderedQueue", "Sharing", "ThreadPool", "Work", "cores", "torch_threads"]

Result = TypeVar("Result")
# Pieces of work that wait or run ahead for each thread: enough to be busy while a plan is made.
_AHEAD = 8


@dataclass(frozen=True)
class Work(Generic[Result]):
    """A piece of work."""

    owner: int
    """Who asked for it; these numbers grow."""
    do: Callable[[], Result]
    elsewhere: bool
    """Whether it may be done in another thread."""
    ahead: int = 1
    """How many of this kind may be begun before the first is taken; for work that is only queued, as on a GPU."""


class ThreadPool:
    """Some threads; use it in a ``with`` block. While they work, torch uses one thread in each of them and in this one.

    Args:
        workers: how many threads; with 1 all work is done here, in the calling thread, by all of torch's threads.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._executor: ThreadPoolExecutor | None = None

    def __enter__(self) -> ThreadPool:
        """Begin; the threads start when there is work for them."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the threads, when what they do now is done."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
            self._executor = None
            _SingleThreaded.leave()

    def begin(self, work: Work[Result]) -> Future[Result]:
        """Begin a piece of work: elsewhere if it may be done there, otherwise here and at once."""
        if work.elsewhere and self.workers > 1:
            return self._started().submit(work.do)
        done: Future[Result] = Future()
        try:
            done.set_result(work.do())
        except Exception as error:  # whoever takes the result gets it
            done.set_exception(error)
        return done

    def room(self, work: Work[Result]) -> int:
        """How many pieces of work like this one may be begun before the first is taken."""
        return _AHEAD * self.workers if work.elsewhere and self.workers > 1 else work.ahead

    def queue(self, works: Iterable[Work[Result]]) -> OrderedQueue[Result]:
        """Do all work in order, some of it ahead of time."""
        return OrderedQueue(works, self)

    def _started(self) -> ThreadPoolExecutor:
        if self._executor is None:
            _SingleThreaded.enter()
            self._executor = ThreadPoolExecutor(self.workers, "lvmrs", torch.set_num_threads, (1,))
        return self._executor


class _SingleThreaded:
    """Torch uses one thread while any pool works; pools may overlap, and the last one gives the threads back."""

    pools, before = 0, 1
    lock = threading.Lock()

    @classmethod
    def enter(cls) -> None:
        with cls.lock:
            cls.before = cls.before if cls.pools else torch.get_num_threads()
            cls.pools += 1
            torch.set_num_threads(1)

    @classmethod
    def leave(cls) -> None:
        with cls.lock:
            cls.pools -= 1
            if not cls.pools:
                torch.set_num_threads(cls.before)


class OrderedQueue(Generic[Result]):
    """Work that is done, being done and to be done, in order; ``ThreadPool.queue`` makes it.

    Args:
        works: the pieces of work; they are asked for when there is room for them. More may come after the last one.
        pool: does them.
    """

    def __init__(self, works: Iterable[Work[Result]], pool: ThreadPool) -> None:
        self._coming: Iterator[Work[Result]] | None = iter(works)
        self._pool, self._room = pool, 1
        self._begun: deque[tuple[int, Future[Result]]] = deque()
        self._failure: Exception | None = None

    def has_more(self) -> bool:
        """Whether there is more; an exception of what makes the pieces is raised here, after all before it."""
        self._begin_more()
        if not self._begun and self._failure is not None:
            raise self._failure
        return bool(self._begun)

    def is_next_of(self, owner: int) -> bool:
        """Whether the next piece is there, and is of this owner."""
        self._begin_more()
        return bool(self._begun) and self._begun[0][0] == owner

    def take(self) -> Result:
        """The result of the next piece, when it is done; if it failed, its exception is raised."""
        return self._begun.popleft()[1].result()

    def skip(self, owner: int) -> None:
        """Leave out the next pieces that are of this owner."""
        while self.is_next_of(owner):
            self._begun.popleft()[1].cancel()

    def close(self) -> None:
        """Leave out all that is not begun."""
        for _, future in self._begun:
            future.cancel()
        self._begun.clear()
        self._coming = None

    def _begin_more(self) -> None:
        while self._coming is not None and len(self._begun) < self._room:
            try:
                work = next(self._coming)
            except StopIteration:  # more may come later
                return
            except Exception as error:  # has_more raises it
                self._failure, self._coming = error, None
            else:
                self._room = self._pool.room(work)
                self._begun.append((work.owner, self._pool.begin(work)))


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Within the block, torch uses so many threads in this one; with one, its processor time is all of it."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def cores() -> int:
    """How many cores this process may use, and torch is told to use."""
    return max(1, min(allowed_cores(), torch.get_num_threads()))


# ---------------------------------------------------------------------------------------------------------------------
# How many threads share a pass of a model that only one thread may call.
#
# Threads that share a pass wait for each other in every layer. Where other programs use the cores too, that can be many
# times slower than one thread alone. So it is measured while the model runs.


Result = TypeVar("Result")
# Passes are slow if they take so many times what one undisturbed thread would take.
_SLOW = 1.5
# After so many slow passes, one thread does it alone for so many seconds; then sharing is tried again.
_PASSES, _ALONE = 3, 5.0


class Sharing:
    """Runs passes with all of torch's threads, or with one for a while if that is faster.

    Args:
        cost: the processor time of one thread for a sample, in seconds.
        clock: shows the time.
    """

    def __init__(self, cost: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self.cost, self._clock = cost, clock
        self._slow, self._alone_until = 0, 0.0

    def run(self, pass_: Callable[[], Result], samples: int) -> Result:
        """Run a pass of so many samples."""
        start = self._clock()
        if start < self._alone_until and torch.get_num_threads() > 1:
            with torch_threads(1):
                return pass_()
        result = pass_()
        slow = self._clock() - start > _SLOW * self.cost * samples
        self._slow = self._slow + 1 if slow else 0
        if self._slow >= _PASSES:
            self._slow, self._alone_until = 0, self._clock() + _ALONE
        return result
