"""The interface of all kinds of workers, and how tasks and errors pass between processes."""

from __future__ import annotations

import io
import pickle
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import FunctionType
from typing import Any, ClassVar, NamedTuple

from lvmrs._util.user_code import Origin, origin_of, reimport
from lvmrs.errors import ModelError, RunError, first_line
from lvmrs.kernel import checks
from lvmrs.registry import PARTS

Task = Callable[[Any], Any]
"""A function that workers call for each item. Workers in other processes get a pickle of it, once."""
Each = Callable[[Iterable[Any]], Iterator[list[Any]]]
"""Has workers run the task on items. Yields lists of results, each result once."""

# Deferred workers are started if this process would need more than _LONG seconds for the remaining items (each worker
# imports torch). The first item may import libraries, so the time of an item is measured on the next _MEASURED items.
_MEASURED, _LONG = 5, 10.0
# Seconds after which Deferred yields its results: the receiver syncs the disk once for each list.
_TOGETHER = 0.1


class Workers(ABC):
    """Runs a task on many items. Results do not depend on the kind or the number of workers."""

    elsewhere: ClassVar[bool] = True
    """Whether other processes compute; they get a pickle of the task."""

    @property
    def device(self) -> str | None:
        """The device on which each worker runs the model; None for the device of the task."""
        return None

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of requested workers."""

    @property
    def ready(self) -> int:
        """Number of workers that have loaded the task."""
        return self.size

    @abstractmethod
    def doing(self, task: Task, *, most: int | None = None, files: Iterable[Path] = ()) -> AbstractContextManager[Each]:
        """Start workers, and stop them at the end of the ``with`` block.

        Args:
            task: the function that workers call for each item.
            most: number of items, if it is known; no more workers are started.
            files: files that a worker reads when it loads the task. They are sent to machines that may lack them.
        """


class Here(Workers):
    """Computes in the calling process.

    >>> with Here().doing(abs) as each:
    ...     list(each([-1, 2]))
    [[1], [2]]
    """

    elsewhere = False

    @property
    def size(self) -> int:
        """One."""
        return 1

    @contextmanager
    def doing(self, task: Task, *, most: int | None = None, files: Iterable[Path] = ()) -> Iterator[Each]:
        """Compute one item after the other."""
        yield lambda items: ([task(item)] for item in items)


class Deferred(Workers):
    """Computes in this process, and starts other workers if the remaining items would take long.

    Args:
        others: the workers to start.
        clock: returns the time in seconds.
    """

    def __init__(self, others: Workers, clock: Callable[[], float] = time.perf_counter) -> None:
        self._others, self._clock = others, clock

    @property
    def size(self) -> int:
        """Number of workers if the others are started."""
        return self._others.size

    @contextmanager
    def doing(self, task: Task, *, most: int | None = None, files: Iterable[Path] = ()) -> Iterator[Each]:
        """Compute in this process until the remaining items would take long."""
        with ExitStack() as block:

            def each(items: Iterable[Any]) -> Iterator[list[Any]]:
                left = list(items)[::-1]
                if left:
                    yield [task(left.pop())]
                begun = yielded = self._clock()
                done, results = 0, list[Any]()
                while left:
                    try:
                        results.append(task(left.pop()))
                    except Exception:
                        if results:
                            yield results
                        raise
                    done, now = done + 1, self._clock()
                    takes_long = done >= _MEASURED and (now - begun) / done * len(left) > _LONG
                    if takes_long or not left or now - yielded >= _TOGETHER:
                        yield results
                        yielded, results = self._clock(), []
                    if takes_long:
                        others = block.enter_context(self._others.doing(task, most=len(left), files=files))
                        yield from others(left[::-1])
                        return

            yield each


def checked_workers(workers: Workers | None) -> Workers:
    """The given workers; by default this process."""
    workers = Here() if workers is None else workers
    checks.instance("workers", workers, Workers, "Here, Processes or Ray of lvmrs.runs.workers")
    return workers


class Pickled(NamedTuple):
    """A pickled object for another process, which imports the user's modules before it unpickles the object."""

    modules: tuple[Origin, ...]
    """The user's files with classes and functions of the object."""
    content: bytes
    """A pickle of the user's parts in the registry and of the object."""


def pickled(content: object) -> Pickled:
    """Pickle an object for another process."""
    out = io.BytesIO()
    pickler = _NotingPickler(out)
    pickler.dump(([names.added for names in PARTS], content))
    return Pickled(tuple(pickler.origins), out.getvalue())


class _NotingPickler(pickle.Pickler):
    """Records the user's files whose classes and functions are pickled."""

    def __init__(self, out: io.BytesIO) -> None:
        super().__init__(out)
        self.origins: dict[Origin, None] = {}

    def persistent_id(self, value: object) -> None:
        """Record the file of a class or function; returns None, so that the object is pickled as usual."""
        if isinstance(value, (type, FunctionType)) and (origin := origin_of(value.__module__)) is not None:
            self.origins[origin] = None


def unpickled(given: Pickled) -> Any:
    """Import the user's modules, register the user's parts, and unpickle the object."""
    reimport(given.modules, error=ModelError)
    added, content = pickle.loads(given.content)  # noqa: S301 (the command that pickled it is trusted)
    for names, parts in zip(PARTS, added, strict=True):
        for part in parts:
            names.add(part)
    return content


def attempt(task: Task, item: object) -> tuple[Any, Exception | None]:
    """The result of a task and None, or None and an exception that can be pickled."""
    try:
        return task(item), None
    except BaseException as error:  # the user's code may raise anything
        return None, _picklable(error)


def _picklable(error: BaseException) -> Exception:
    """The error, or a RunError that quotes an error that cannot be pickled. A note has the traceback."""
    try:
        found = pickle.loads(pickle.dumps(error))  # noqa: S301 (made in this line)
    except Exception:  # pickling a class of the user's may raise anything
        found = RunError(f"{type(error).__name__}: {first_line(error)}")
    if not isinstance(found, Exception):  # sys.exit in the user's code must not end the command
        found = RunError(f"{type(error).__name__} was raised in a worker process")
    found.add_note("in another process:\n" + "".join(traceback.format_exception(error)))
    return found  # type: ignore[no-any-return]
