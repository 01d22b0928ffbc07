"""Progress on stderr, where somebody is looking."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lvmrs.runs import Row

__all__ = ["Watcher", "duration", "stepping", "watching"]


class Watcher:
    """Counts the rows of a run and shows them."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._task = progress, progress.add_task("", total=None, rate="", accuracy="")
        self._samples_each = self._right = self._seen = self._before = 0

    @property
    def done(self) -> int:
        """Inputs that have a row."""
        return self._before + self._seen

    def begin(self, inputs: int, samples_each: int, *, done: int = 0) -> None:
        """So many inputs are to come, each with so many samples; ``done`` inputs have a row already."""
        self._samples_each, self._before = samples_each, done
        self._progress.update(self._task, total=inputs)

    def row(self, row: Row) -> None:
        """Show inputs done, samples a second, time left and the certified accuracy so far."""
        self._right, self._seen = self._right + row.correct, self._seen + 1
        task = self._progress.tasks[self._task]
        speed = task.finished_speed or task.speed or 0.0
        rate = f"{speed * self._samples_each:,.0f} samples/s" if speed else ""
        accuracy = f"certified accuracy {self._right / self._seen:.1%}"
        self._progress.update(self._task, advance=1, rate=rate, accuracy=accuracy)


@contextmanager
def watching() -> Iterator[Watcher]:
    """Show the progress of a run on stderr, if that is a terminal."""
    console = Console(stderr=True)
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[accuracy]}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        yield Watcher(progress)


@contextmanager
def stepping(steps: int) -> Iterator[Callable[[int], None]]:
    """Show how many steps are done and the time left on stderr, if that is a terminal."""
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=steps)
        yield lambda done: progress.update(task, completed=done)


def duration(seconds: float) -> str:
    """A rough time, in words."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
