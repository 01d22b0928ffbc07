"""Running a task on many items, in order, in this process or in several processes of this machine.

Each process has a pipe and nothing else: no locks or files that could be left behind. It ends with the process that
started it, however that ends.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from lvmrs._stopping import SIGNALS
from lvmrs.errors import RunError, first_line
from lvmrs.jobs.packing import Packed, packed, unpacked

__all__ = ["spread"]

# Not forked: torch's threads do not survive that.
_CONTEXT = get_context("spawn")


@contextmanager
def spread(processes: int, task: Callable[[Any], Any]) -> Iterator[Callable[[Iterable[Any]], Iterator[Any]]]:
    """A function that does the task for each of several things, in so many processes; results come in order."""
    if processes <= 1:
        yield partial(map, task)
        return
    content = packed(task)
    workers: list[_Worker] = []
    try:
        with _deaf():
            for _ in range(processes):
                workers.append(_Worker(content))
        yield partial(_in_order, workers)
    finally:
        for worker in workers:
            worker.end()


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes that are started in this block do not hear signals to stop: their parent does, and ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        resource_tracker.ensure_running()  # a process of Python's own; starting it lets the signals through again
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Worker:
    """A process that does the task for one item at a time."""

    def __init__(self, content: Packed) -> None:
        self.pipe, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_work, args=(content, theirs))
        self._process.start()
        theirs.close()

    def begin(self, item: object) -> None:
        """Have the task done for an item."""
        with _alive():
            self.pipe.send(item)

    def result(self) -> Any:
        """Wait for the result."""
        with _alive():
            result, failure = self.pipe.recv()
        if failure is not None:
            raise failure
        return result

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self.pipe.close()
        self._process.kill()
        self._process.join()
        self._process.close()


@contextmanager
def _alive() -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError) as error:
        raise RunError(
            "a process that was to compute rows was killed, perhaps for lack of memory; what was written is safe: "
            "resume, with fewer processes"
        ) from error


def _in_order(workers: Sequence[_Worker], items: Iterable[Any]) -> Iterator[Any]:
    """Give each free worker the next item; a result that comes early waits for those before it."""
    waiting = enumerate(items)
    busy: dict[object, tuple[_Worker, int]] = {}
    early: dict[int, Any] = {}
    following = 0

    def begin(worker: _Worker) -> None:
        for number, item in waiting:
            worker.begin(item)
            busy[worker.pipe] = worker, number
            return

    for worker in workers:
        begin(worker)
    while busy:
        for pipe in wait([worker.pipe for worker, _ in busy.values()]):
            worker, number = busy.pop(pipe)
            early[number] = worker.result()
            begin(worker)
        while following in early:
            yield early.pop(following)
            following += 1


def _work(content: Packed, pipe: Connection) -> None:
    """What a process does: the task for each item that comes, until no more can come."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    task: Callable[[Any], Any] | None = None
    failure: BaseException | None
    while True:
        try:
            item = pipe.recv()
        except EOFError:
            return
        try:
            if task is None:
                task = unpacked(content)
            result, failure = task(item), None
        except BaseException as error:  # whatever the user's code raises
            result, failure = None, _sendable(error)
        pipe.send((result, failure))


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
    os._exit(1)


def _sendable(error: BaseException) -> BaseException:
    """The error, if it can be pickled; a note says where it was raised, which pickles do not."""
    where = "".join(traceback.format_exception(error))
    try:
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 (it was made here)
    except Exception:  # an exception of the user's own that cannot be pickled
        again = RunError(f"{type(error).__name__}: {first_line(error)}")
    if not isinstance(again, Exception):  # sys.exit in the user's code must not end the program
        again = RunError(f"{type(error).__name__} was raised in a process that computes rows")
    again.add_note(f"in another process:\n{where}")
    return again  # type: ignore[no-any-return]
