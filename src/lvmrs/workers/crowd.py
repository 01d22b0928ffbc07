"""Workers of a Ray cluster and their items: each takes the next item when it is free.

If a worker or its machine dies, the item that it had goes to another worker, and a new worker is asked for. A result is
taken once, from the worker that has the item now, so that nothing is lost and nothing is doubled.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from lvmrs.errors import RunError, first_line
from lvmrs.workers.base import bytes_of

__all__ = ["Crowd"]

# How many workers may die over one item until the work is given up.
_DEATHS = 5
# Seconds to wait for a worker if there is none: a cluster may be asked for more machines.
_PATIENCE = 1800.0
# How many results are taken at a time, and about how many bytes they have: with kept scores, each may be large.
_AT_A_TIME, _BYTES_AT_A_TIME = 256, 1 << 28
# Seconds that a worker has to remove its copies of files at the end.
_LAST_WORDS = 5.0


class Crowd:
    """Workers that are being started, that are free and that are busy.

    Args:
        ray: the library, connected.
        new: asks for a worker, without waiting for it. A worker is an actor with the methods of ``Hand``.
    """

    def __init__(self, ray: Any, new: Callable[[], Any]) -> None:
        self._ray, self._new = ray, new
        self._starting: dict[Any, Any] = {}
        self._busy: dict[Any, tuple[Any, int, Any]] = {}
        self._free: list[Any] = []
        self._stillborn = 0

    @property
    def ready(self) -> int:
        """How many workers have loaded the task."""
        return len(self._free) + len(self._busy)

    def start(self, number: int) -> None:
        """Ask for workers."""
        for _ in range(number):
            worker = self._new()
            self._starting[worker.begin.remote()] = worker

    def each(self, items: Iterable[Any]) -> Iterator[list[Any]]:
        """Have the task done for items; results come as they are finished."""
        waiting = deque(enumerate(items))
        deaths: Counter[int] = Counter()
        self._give(waiting)
        while self._busy or waiting:
            done: list[Any] = []
            failures: list[Exception] = []
            for reference in self._arrived():
                if reference in self._starting:
                    failures += self._begun(reference)
                    continue
                worker, number, item = self._busy.pop(reference)
                try:
                    result, failure = self._ray.get(reference)
                except self._ray.exceptions.RayError as error:  # the worker, its machine, or its result is lost
                    self._replace(worker)
                    waiting.appendleft((number, item))
                    deaths[number] += 1
                    failures += _given_up(deaths[number], error)
                else:
                    self._free.append(worker)
                    done += [result] if failure is None else []
                    failures += [failure] if failure is not None else []
                    if sum(map(bytes_of, done)) >= _BYTES_AT_A_TIME:
                        break  # the others are taken next time
            if not failures:
                self._give(waiting)  # before the results are written: nobody waits for that
            if done:
                yield done
            if failures:
                raise failures[0]

    def _give(self, waiting: deque[tuple[int, Any]]) -> None:
        """Give free workers items."""
        while self._free and waiting:
            number, item = waiting.popleft()
            worker = self._free.pop()
            self._busy[worker.do.remote(item)] = worker, number, item

    def _arrived(self) -> list[Any]:
        """What has come; at least one thing is waited for. All that is there is taken at once."""
        waiting = [*self._busy, *self._starting]
        found, _ = self._ray.wait(waiting, num_returns=1, timeout=None if self._busy else _PATIENCE, fetch_local=False)
        if not found:
            raise RunError(
                f"the Ray cluster has had no room for a worker for {_PATIENCE / 60:.0f} minutes; what was written is "
                "safe: resume when it has"
            )
        found, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0, fetch_local=False)
        return list(found[:_AT_A_TIME])

    def _begun(self, reference: Any) -> list[Exception]:
        """A worker has loaded the task, or what keeps it from that."""
        worker = self._starting.pop(reference)
        try:
            failure: Exception | None = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._replace(worker)
            self._stillborn += 1
            return _cannot_start(self._stillborn, self.ready + len(self._starting), error)
        self._free.append(worker)
        self._stillborn = 0
        return [] if failure is None else [failure]

    def _replace(self, worker: Any) -> None:
        with suppress(self._ray.exceptions.RayError, ValueError):  # it may be dead, or only out of reach
            self._ray.kill(worker)
        self.start(1)

    def end(self) -> None:
        """Give all workers back, whatever they are doing."""
        ray = self._ray
        busy = [worker for worker, *_ in self._busy.values()]
        # The busy finish their items first. Somebody who has stopped the program does not wait for that.
        heard = [*self._free, *(() if _interrupted() else busy)]
        if heard:
            with suppress(ray.exceptions.RayError):
                ray.wait([worker.end.remote() for worker in heard], num_returns=len(heard), timeout=_LAST_WORDS)
        for worker in (*self._free, *busy, *self._starting.values()):
            with suppress(ray.exceptions.RayError, ValueError):
                ray.kill(worker)
        self._starting, self._busy, self._free = {}, {}, []


def _interrupted() -> bool:
    error = sys.exc_info()[1]
    return error is not None and not isinstance(error, Exception)


def _given_up(deaths: int, error: Exception) -> list[Exception]:
    if deaths < _DEATHS:
        return []
    return [
        RunError(
            f"{deaths} workers died over the same input, perhaps for lack of memory ({first_line(error)}); what was "
            "written is safe: resume, with fewer workers on each machine"
        )
    ]


def _cannot_start(deaths: int, workers: int, error: Exception) -> list[Exception]:
    """Why workers die before they have loaded the task; nothing is said of the first few."""
    missing = [line.strip() for line in str(error).splitlines() if "No module named" in line]
    if missing:
        return [
            RunError(
                f"a worker of the Ray cluster cannot be started ({missing[-1]}); install the same version of lvmrs, "
                "and what the job needs, on all nodes"
            )
        ]
    if deaths <= _DEATHS + 2 * workers:  # a machine that dies takes many with it
        return []
    return [
        RunError(
            f"{deaths} workers of the Ray cluster died before they had loaded the job, perhaps for lack of memory "
            f"({first_line(error)}); what was written is safe: resume, with fewer workers"
        )
    ]
