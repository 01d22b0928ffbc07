"""Certifying a data set: a job is run, input by input, into a run directory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lvmrs.data import check_labels
from lvmrs.jobs.job import Job
from lvmrs.jobs.keeping import keeping
from lvmrs.runs import Row, Run, RunWriter

__all__ = ["OnRow", "Outlook", "certify"]

OnRow = Callable[[Row], None]
# Size of a kept logit in bytes.
_BYTES = 4


@dataclass(frozen=True)
class Outlook:
    """What a run will cost; it is known before the first input is certified."""

    inputs: int
    """Number of inputs that have no row yet."""
    done: int
    """Number of inputs that have a row already."""
    samples_each: int
    """Samples for each input."""
    rate: float
    """Samples per second, as measured."""
    classes: int
    """Number of classes."""
    scores_bytes: int
    """Disk space for all kept scores, in bytes; 0 if none are kept."""

    @property
    def seconds(self) -> float:
        """The expected time for the inputs without a row, in seconds."""
        return self.inputs * self.samples_each / self.rate


def certify(
    job: Job,
    out: str | Path,
    *,
    resume: bool = False,
    command: str = "",
    on_begin: Callable[[Outlook], None] = lambda outlook: None,
    on_row: OnRow = lambda row: None,
) -> Run:
    """Certify every input of a job that has no row yet.

    Args:
        job: what to certify, and how.
        out: the directory of the run. Each row is on the disk before the next input is begun.
        resume: whether to continue a run in that directory, which the same job must have begun.
        command: what the user typed, for readers of the run.
        on_begin: called once, with what the run will cost.
        on_row: called with each row after it is on the disk.

    Returns:
        The run. The docstring of ``lvmrs.jobs`` has an example.
    """
    begun = RunWriter.begun(out, resume=resume, batch=job.smoothed.batch)
    if begun is not None and begun.batch is not None:  # the last digits of logits may depend on it
        job.smoothed.fix_batch(begun.batch)
    pace = job.smoothed.prepare(job.input(job.selection.indices[0])[0])
    check_labels(job.data, pace.classes)
    with RunWriter.begin(out, job.manifest(pace.batch, command), resume=resume) as writer:
        inputs = len(job.selection.indices)
        kept = inputs * job.samples_each * pace.classes * _BYTES if job.keeps_scores else 0
        pending = writer.pending
        on_begin(Outlook(len(pending), inputs - len(pending), job.samples_each, pace.rate, pace.classes, kept))
        with keeping(writer.run) as keeper:
            for index in pending:
                if keeper is not None:
                    keeper.begin(writer.position(index))
                row = job.row(index, None if keeper is None else keeper.add)
                if keeper is not None:
                    keeper.flush()
                writer.append(row)
                on_row(row)
        return writer.run
