"""A tiny job: quick to run, and the same each time."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lvmrs import runs
from lvmrs.data import Arrays
from lvmrs.kernel.method import Method
from lvmrs.kernel.noise import GAUSSIAN, Noise
from lvmrs.kernel.sampler import Model
from lvmrs.models import Loaded
from lvmrs.planners import LVM
from lvmrs.record import Row, Run, Selection
from lvmrs.smoothed import SmoothedClassifier
from tests.tiny_models import RowByRow

INPUTS = 12
QUICK = LVM(temperatures=(0.1, 1.0), bounds=("clopper_pearson", "bernstein"))
"""Chooses for each input, as LVM() does, in a tenth of the time."""
DATA = Arrays("tiny", "test", np.random.default_rng(0).random((INPUTS, 12)), np.arange(INPUTS) % 3)
LEVELS = 64
ON_GRID = Arrays("tiny grid", "test", np.round(DATA.inputs * LEVELS) / LEVELS, DATA.labels, levels=LEVELS)


def job_of(
    planner: Method | None = None,
    selection: Selection | None = None,
    *,
    keep: bool = False,
    batch: int | None = 64,
    model: Model | None = None,
    noise: Noise = GAUSSIAN,
    **changed: Any,
) -> runs.Job:
    loaded = Loaded.of(RowByRow() if model is None else model, "python:tests.models:RowByRow")
    sampling = runs.Sampling(**{"alpha": 0.01, "n0": 50, "n": 300, "seed": 0, **changed})
    smoothed = SmoothedClassifier(loaded.model, 0.5, 3.0, batch=batch, noise=noise)
    data = ON_GRID if noise.rounds else DATA
    planner = QUICK if planner is None else planner
    return runs.Job(loaded, data, smoothed, planner, sampling, selection or Selection(INPUTS), keep)


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
    job = job_of(planner, selection, keep=keep, **changed)
    return runs.certify(job, out, resume=resume, command="test", on_row=on_row)


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
