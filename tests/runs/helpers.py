"""A tiny run: quick to make, and the same each time."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lvmrs import provenance, work
from lvmrs.data import Arrays
from lvmrs.method import Method
from lvmrs.models import Loaded, ModelFacts
from lvmrs.planners import LVM
from lvmrs.runs import Manifest, Row, Run, RunWriter, Selection
from lvmrs.smooth import SmoothedClassifier
from tests.models import RowByRow

INPUTS = 12
DATA = Arrays("tiny", "test", np.random.default_rng(0).random((INPUTS, 12)), np.arange(INPUTS) % 3)


def manifest_of(
    planner: Method, selection: Selection, *, keep: bool = False, batch: int = 64, **changed: Any
) -> Manifest:
    numbers = {"alpha": 0.01, "n0": 50, "n": 300, "seed": 0, **changed}
    loaded = Loaded(RowByRow(), "python:tests.models:RowByRow", "unknown", None, ModelFacts())
    settings = provenance.settings_of(loaded, DATA, SmoothedClassifier(RowByRow(), 0.5, 3.0), planner, **numbers)
    return Manifest(
        settings,
        selection,
        batch,
        keep,
        provenance.about("test", **provenance.about_data(DATA), **provenance.about_method(planner, 0.5)),
    )


def fill(
    out: Path,
    *,
    resume: bool = False,
    selection: Selection | None = None,
    keep: bool = False,
    planner: Method | None = None,
    on_row: Callable[[Row], None] = lambda row: None,
    **changed: Any,
) -> Run:
    """Make the run, or go on with it."""
    planner = LVM() if planner is None else planner
    manifest = manifest_of(planner, selection or Selection(INPUTS), keep=keep, **changed)
    with RunWriter.begin(out, manifest, resume=resume) as writer:
        work.certify(writer, SmoothedClassifier(RowByRow(), 0.5, 3.0, batch=64), DATA, planner, on_row)
    return writer.run


def lines(run: Run) -> list[str]:
    """The bytes of all rows, without their times."""
    return ["\t".join(line.split("\t")[:5] + line.split("\t")[6:]) for line in run.file.read_text().split("\n")]


def in_child(work: Callable[[], object], kill_after: float | None = None) -> int:
    """What the work ends with in a process of its own: its exit code, or minus the signal that killed it."""
    child = os.fork()
    if not child:
        code = 1
        try:
            if kill_after is not None:
                signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
                signal.setitimer(signal.ITIMER_REAL, kill_after)
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)
