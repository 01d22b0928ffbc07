"""Certifies a data set: runs a job and writes its rows into a run directory."""

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
    """The expected cost of a run, known before the first input is certified."""

    inputs: int
    """Number of inputs that have no row yet, or whose scores are sampled again."""
    done: int
    """Number of inputs that have a row already and are not sampled again."""
    samples_each: int
    """Samples for each input."""
    rate: float
    """Samples per second of all workers, measured on one worker."""
    classes: int
    """Number of classes."""
    scores_bytes: int
    """Disk space for all kept scores, in bytes; 0 if none are kept."""
    running: str
    """How the model is run, for people."""
    workers: int = 1
    """Number of workers."""
    budget: int | None = None
    """Maximum number of samples for all inputs together; None without a budget."""

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
        job: the job.
        out: the directory of the run. Each row is on the disk before the next input begins.
        resume: continue a run in that directory, which the same job must have begun. If the run keeps scores, the
            scores of all its rows are checked first.
        resample: sample inputs again whose kept scores are missing or damaged; otherwise such scores raise. Old rows
            stay until the new ones are written.
        command: the command line of the user, which the run records.
        workers: the workers that compute rows; by default this process. Rows do not depend on them. Several workers
            write rows as they finish, in any order.
        on_begin: called once, with the expected cost of the run.
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
    """Append rows, or replace those that exist, and wait until they are on the disk."""
    there = [row for row in rows if row.idx in writer.done]
    writer.append(*(row for row in rows if row.idx not in writer.done))
    for row in there:
        writer.replace(row)


def _damaged(writer: RunWriter, *, resample: bool) -> list[int]:
    """Inputs with a row whose kept scores are damaged; raises unless they may be sampled again."""
    if not writer.done:
        return []
    damaged = damaged_inputs(writer.run)
    if damaged and not resample:
        raise refusal(writer.run, damaged)
    return list(damaged)
