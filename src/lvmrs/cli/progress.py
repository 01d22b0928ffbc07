"""Progress on stderr, where somebody is looking."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lvmrs.runs import Row

__all__ = ["duration", "stepping", "watching"]


@contextmanager
def watching(inputs: int, samples_each: int) -> Iterator[Callable[[Row], None]]:
    """Shows inputs done, samples a second, time left and the certified accuracy so far; nothing but for a terminal."""
    console = Console(stderr=True)
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[accuracy]}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=inputs, rate="", accuracy="")
        right = seen = 0

        def show(row: Row) -> None:
            nonlocal right, seen
            right, seen = right + row.correct, seen + 1
            speed = progress.tasks[task].finished_speed or progress.tasks[task].speed or 0.0
            rate = f"{speed * samples_each:,.0f} samples/s" if speed else ""
            progress.update(task, advance=1, rate=rate, accuracy=f"certified accuracy {right / seen:.1%}")

        yield show


@contextmanager
def stepping(steps: int) -> Iterator[Callable[[int], None]]:
    """Shows the steps done in all and the time left; nothing but for a terminal."""
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
