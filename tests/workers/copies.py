"""Workers of this process that have copies of the task, as those on other machines have, and take turns."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lvmrs.runs import Job
from lvmrs.runs.workers import Workers
from lvmrs.runs.workers.base import Each, Task

__all__ = ["Copies", "as_if_they_had_it"]


def _as_it_is(job: Job) -> None:
    pass


def as_if_they_had_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers take a device that this machine does not have: they compute where they are."""
    monkeypatch.setattr("lvmrs.runs.dispatch.machine", SimpleNamespace(device=lambda device: None))
    monkeypatch.setattr(Job, "on", lambda job, device: job)


class Copies(Workers):
    """Workers for the questions of a job.

    Args:
        changes: for each worker, what its machine does to the job.
        device: the device that all of them have.
    """

    def __init__(self, *changes: Callable[[Job], None], device: str | None = None) -> None:
        self._changes, self._device = changes or (_as_it_is,), device

    @property
    def size(self) -> int:
        return len(self._changes)

    @property
    def device(self) -> str | None:
        return self._device

    @contextmanager
    def doing(self, task: Task, *, most: int | None = None, files: Iterable[Path] = ()) -> Iterator[Each]:
        copies: list[Any] = [pickle.loads(pickle.dumps(task)) for _ in self._changes]  # noqa: S301
        for copy, change in zip(copies, self._changes, strict=True):
            change(copy._job)
        yield lambda items: ([copies[number % len(copies)](item)] for number, item in enumerate(items))
