"""Worker threads that compute ahead, with results in order.

On a CPU, several threads that each run whole batches are faster than one pass that uses all cores: no core waits for
another. This holds even more if other programs use the cores: threads that share a pass wait for the slowest of them in
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

Result = TypeVar("Result")
# Pieces of work that wait or run for each thread: enough to keep it busy while a plan is made.
_AHEAD = 8


@dataclass(frozen=True)
class Work(Generic[Result]):
    """A piece of work."""

    owner: int
    """The number of the request that the piece belongs to; numbers ascend."""
    do: Callable[[], Result]
    elsewhere: bool
    """Whether another thread may do it."""
    ahead: int = 1
    """How many such pieces may start before the first result is taken, if the calling thread starts them on a GPU."""


class ThreadPool:
    """A pool of worker threads for a ``with`` block. While they work, torch uses one thread per Python thread.

    Args:
        workers: the number of threads; with 1, the calling thread does all work, with all of torch's threads.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._executor: ThreadPoolExecutor | None = None

    def __enter__(self) -> ThreadPool:
        """Return the pool; threads start with the first work."""
        return self

    def __exit__(self, *_: object) -> None:
        """Cancel waiting work, finish running work and end the threads."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
            self._executor = None
            _SingleThreaded.leave()

    def handing_out(self, results: Iterator[Result]) -> Iterator[Result]:
        """Yield results. While the caller has one, torch has as many threads as the caller chose."""
        for result in results:
            limited = self._executor is not None
            if limited:
                _SingleThreaded.leave()
            try:
                yield result
            finally:
                if limited:
                    _SingleThreaded.enter()

    def begin(self, work: Work[Result]) -> Future[Result]:
        """Start a piece of work in a worker thread if that is allowed, otherwise do it at once in this thread."""
        if work.elsewhere and self.workers > 1:
            return self._started().submit(work.do)
        done: Future[Result] = Future()
        try:
            done.set_result(work.do())
        except Exception as error:  # result() raises it
            done.set_exception(error)
        return done

    def room(self, work: Work[Result]) -> int:
        """How many pieces like this one may start before the first result is taken."""
        return _AHEAD * self.workers if work.elsewhere and self.workers > 1 else work.ahead

    def queue(self, works: Iterable[Work[Result]]) -> OrderedQueue[Result]:
        """A queue that does the work ahead of time and returns results in order."""
        return OrderedQueue(works, self)

    def _started(self) -> ThreadPoolExecutor:
        if self._executor is None:
            _SingleThreaded.enter()
            self._executor = ThreadPoolExecutor(self.workers, "lvmrs", torch.set_num_threads, (1,))
        return self._executor


class _SingleThreaded:
    """Limits torch to one thread while any pool has threads; the last pool to end restores the old number."""

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
    """Does pieces of work ahead of time and returns their results in order; ``ThreadPool.queue`` makes it.

    Args:
        works: the pieces of work, read when there is room for them. Unlike another iterator, it is asked again after
            StopIteration, and may yield more.
        pool: the threads that do the work.
    """

    def __init__(self, works: Iterable[Work[Result]], pool: ThreadPool) -> None:
        self._coming: Iterator[Work[Result]] | None = iter(works)
        self._pool, self._room = pool, 1
        self._begun: deque[tuple[int, Future[Result]]] = deque()
        self._failure: Exception | None = None

    def has_more(self) -> bool:
        """Whether a piece is left; raises an exception of ``works`` after the last piece before it."""
        self._begin_more()
        if not self._begun and self._failure is not None:
            raise self._failure
        return bool(self._begun)

    def is_next_of(self, owner: int) -> bool:
        """Whether there is a next piece, and it belongs to this owner."""
        self._begin_more()
        return bool(self._begun) and self._begun[0][0] == owner

    def take(self) -> Result:
        """Wait for the next piece and return its result, or raise its exception."""
        return self._begun.popleft()[1].result()

    def skip(self, owner: int) -> None:
        """Cancel and drop the next pieces of this owner."""
        while self.is_next_of(owner):
            self._begun.popleft()[1].cancel()

    def close(self) -> None:
        """Cancel all waiting pieces and read no more."""
        for _, future in self._begun:
            future.cancel()
        self._begun.clear()
        self._coming = None

    def _begin_more(self) -> None:
        while self._coming is not None and len(self._begun) < self._room:
            try:
                work = next(self._coming)
            except StopIteration:  # works may yield more later
                return
            except Exception as error:  # has_more raises it
                self._failure, self._coming = error, None
            else:
                self._room = self._pool.room(work)
                self._begun.append((work.owner, self._pool.begin(work)))


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Within the block, torch uses ``count`` threads in the calling thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def cores() -> int:
    """The number of cores that this process may use, and that torch is set to use."""
    return max(1, min(allowed_cores(), torch.get_num_threads()))


# ---------------------------------------------------------------------------------------------------------------------
# The number of torch threads for a model that only one Python thread may call. Threads that share a pass wait for each
# other in every layer. If other programs use the cores, this can be many times slower than one thread, so it is
# measured while the model runs.


# A pass is slow if it takes this many times as long as one thread on an idle core.
_SLOW = 1.5
# After this many slow passes, passes use one thread for this many seconds; then all threads are tried again.
_PASSES, _ALONE = 3, 5.0


class AdaptiveThreads:
    """Runs passes with all of torch's threads, or temporarily with one thread if passes are slow.

    Args:
        cost: the processor time of a sample in one thread, in seconds.
        clock: returns the time in seconds.
    """

    def __init__(self, cost: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self.cost, self._clock = cost, clock
        self._slow, self._alone_until = 0, 0.0

    def run(self, pass_: Callable[[], Result], samples: int) -> Result:
        """Run a pass over ``samples`` samples."""
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
