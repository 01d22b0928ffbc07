"""Experiment trackers: an object with ``log(step, values)`` gets the measures of a run or training while it works.

``opened`` starts a tracker by name. ``RowLog`` is an ``on_row`` of ``lvmrs.runs.certify``; a training passes each epoch
from its ``on_epoch``.

>>> class Printed:
...     def log(self, step, values):
...         print(step, sorted(values))
>>> from lvmrs.record import Row
>>> row = Row(0, 3, 3, 0.5, 1, 0.1, 0.9, 0.1, 3, "duel", 1.0, 1.0, "clopper_pearson", "r3", 0.001, "-", "-")
>>> RowLog(Printed())(row)
1 ['abstention', 'average_certified_radius', 'certified_accuracy']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from lvmrs._util.text import optional
from lvmrs.errors import InvalidArgumentError, RunError, guarded, shown
from lvmrs.kernel.method import ABSTAIN
from lvmrs.record import Row
from lvmrs.registry import TRACKERS

Settings = Mapping[str, object]


class Tracker(Protocol):
    """Receives numbers while a run or training works."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the values of a step: inputs certified, or epochs trained."""


class RowLog:
    """Logs the measures of all rows so far, for each row; the step is the number of rows.

    Args:
        tracker: the tracker.
        rows: the rows that a resumed run has already.
    """

    def __init__(self, tracker: Tracker, rows: Iterable[Row] = ()) -> None:
        self.tracker = tracker
        self._seen: dict[int, dict[str, float]] = {}
        self._sums: dict[str, float] = {}
        for row in rows:
            self._add(row)

    def __call__(self, row: Row) -> None:
        """Count a row and log the measures; a row that is written again replaces the earlier one."""
        self._add(row)
        count = len(self._seen)
        self.tracker.log(count, {name: total / count for name, total in self._sums.items()})

    def _add(self, row: Row) -> None:
        values = {"abstention": float(row.predict == ABSTAIN)}
        if row.label is not None:
            correct = float(bool(row.correct))
            values |= {"certified_accuracy": correct, "average_certified_radius": correct * row.radius}
        before = self._seen.get(row.idx, {})
        self._seen[row.idx] = values
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + value - before.get(name, 0.0)


@contextmanager
def opened(spelling: str, settings: Settings) -> Iterator[Tracker]:
    """Start a tracker by name, such as tensorboard:DIR, for the duration of a ``with`` block.

    Args:
        spelling: a name of ``lvmrs.registry.TRACKERS``, a colon, and a directory, project or experiment.
        settings: settings that the tracker records; None is left out.
    """
    name, _, rest = spelling.partition(":")
    begin = TRACKERS.find(name, argument="tracker")
    if not rest:
        raise InvalidArgumentError(f"tracker must be {TRACKERS.written(name)}, got {shown(spelling)}")
    failing = f"the tracker {spelling} fails; what was computed is safe"
    with guarded(failing, error=RunError):
        started = begin(rest, {key: value for key, value in settings.items() if value is not None})
        inner = started.__enter__()
    try:
        yield _Guarded(inner, failing)
    finally:
        with guarded(failing, error=RunError):
            started.__exit__(None, None, None)


class _Guarded:
    def __init__(self, tracker: Tracker, failing: str) -> None:
        self._tracker, self._failing = tracker, failing

    def log(self, step: int, values: Mapping[str, float]) -> None:
        with guarded(self._failing, error=RunError):
            self._tracker.log(step, values)


class _Calls:
    def __init__(self, log: Any) -> None:
        self.log = log


@contextmanager
def tensorboard(directory: str, settings: Settings) -> Iterator[Tracker]:
    """Writes event files for TensorBoard into a directory."""
    optional("tensorboard", extra="tensorboard", error=RunError)
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(directory) as writer:
        writer.add_text("settings", "\n".join(f"    {name}: {value}" for name, value in settings.items()))

        def log(step: int, values: Mapping[str, float]) -> None:
            for name, value in values.items():
                writer.add_scalar(name, value, step)
            writer.flush()

        yield _Calls(log)


@contextmanager
def wandb(project: str, settings: Settings) -> Iterator[Tracker]:
    """Logs to a project of Weights & Biases; its environment variables, such as WANDB_MODE, apply."""
    library = optional("wandb", extra="wandb", error=RunError)
    with library.init(project=project, config=dict(settings)) as run:
        yield _Calls(lambda step, values: run.log(dict(values), step=step))


@contextmanager
def mlflow(experiment: str, settings: Settings) -> Iterator[Tracker]:
    """Logs to an experiment of MLflow, on the server or in the store of MLFLOW_TRACKING_URI."""
    library = optional("mlflow", extra="mlflow", error=RunError)
    library.set_experiment(experiment)
    with library.start_run():
        library.log_params(dict(settings))
        yield _Calls(lambda step, values: library.log_metrics(dict(values), step=step))
