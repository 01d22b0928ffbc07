"""Workers on a Ray cluster, or on a Ray instance on this machine.

Ray places the workers, sends the user's files to them, and reports dead workers. A worker loads the task once, and
computes one item at a time. If a worker or its machine dies, another worker gets the item, and a new worker is
requested. A result is taken once, from the worker that has the item, so no result is lost or duplicated.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from lvmrs import errors
from lvmrs._util import files as _disk
from lvmrs._util.files import is_file, redirect
from lvmrs._util.signals import SIGNALS
from lvmrs._util.text import optional
from lvmrs.errors import InvalidArgumentError, LvmrsError, RunError, first_line, guarded
from lvmrs.kernel import checks
from lvmrs.runs.workers.base import Each, Pickled, Task, Workers, attempt, pickled, unpickled

_ADDRESS = re.compile(r"local|(?:ray://)?[A-Za-z0-9._-]+:(?P<port>[0-9]{1,5})")
_LAST_PORT = (1 << 16) - 1
# Name of the module that carries the user's files to nodes, and its maximum size in bytes: Ray refuses 512 MB.
_SENT, _MOST_BYTES = "lvmrs_sent_files", 400 * 10**6
# Number of workers that may die over one item before the command gives up.
_DEATHS = 5
# Seconds to wait if there is no worker: a cluster may add machines on request.
_PATIENCE = 1800.0
# Maximum number of results per list, and the number of bytes (of kept scores) after which a list is yielded.
_AT_A_TIME, _BYTES_AT_A_TIME = 256, 1 << 28
# Errors whose message gets the name of the machine.
_PLAIN = (errors.DataError, errors.InvalidArgumentError, errors.ModelError, errors.ProofError, errors.RunError)


class Ray(Workers):
    """Workers on a Ray cluster, or on a Ray instance that is started on this machine.

    Args:
        address: the address of the head node, such as "10.0.0.1:6379"; "local" starts Ray on this machine. By default
            ``$RAY_ADDRESS``, or a Ray instance that runs on this machine, or a new one.
        workers: number of workers; by default as many as fit into the cluster now.
        cpus: CPUs of each worker, and number of its threads.
        gpus: GPUs of each worker; a fraction such as 0.5 is possible.
    """

    def __init__(
        self, address: str | None = None, *, workers: int | None = None, cpus: int = 1, gpus: float = 0.0
    ) -> None:
        self.address = None if address is None else _address(address)
        self.wanted = None if workers is None else checks.count("workers", workers, least=1)
        self.cpus = checks.count("cpus", cpus, least=1)
        self.gpus = checks.nonnegative_number("gpus", gpus)
        self._size = self.wanted or 1
        self._pool: ActorPool | None = None

    @property
    def device(self) -> str | None:
        """The GPU that Ray assigns to a worker; None without GPUs."""
        return "cuda" if self.gpus else None

    @property
    def size(self) -> int:
        """Number of requested workers; the default number is known once the cluster is connected."""
        return self._size

    @property
    def ready(self) -> int:
        """Number of workers that have loaded the task."""
        return 0 if self._pool is None else self._pool.ready

    @contextmanager
    def doing(self, task: Task, *, most: int | None = None, files: Iterable[Path] = ()) -> Iterator[Each]:
        """Request workers from the cluster, and release them after the block."""
        with connected(self.address, files) as ray:
            fitting = self._fitting(ray)  # always checked: a worker that fits on no node never starts
            self._size = self.wanted or fitting
            if most is not None:
                self._size = max(1, min(self._size, most))
            actor = ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_restarts=0)(RayWorker)
            with guarded("the job cannot be put into Ray's object store", error=RunError):
                content = ray.put(pickled(task))
            self._pool = ActorPool(ray, lambda: actor.remote(content, versions(), self.cpus))
            try:
                self._pool.start(self._size)
                yield self._pool.each
            finally:
                self._pool.end()
                self._pool = None

    def _fitting(self, ray: Any) -> int:
        """Number of workers that fit into the cluster if it is idle."""
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


def _address(text: object) -> str:
    """Check an address: Ray would look up any other word in the network."""
    found = _ADDRESS.fullmatch(checks.text("address", text))
    if found is None or (found["port"] is not None and int(found["port"]) > _LAST_PORT):
        raise InvalidArgumentError(f"ray must be HOST:PORT, such as 10.0.0.1:6379, or local, got {text!r:.80}")
    return found[0]


@contextmanager
def connected(address: str | None, files: Iterable[Path] = ()) -> Iterator[Any]:
    """Connect to a cluster and send it files, or start Ray on this machine; the block gets the ray module.

    An existing connection of the caller is used unchanged, and stays open; no files are sent then.
    """
    ray = optional("ray", extra="ray", error=RunError)
    if ray.is_initialized():
        yield ray
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    in_main_thread = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in SIGNALS} if in_main_thread else {}
    try:
        where = address or os.environ.get("RAY_ADDRESS") or "a Ray on this machine"
        with guarded(f"the Ray cluster at {where} cannot be used; does it run, and ask for a token?", error=RunError):
            if address == "local" or not _joined(ray, address, files, quiet):
                ray.init("local", include_dashboard=False, **quiet)
        for number, handler in handlers.items():  # Ray has replaced them
            signal.signal(number, handler)
        yield ray
    finally:
        ray.shutdown()


def _joined(ray: Any, address: str | None, files: Iterable[Path], quiet: dict[str, Any]) -> bool:
    """Connect to a cluster; False if no address was given and no Ray runs on this machine."""
    with tempfile.TemporaryDirectory(prefix="lvmrs-") as folder:
        with guarded("the files that the job needs cannot be copied, to send them to Ray", error=RunError):
            copies = copy_files(files, Path(folder, _SENT))
        sent = {"runtime_env": {"py_modules": [str(copies)]}} if copies.exists() else {}
        try:
            ray.init(address or "auto", **sent, **quiet)
        except ConnectionError:
            if address is not None or "RAY_ADDRESS" in os.environ:
                raise
            return False
    return True


def copy_files(files: Iterable[Path], folder: Path, most: int = _MOST_BYTES) -> Path:
    """Copy files into a folder, each under its absolute path; at most ``most`` bytes, the smallest files first.

    A Python file is copied with the modules and packages beside it, which it may import.
    """
    named = set(files)
    wanted = named.union(*(_modules_beside(file) for file in named if file.suffix == ".py"))
    for path in sorted(wanted, key=lambda path: (path.stat().st_size, path)):
        most -= path.stat().st_size
        if most < 0:
            break
        _disk.copy_file(path, folder / os.path.normpath(path).lstrip("/"))
    return folder


def _modules_beside(file: Path) -> list[Path]:
    """The readable modules and packages beside a file, without pipes and dangling links."""
    packages = [folder.parent for folder in file.parent.glob("*/__init__.py")]
    found = [*file.parent.glob("*.py"), *(found for package in packages for found in package.rglob("*.py"))]
    return [path for path in found if is_file(path) and os.access(path, os.R_OK)]


def use_copies(folder: Path) -> None:
    """Read files from their copies in a folder from now on."""
    for copy in filter(is_file, folder.rglob("*")):
        redirect(Path("/") / copy.relative_to(folder), copy)


def versions() -> dict[str, str]:
    """Versions of the libraries that affect rows: all machines must have the same."""
    return {name: version(name) for name in ("lvmrs", "torch", "numpy")}


class RayWorker:
    """A worker on a node of a Ray cluster, which wants the same versions of libraries as the machine of the command."""

    def __init__(self, content: Pickled, wanted: dict[str, str], threads: int) -> None:
        self._content: Pickled | None = content
        self._wanted, self._threads = wanted, threads
        self._task: Task | None = None

    def load(self) -> tuple[None, Exception | None]:
        """Load the task; returns None and the error, if loading fails."""
        self._task, failure = attempt(self._loaded, None)
        return None, failure

    def _loaded(self, _: object) -> Task:
        import torch

        if (here := versions()) != self._wanted:
            told = ", ".join(
                f"{name} {here[name]} and not {self._wanted[name]}" for name in here if here[name] != self._wanted[name]
            )
            raise RunError(f"the worker on {_node()} has {told}; rows could differ: install the same on all nodes")
        torch.set_num_threads(self._threads)
        content, self._content = self._content, None  # frees memory: the task has all that it needs
        assert content is not None  # noqa: S101 (it is loaded once)
        if (sent := find_spec(_SENT)) is not None and sent.submodule_search_locations:
            use_copies(Path(next(iter(sent.submodule_search_locations))))
        try:
            return unpickled(content)  # type: ignore[no-any-return]
        except (LvmrsError, OSError) as error:
            raise RunError(
                f"the worker on {_node()} cannot load the job: {error}; put code, weights and data where all nodes see "
                "them"
            ) from error

    def run(self, item: object) -> tuple[Any, Exception | None]:
        """The result for an item, or the error."""
        return attempt(self._named, item)

    def _named(self, item: object) -> Any:
        """Run the task; errors name the machine."""
        assert self._task is not None  # noqa: S101 (load is called before run)
        try:
            return self._task(item)
        except LvmrsError as error:
            if _is_missing(error):
                raise RunError(f"{error} (on {_node()}); put it where all nodes see it") from error
            if type(error) not in _PLAIN:
                raise
            raise type(error)(f"{error} (on {_node()})") from error


def _node() -> str:
    return socket.gethostname()


def _is_missing(error: BaseException | None) -> bool:
    """Whether the cause of an error is a file that does not exist."""
    while error is not None:
        if isinstance(error, FileNotFoundError):
            return True
        error = error.__cause__ or error.__context__
    return False


class _Call(NamedTuple):
    """A call of a worker that has not finished."""

    worker: Any
    number: int | None
    """Number of the item; None while the worker loads the task."""
    item: Any = None


class ActorPool:
    """Workers that load the task, are idle, or compute an item.

    ``new`` requests an actor with the methods of ``RayWorker`` from Ray, without waiting for it.
    """

    def __init__(self, ray: Any, new: Callable[[], Any]) -> None:
        self._ray, self._new = ray, new
        self._calls: dict[Any, _Call] = {}
        self._free: list[Any] = []
        self._failed_starts = 0

    @property
    def ready(self) -> int:
        """Number of workers that have loaded the task."""
        return len(self._free) + self._busy

    @property
    def _busy(self) -> int:
        return sum(call.number is not None for call in self._calls.values())

    def start(self, number: int) -> None:
        """Request workers."""
        for _ in range(number):
            worker = self._new()
            self._calls[worker.load.remote()] = _Call(worker, None)

    def each(self, items: Iterable[Any]) -> Iterator[list[Any]]:
        """Compute items. Yields lists of results as they finish; a failure is raised after the results."""
        following, waiting = enumerate(items), deque[tuple[int, Any]]()
        deaths: Counter[int] = Counter()

        def assign() -> None:
            waiting.extend(islice(following, max(0, len(self._free) + 1 - len(waiting))))  # one more: is any left?
            while self._free and waiting:
                worker, (number, item) = self._free.pop(), waiting.popleft()
                self._calls[worker.run.remote(item)] = _Call(worker, number, item)

        assign()
        while waiting or self._busy:
            done: list[Any] = []
            failures: list[Exception | None] = []
            for reference in self._finished():
                worker, number, item = self._calls.pop(reference)
                try:
                    result, failure = self._ray.get(reference)
                except self._ray.exceptions.RayError as error:  # the worker, its machine, or its result is lost
                    self._kill(worker)
                    self.start(1)
                    if number is None:
                        failures.append(self._failed_start(error))
                        continue
                    waiting.appendleft((number, item))
                    deaths[number] += 1
                    if deaths[number] >= _DEATHS:
                        what = f"{_DEATHS} workers died while they computed the same input"
                        failures.append(_for_lack_of_memory(what, error, "with fewer workers on each machine"))
                    continue
                self._free.append(worker)
                failures.append(failure)
                if number is None:
                    self._failed_starts = 0
                elif failure is None:
                    done.append(result)
                    if sum(getattr(result, "nbytes", 0) for result in done) >= _BYTES_AT_A_TIME:
                        break  # the next pass takes the others
            failure = next(filter(None, failures), None)
            if failure is None:
                assign()  # before the results are written, so that workers do not wait
            if done:
                yield done
            if failure is not None:
                raise failure

    def _finished(self) -> list[Any]:
        """Wait for a call to finish, and return all finished calls."""
        calls = list(self._calls)
        patience = None if self._busy else _PATIENCE
        found, _ = self._ray.wait(calls, num_returns=1, timeout=patience, fetch_local=False)
        if not found:
            raise RunError(
                f"the Ray cluster has had no room for a worker for {_PATIENCE / 60:.0f} minutes; rows already written "
                "are safe: resume when there is room"
            )
        found, _ = self._ray.wait(calls, num_returns=len(calls), timeout=0, fetch_local=False)
        return list(found[:_AT_A_TIME])

    def _failed_start(self, error: Exception) -> Exception | None:
        """The error after a worker died before it had loaded the task; None if another may be tried."""
        self._failed_starts += 1
        if missing := [line.strip() for line in str(error).splitlines() if "No module named" in line]:
            return RunError(
                f"a worker of the Ray cluster cannot be started ({missing[-1]}); install the same version of lvmrs, "
                "and what the job needs, on all nodes"
            )
        workers = len(self._free) + len(self._calls)
        if self._failed_starts <= _DEATHS + 2 * workers:  # when a machine dies, many workers die
            return None
        what = f"{self._failed_starts} workers of the Ray cluster died before they had loaded the job"
        return _for_lack_of_memory(what, error, "with fewer workers")

    def _kill(self, worker: Any) -> None:
        with suppress(self._ray.exceptions.RayError, ValueError):  # it may be dead or unreachable
            self._ray.kill(worker)

    def end(self) -> None:
        """Release all workers, including those that compute."""
        for worker in (*self._free, *(call.worker for call in self._calls.values())):
            self._kill(worker)
        self._calls, self._free = {}, []


def _for_lack_of_memory(what: str, error: Exception, advice: str) -> RunError:
    why = f"perhaps for lack of memory ({first_line(error)})"
    return RunError(f"{what}, {why}; rows already written are safe: resume, {advice}")
