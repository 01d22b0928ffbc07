"""Workers on a Ray cluster: Ray places and watches them; each takes the next item when it is free.

The task goes into the object store once. A worker loads it once, and does it for one item at a time. If a worker or its
machine dies, the item that it had goes to another worker, and a new worker is asked for. A result is taken once, from
the worker that has the item now, so that nothing is lost and nothing is doubled.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lvmrs import _checks
from lvmrs._extras import optional
from lvmrs._stopping import SIGNALS
from lvmrs.errors import RunError, first_line, guarded
from lvmrs.workers.base import Each, Task, Workers
from lvmrs.workers.hand import Hand, versions
from lvmrs.workers.packing import packed
from lvmrs.workers.shipping import shipped

__all__ = ["Ray"]

# How many workers may die over one item, or before they have loaded the task, until the work is given up.
_DEATHS = 3
# Seconds that a worker has to remove its copies of files at the end.
_LAST_WORDS = 5.0


class Ray(Workers):
    """Workers on a Ray cluster, or on a Ray of this machine that is started for them.

    Args:
        address: the address of the head, such as "10.0.0.1:6379"; "local" starts a Ray on this machine. By default it
            is ``$RAY_ADDRESS``, or a Ray that runs on this machine, or else one that is started.
        workers: how many workers; by default as many as fit into the cluster now.
        cpus: processors of each worker, and threads that it uses.
        gpus: GPUs of each worker; a part such as 0.5 is possible.
    """

    def __init__(
        self, address: str | None = None, *, workers: int | None = None, cpus: int = 1, gpus: float = 0.0
    ) -> None:
        self.address = None if address is None else _checks.text("address", address)
        self.wanted = None if workers is None else _checks.count("workers", workers, least=1)
        self.cpus = _checks.count("cpus", cpus, least=1)
        self.gpus = _checks.single("gpus", _checks.at_least_zero("gpus", gpus))
        self._size = self.wanted or 1
        self._crowd: _Crowd | None = None

    @property
    def device(self) -> str | None:
        """The GPU that Ray shows to a worker, if it gives one."""
        return "cuda" if self.gpus else None

    @property
    def size(self) -> int:
        """How many workers were asked for; by default it is known when the cluster was asked."""
        return self._size

    @property
    def ready(self) -> int:
        """How many workers have loaded the task."""
        return 0 if self._crowd is None else self._crowd.ready

    @contextmanager
    def doing(self, task: Task, *, most: int | None = None, files: Iterable[Path] = ()) -> Iterator[Each]:
        """Ask the cluster for workers, and give them back after the block."""
        ray = optional("ray", extra="ray", error=RunError)
        with _connected(ray, self.address):
            self._size = self.wanted or self._fitting(ray)
            if most is not None:
                self._size = max(1, min(self._size, most))
            kind = ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_restarts=0)(Hand)
            with guarded("the job cannot be put into Ray's object store", error=RunError):
                content = ray.put((packed(task), shipped(files)))
            self._crowd = _Crowd(ray, lambda: kind.remote(content, versions(), self.cpus))
            try:
                self._crowd.start(self._size)
                yield self._crowd.each
            finally:
                self._crowd.end()
                self._crowd = None

    def _fitting(self, ray: Any) -> int:
        """How many workers the cluster has room for, if nobody else uses it."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        found = sum(
            int(min(node.get(name, 0.0) / each for name, each in (("CPU", self.cpus), ("GPU", self.gpus)) if each))
            for node in nodes
        )
        if not found:
            what = f"{self.cpus} CPUs" + (f" and {self.gpus:g} GPUs" if self.gpus else "")
            have = ", ".join(f"{node.get('CPU', 0):g} CPUs and {node.get('GPU', 0):g} GPUs" for node in nodes)
            raise RunError(f"no node of the Ray cluster has {what} for a worker (they have {have}); ask for less")
        return found


@contextmanager
def _connected(ray: Any, address: str | None) -> Iterator[None]:
    """Connect to a cluster, or start one; a connection that the caller has made is used and kept."""
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    heard = (
        {number: signal.getsignal(number) for number in SIGNALS}
        if threading.current_thread() is threading.main_thread()
        else {}
    )
    try:
        where = address or os.environ.get("RAY_ADDRESS") or "a Ray on this machine"
        with guarded(f"the Ray cluster at {where} cannot be used", error=RunError):
            if address == "local" or not _joined(ray, address, quiet):
                ray.init("local", include_dashboard=False, **quiet)
        for number, handler in heard.items():  # Ray has put one of its own in place
            signal.signal(number, handler)
        yield
    finally:
        ray.shutdown()


def _joined(ray: Any, address: str | None, quiet: dict[str, Any]) -> bool:
    """Connect to a cluster; False if none was named and none runs on this machine."""
    try:
        ray.init(address or "auto", **quiet)
    except ConnectionError:
        if address is not None or "RAY_ADDRESS" in os.environ:
            raise
        return False
    return True


class _Crowd:
    """Workers that are being started, that are free and that are busy.

    Args:
        ray: the library, connected.
        new: asks for a worker, without waiting for it.
    """

    def __init__(self, ray: Any, new: Any) -> None:
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
        self._ray.wait(waiting, num_returns=1, fetch_local=False)
        found, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0, fetch_local=False)
        return list(found)

    def _begun(self, reference: Any) -> list[Exception]:
        """A worker has loaded the task, or what keeps it from that."""
        worker = self._starting.pop(reference)
        try:
            failure: Exception | None = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._replace(worker)
            self._stillborn += 1
            return _cannot_start(self._stillborn, error)
        if failure is not None:
            return [failure]
        self._free.append(worker)
        return []

    def _replace(self, worker: Any) -> None:
        with suppress(self._ray.exceptions.RayError, ValueError):  # it may be dead, or only out of reach
            self._ray.kill(worker)
        self.start(1)

    def end(self) -> None:
        """Give all workers back, whatever they are doing."""
        ray = self._ray
        free, others = self._free, [*self._starting.values(), *(worker for worker, *_ in self._busy.values())]
        if sys.exc_info()[0] is None:
            with suppress(ray.exceptions.RayError):
                ray.wait([worker.end.remote() for worker in free], num_returns=len(free), timeout=_LAST_WORDS)
        for worker in (*free, *others):
            with suppress(ray.exceptions.RayError, ValueError):
                ray.kill(worker)
        self._starting, self._busy, self._free = {}, {}, []


def _given_up(deaths: int, error: Exception) -> list[Exception]:
    if deaths < _DEATHS:
        return []
    return [
        RunError(
            f"{deaths} workers died over the same input, perhaps for lack of memory ({first_line(error)}); what was "
            "written is safe: resume, with fewer workers on each machine"
        )
    ]


def _cannot_start(deaths: int, error: Exception) -> list[Exception]:
    """Why workers die before they have loaded the task; nothing is said of the first few."""
    missing = [line.strip() for line in str(error).splitlines() if "No module named" in line]
    if missing:
        return [
            RunError(
                f"a worker of the Ray cluster cannot be started ({missing[-1]}); install the same version of lvmrs, "
                "and what the job needs, on all nodes"
            )
        ]
    if deaths <= _DEATHS:
        return []
    return [
        RunError(
            f"{deaths} workers of the Ray cluster died before they had loaded the job, perhaps for lack of memory "
            f"({first_line(error)}); what was written is safe: resume, with fewer workers"
        )
    ]
