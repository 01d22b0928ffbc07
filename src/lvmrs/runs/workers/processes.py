"""Worker processes on this machine. Results come in the order of the items."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import islice
from multiprocessing import parent_process, resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any, ClassVar

from lvmrs._util.signals import SIGNALS
from lvmrs.errors import InvalidArgumentError, RunError
from lvmrs.kernel import checks
from lvmrs.runs.workers.base import Each, Pickled, Task, Workers, attempt, pickled, unpickled

# At most _AHEAD items per process are submitted before the first of them is finished; fewer if their results would
# exceed _BYTES bytes together.
_AHEAD, _BYTES = 16, 1 << 28
# Seconds in which idle processes may end by themselves, so that libraries in them can clean up.
_PATIENCE = 5.0


class Processes(Workers):
    """Processes on this machine with one thread each. They end with the process that started them, however it ends.

    Args:
        count: number of processes.
        gpus: the GPU of each process, named as CUDA_VISIBLE_DEVICES names it; empty for processes that share devices.
    """

    def __init__(self, count: int, gpus: Sequence[str] = ()) -> None:
        self._size = checks.count("count", count, least=1)
        self._gpus = tuple(gpus)
        if self._gpus and len(self._gpus) != self._size:
            raise InvalidArgumentError(f"{self._size} processes need as many GPUs, got {len(self._gpus)}")

    @classmethod
    def on_all_gpus(cls) -> Processes | None:
        """One process for each GPU of this machine that may be used; None if there are fewer than two."""
        import torch

        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        names = visible.split(",") if visible else [str(number) for number in range(torch.cuda.device_count())]
        names = names[: torch.cuda.device_count()]
        return cls(len(names), names) if len(names) > 1 else None

    @property
    def device(self) -> str | None:
        """The GPU that each process sees; None for the device of the task."""
        return "cuda" if self._gpus else None

    @property
    def size(self) -> int:
        """Number of processes."""
        return self._size

    @contextmanager
    def doing(self, task: Task, *, most: int | None = None, files: Iterable[Path] = ()) -> Iterator[Each]:
        """Start processes as items arrive, and end all of them after the block."""
        asked = self._size
        size = asked if most is None else max(1, min(asked, most))
        context = _Context()
        gpus = context.SimpleQueue()
        for name in self._gpus:
            gpus.put(name)
        with _signals_blocked():
            pool = ProcessPoolExecutor(size, context, _initialize, (pickled(task), gpus if self._gpus else None))
        try:
            self._size = size
            yield partial(_in_order, pool, size)
        except BaseException:
            context.kill()
            raise
        finally:
            self._size = asked
            killing = threading.Timer(_PATIENCE, context.kill)
            killing.start()
            pool.shutdown(cancel_futures=True)
            killing.cancel()
            killing.join()
            context.join()


class _Process(SpawnProcess):
    """A process that blocks stop signals: its parent handles them, and ends the process."""

    def start(self) -> None:
        """Start the process with stop signals blocked; a process inherits the signal mask."""
        with _signals_blocked():
            super().start()


class _Context(SpawnContext):
    """Starts and kills the processes of a pool. They are spawned, since torch's threads do not survive a fork."""

    def __init__(self) -> None:
        self._started: list[_Process] = []

    def Process(self, *given: Any, **named: Any) -> _Process:  # type: ignore[override]  # noqa: N802
        process = _Process(*given, **named)
        self._started.append(process)
        return process

    def kill(self) -> None:
        for process in self._started:
            if process.pid is not None:
                process.kill()
        self.join()

    def join(self) -> None:
        """Wait until all processes have ended."""
        for process in self._started:
            if process.pid is not None:
                process.join()


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block stop signals in this thread and in processes that are started in the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        resource_tracker.ensure_running()  # a process of Python's own; starting it unblocks some signals
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_order(pool: ProcessPoolExecutor, size: int, items: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield the results of items in order. Bounds the number of submitted items, and so the memory for results.

    Items and results are pickled here: a pool sends tensors through sockets, whose files a killed process leaves.
    """
    following = iter(items)
    submitted = deque[Future[bytes]]()

    def submit(window: int) -> None:
        for item in islice(following, max(0, window - len(submitted))):
            submitted.append(pool.submit(_run, pickle.dumps(item)))

    largest = 1
    try:
        submit(size)
        while submitted:
            content = submitted.popleft().result()
            result, failure = pickle.loads(content)  # noqa: S301 (from a process of this command)
            if failure is not None:
                raise failure
            largest = max(largest, len(content))
            submit(max(size, min(_AHEAD * size, _BYTES // largest)))
            yield [result]
    except BrokenProcessPool as error:
        raise RunError(
            "a worker process was killed, perhaps for lack of memory; rows already written are safe: "
            "resume, with fewer processes"
        ) from error


class _Child:
    """The state of a process of the pool."""

    pickled: ClassVar[Pickled]
    task: ClassVar[Task | None] = None


def _initialize(content: Pickled, gpus: SimpleQueue[str] | None) -> None:
    """Called in each process when it starts."""
    if gpus is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus.get()  # read when torch first uses a GPU
    import torch

    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    _Child.pickled = content


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
    os._exit(1)


def _run(item: bytes) -> bytes:
    """Called in a process for each item."""
    return pickle.dumps(attempt(_load_and_run, item))


def _load_and_run(item: bytes) -> Any:
    """Load the task before the first item, so that loading errors are reported like errors of the item."""
    if _Child.task is None:
        _Child.task = unpickled(_Child.pickled)
    return _Child.task(pickle.loads(item))  # noqa: S301 (from the command)
