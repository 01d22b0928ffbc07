"""Several processes of this machine that do a task; results come in the order of the items.

Each process has a pipe and nothing else: no locks or files that could be left behind. It ends with the process that
started it, however that ends.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from lvmrs import _checks
from lvmrs._stopping import SIGNALS
from lvmrs.errors import RunError
from lvmrs.workers.base import Each, Task, Workers, attempted, bytes_of
from lvmrs.workers.packing import Packed, packed, unpacked

__all__ = ["Processes"]

# About how many bytes results may have that wait for an earlier one.
_EARLY_BYTES = 1 << 28
# Processes that have nothing to do are given so many seconds to end.
_PATIENCE = 1.0
# Not forked: torch's threads do not survive that.
_CONTEXT = get_context("spawn")


class Processes(Workers):
    """Processes of this machine, each with one thread.

    Args:
        count: how many.
    """

    def __init__(self, count: int) -> None:
        self._size = _checks.count("count", count, least=1)

    @property
    def size(self) -> int:
        """How many there are."""
        return self._size

    @contextmanager
    def doing(self, task: Task, *, most: int | None = None, files: Iterable[Path] = ()) -> Iterator[Each]:
        """Start the processes, and end them after the block."""
        content = packed(task)
        workers: list[_Worker] = []
        asked = self._size
        self._size = asked if most is None else max(1, min(asked, most))
        try:
            with _deaf():
                for _ in range(self._size):
                    workers.append(_Worker(content))
            yield partial(_in_order, workers)
        finally:
            self._size = asked
            for worker in workers:
                worker.dismiss()
            patience = time.monotonic() + _PATIENCE
            for worker in workers:
                worker.end(patience - time.monotonic())


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

    def dismiss(self) -> None:
        """Let the process end by itself, which cleans up what libraries have made in it, unless it is busy."""
        self.pipe.close()

    def end(self, patience: float) -> None:
        """Wait for the end of the process for so many seconds, and then end it, whatever it is doing."""
        self._process.join(max(0.0, patience))
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


def _in_order(workers: Sequence[_Worker], items: Iterable[Any]) -> Iterator[list[Any]]:
    """Give each free worker the next item; a result that comes early waits for those before it.

    If the results that wait are large, workers are free until the one that they wait for has come.
    """
    waiting = enumerate(items)
    busy: dict[object, tuple[_Worker, int]] = {}
    early: dict[int, Any] = {}
    free = list(workers)
    following = 0

    def begin() -> None:
        while free and sum(map(bytes_of, early.values())) < _EARLY_BYTES:
            for number, item in waiting:
                worker = free.pop()
                worker.begin(item)
                busy[worker.pipe] = worker, number
                break
            else:
                return

    begin()
    while busy:
        for pipe in wait([worker.pipe for worker, _ in busy.values()]):
            worker, number = busy.pop(pipe)
            early[number] = worker.result()
            free.append(worker)
        begin()
        while following in early:
            yield [early.pop(following)]
            following += 1
        begin()


def _work(content: Packed, pipe: Connection) -> None:
    """What a process does: the task for each item that comes, until no more can come."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    task = _Once(content)
    while True:
        try:
            item = pipe.recv()
        except EOFError:
            return
        done = attempted(task, item)
        try:
            pipe.send(done)
        except OSError:  # nobody waits for it any more
            return


class _Once:
    """The task, unpacked when it is first done: what fails then is told as a failure of the item."""

    def __init__(self, content: Packed) -> None:
        self._content = content
        self._task: Task | None = None

    def __call__(self, item: object) -> Any:
        if self._task is None:
            self._task = unpacked(self._content)
        return self._task(item)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
    os._exit(1)
