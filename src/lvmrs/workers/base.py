"""What all kinds of workers have in common."""

from __future__ import annotations

import pickle
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from lvmrs import _checks
from lvmrs.errors import RunError, first_line

__all__ = ["Each", "Here", "Task", "Workers", "attempted", "bytes_of", "checked_workers"]

Task = Callable[[Any], Any]
"""What is done for each item. Workers elsewhere get a pickle of it, once."""
Each = Callable[[Iterable[Any]], Iterator[list[Any]]]
"""Has the task done for items. Results come in lists of those that are there at a time, each once."""


class Workers(ABC):
    """Who computes. Inputs, options and results are the same for all kinds, so that rows are the same."""

    elsewhere: ClassVar[bool] = True
    """Whether other processes compute, which get a pickle of the task."""

    @property
    def device(self) -> str | None:
        """The device that each worker has for the model; None if it is where the task says."""
        return None

    @property
    @abstractmethod
    def size(self) -> int:
        """How many workers were asked for."""

    @property
    def ready(self) -> int:
        """How many workers can work at present."""
        return self.size

    @abstractmethod
    def doing(self, task: Task, *, most: int | None = None, files: Iterable[Path] = ()) -> AbstractContextManager[Each]:
        """A ``with`` block in which workers do a task for the items that they are given.

        Args:
            task: the task.
            most: how many workers can be of use at most; None if that is not known.
            files: files that loading the task needs. Workers on machines that do not see them get copies.
        """


class Here(Workers):
    """The process that asks computes.

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
        """Do the task for one item after the other."""
        yield lambda items: ([task(item)] for item in items)


def checked_workers(workers: Workers | None) -> Workers:
    """The workers that were given; by default this process."""
    workers = Here() if workers is None else workers
    _checks.instance("workers", workers, Workers, "Here, Processes or Ray of lvmrs.workers")
    return workers


def bytes_of(result: object) -> int:
    """How large a result is, if it says so with an attribute ``nbytes``, as arrays do; else it is small."""
    return int(getattr(result, "nbytes", 0))


def attempted(task: Task, item: object) -> tuple[Any, Exception | None]:
    """The result of a task, and None; or None, and an exception that another process can be told."""
    try:
        return task(item), None
    except BaseException as error:  # whatever the user's code raises
        return None, _sendable(error)


def _sendable(error: BaseException) -> Exception:
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
