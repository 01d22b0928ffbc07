"""Certifying a data set: a job is run, input by input, into a run directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lvmrs.data import check_labels
from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks
from lvmrs.record import Row, Run, RunWriter
from lvmrs.record.scores import damaged_inputs, refusal
from lvmrs.runs.job import Job
from lvmrs.runs.keeping import keeping
from lvmrs.runs.spreading import Receiver, computing
from lvmrs.runs.workers import Workers, checked_workers

__all__ = ["OnRow", "Outlook", "certify"]

OnRow = Callable[[Row], None]
# Size of a kept logit in bytes.
_BYTES = 4


@dataclass(frozen=True)
class Outlook:
    """What a run will cost; it is known before the first input is certified."""

    inputs: int
    """Number of inputs that have no row yet, or whose scores are sampled again."""
    done: int
    """Number of inputs that have a row already, and need no other."""
    samples_each: int
    """Samples for each input."""
    rate: float
    """Samples per second of all workers, as one has measured it."""
    classes: int
    """Number of classes."""
    scores_bytes: int
    """Disk space for all kept scores, in bytes; 0 if none are kept."""
    running: str
    """How the model is run, in words."""
    workers: int = 1
    """How many workers there are."""
    budget: int | None = None
    """Samples for all inputs together, at most; None without a budget."""

    @property
    def seconds(self) -> float:
        """The expected time for the inputs without a row, in seconds."""
        samples = self.inputs * self.samples_each
        return min(samples, samples if self.budget is None else self.budget) / self.rate


def certify(
    job: Job,
    out: str | Path,
    *,
    resume: bool = False,
    resample: bool = False,
    command: str = "",
    workers: Workers | None = None,
    on_begin: Callable[[Outlook], None] = lambda outlook: None,
    on_row: OnRow = lambda row: None,
) -> Run:
    """Certify every input of a job that has no row yet.

    Args:
        job: what to certify, and how.
        out: the directory of the run. Each row is on the disk before the next input is begun.
        resume: whether to continue a run in that directory, which the same job must have begun. If it keeps scores,
            those of all its rows are checked first.
        resample: whether inputs whose kept scores are missing or damaged are sampled again; otherwise they are refused.
            Their rows stay until the new ones are there.
        command: what the user typed, for readers of the run.
        workers: who computes: by default this process. Rows do not depend on it. Those of several workers are written
            as they are finished, and so in any order.
        on_begin: called once, with what the run will cost.
        on_row: called with each row after it is on the disk.

    Returns:
        The run. The docstring of ``lvmrs.runs`` has an example.
    """
    checks.instance("job", job, Job, "a Job")
    if resample and not (resume and job.keeps_scores):
        raise InvalidArgumentError("resample is for a run that is resumed and that keeps scores; leave it out")
    workers = checked_workers(workers)
    if job.shares_budget and workers.elsewhere:
        raise InvalidArgumentError("a budget for all inputs is spent by one process; leave workers out")
    begun = RunWriter.begun(out, resume=resume, batch=job.smoothed.batch)
    inputs = len(job.selection.indices)
    with computing(job, workers, most=inputs) as computed:
        how = computed.prepared(begun, command)
        pace = how.pace
        check_labels(job.data, pace.classes, job.input(job.selection.indices[0])[1])
        with RunWriter.begin(out, how.manifest, resume=resume) as writer:
            kept = inputs * job.samples_each * pace.classes * _BYTES if job.keeps_scores else 0
            damaged = _damaged(writer, resample=resample) if job.keeps_scores else []
            pending = [*damaged, *writer.pending]
            costs = (job.samples_each, pace.rate * workers.size, pace.classes, kept, pace.words, workers.size)
            budget = None if job.sampling.goal is None else job.sampling.goal.budget
            on_begin(Outlook(len(pending), inputs - len(pending), *costs, budget))
            with keeping(writer, anew=len(damaged) == len(writer.done)) as keeper:
                if keeper is not None and resample:
                    keeper.mend_ends()
                receiver = Receiver(writer, keeper)
                for made in computed.rows(how, pending, receiver):
                    receiver.wait()
                    _write(writer, made)
                    for row in made:
                        on_row(row)
            return writer.run


def _write(writer: RunWriter, rows: Sequence[Row]) -> None:
    """Write rows, and wait until they are on the disk; those that are there already are replaced."""
    there = [row for row in rows if row.idx in writer.done]
    writer.append(*(row for row in rows if row.idx not in writer.done))
    for row in there:
        writer.replace(row)


def _damaged(writer: RunWriter, *, resample: bool) -> list[int]:
    """The inputs with a row whose scores must be sampled again; refused if they may not be."""
    if not writer.done:
        return []
    damaged = damaged_inputs(writer.run)
    if damaged and not resample:
        raise refusal(writer.run, damaged)
    return list(damaged)
