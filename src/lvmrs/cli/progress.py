"""Progress on stderr: a bar in a terminal, and occasional lines in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lvmrs._util import signals
from lvmrs.analysis.results import CERTIFIED_ACCURACY, CERTIFIED_SHARE
from lvmrs.cli.console import command_line, tell
from lvmrs.record import Row

if TYPE_CHECKING:
    from lvmrs.runs.workers.base import Workers

_FIRST, _GROWTH, _LAST = 10.0, 1.5, 60.0
"""Seconds before the first line of a log, the factor by which the wait grows, and the longest wait."""
_SURE, _SLOW = 20.0, 0.4
"""A run is called slow after this many seconds, if its rate is below this share of the measured rate."""

Clock = Callable[[], float]


class Lines:
    """Progress for a log: a line after ten seconds, then at growing intervals of at most a minute, and at the end."""

    def __init__(self, unit: str, clock: Clock = time.monotonic) -> None:
        self._unit, self._clock = unit, clock
        self.begin(0)

    def begin(self, total: int) -> None:
        """Set the number of units to do."""
        self._total, self._told, self._wait = total, -1, _FIRST
        self._start = self._last = self._clock()

    def show(self, done: int, words: Callable[[float], str] = lambda rate: "") -> None:
        """Print a line if one is due, with what ``words`` returns for the units done per second."""
        now = self._clock()
        at_end = done == self._total and self._told >= 0
        if done != self._told and (at_end or now - self._last >= self._wait):
            self._told, self._last, self._wait = done, now, min(_LAST, _GROWTH * self._wait)
            rate = done / max(now - self._start, 1e-9)
            left = (self._total - done) / rate
            pace = f"{rate:.3g} {self._unit}/s" if rate >= 0.1 else f"{3600 * rate:.3g} {self._unit}/h"
            parts = [f"{done}/{self._total} {self._unit}", pace, words(rate)]
            tell("  ".join(part for part in (*parts, f"about {duration(left)} left" if left else "") if part))
        signals.check()


class _Bar:
    """Progress for a terminal."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._task = progress, progress.add_task("", total=None, words="")

    def begin(self, total: int) -> None:
        """Set the number of units to do."""
        self._progress.update(self._task, total=total)

    def show(self, done: int, words: Callable[[float], str] = lambda rate: "") -> None:
        task = self._progress.tasks[self._task]
        self._progress.update(self._task, completed=done, words=words(task.finished_speed or task.speed or 0.0))
        signals.check()


@contextmanager
def displaying(unit: str, clock: Clock = time.monotonic) -> Iterator[Lines | _Bar]:
    """Show a count of units done, within a ``with`` block; ``unit`` is their name in the plural.

    ``show`` also raises ``KeyboardInterrupt`` after a signal, in case other code caught the first one.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines(unit, clock)
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.fields[words]}"))
    with Progress(*columns, console=console) as progress:
        yield _Bar(progress)


def counted(display: Lines | _Bar) -> Callable[[int, int], None]:
    """What a computation calls with the numbers of units done, from 1, and to do."""

    def show(done: int, total: int) -> None:
        if done == 1:
            display.begin(total)
        display.show(done)

    return show


class Watcher(ExitStack):
    """Counts the rows of a run and shows them, within a ``with`` block."""

    def __init__(self, inputs: int, clock: Clock = time.monotonic, *, workers: Workers | None = None) -> None:
        super().__init__()
        self._workers = workers
        self.inputs = inputs
        """Number of inputs of the run, with and without a row."""
        self._samples_each = self._counted = self._seen = self._before = 0
        self._measure = CERTIFIED_ACCURACY
        self._clock, self._begun, self._expected = clock, clock(), 0.0

    def __enter__(self) -> Watcher:
        """Start the display."""
        self._display = self.enter_context(displaying("inputs", self._clock))
        return self

    @property
    def done(self) -> int:
        """Number of inputs that have a row."""
        return self._before + self._seen

    def begin(self, inputs: int, samples_each: int, *, done: int = 0, rate: float = 0.0) -> None:
        """Set the numbers of inputs without a row (``inputs``) and with one (``done``).

        ``samples_each`` are the samples of an input, and ``rate`` those expected in a second; 0 if that is not known.
        """
        self._samples_each, self._before, self._expected = samples_each, done, rate
        self._display.begin(inputs)
        self._begun = self._clock()

    def row(self, row: Row) -> None:
        """Show inputs done, samples a second, time left and the certified accuracy or share so far."""
        if row.correct is None:
            self._measure = CERTIFIED_SHARE
        self._counted += row.predict >= 0 if row.correct is None else row.correct
        self._seen += 1
        self._tell_if_slow()
        self._display.show(self._seen, self._words)

    def _tell_if_slow(self) -> None:
        """Print once that the run is much slower than expected, and what to do."""
        elapsed = self._clock() - self._begun
        if not self._expected or elapsed < _SURE:
            return
        rate = self._seen * self._samples_each / elapsed
        if rate < _SLOW * self._expected:
            tell(
                f"slow   {rate:,.0f} samples/s, where {self._expected:,.0f} were measured: other programs seem to use "
                "the cores; end them, or stop and go on later with --resume"
            )
            self._expected = 0.0

    def _words(self, rate: float) -> str:
        samples = [f"{rate * self._samples_each:,.0f} samples/s"] if rate and self._samples_each else []
        workers = [] if self._workers is None else [f"{self._workers.ready} workers"]
        return "  ".join([*samples, *workers, f"{self._measure} {self._counted / self._seen:.1%}"])

    def how_to_continue(self, *more: str) -> tuple[str, str]:
        """Lines to print after a stop: the command that continues the run, with ``more`` words at its end."""
        return f"stopped after {self.done} of {self.inputs} inputs; continue with:", command_line(*more)


def duration(seconds: float) -> str:
    """Format a time roughly, for people."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
