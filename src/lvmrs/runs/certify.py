"""Certifies a data set: runs a job and writes its rows into a run directory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lvmrs.analysis.diagnosis import diagnose, warn_of
from lvmrs.analysis.results import Results, results_of
from lvmrs.data.base import check_labels
from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks
from lvmrs.record import Row, Run, RunWriter
from lvmrs.record.scores import damaged_inputs, keeping, refusal
from lvmrs.runs.dispatch import asking, prepared, rows_here, rows_of_workers
from lvmrs.runs.job import Job
from lvmrs.runs.workers.base import Workers, checked_workers

OnRow = Callable[[Row], None]
# Size of a kept logit in bytes.
_BYTES = 4


@dataclass(frozen=True)
class RunEstimate:
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
    in_bfloat16: float = 1.0
    """How many times as fast the network would be in bfloat16, if that was tried."""

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
    on_begin: Callable[[RunEstimate], None] = lambda estimate: None,
    on_row: OnRow = lambda row: None,
    on_end: Callable[[Results], None] = lambda results: warn_of(diagnose(results)),
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
        on_end: called with the results; by default it warns if they look like a mistake, with ``SuspiciousWarning``.

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
    with asking(job, workers, most=inputs) as each:
        ((how,),) = each([partial(prepared, begun, command)])
        throughput = how.throughput
        check_labels(job.data, throughput.classes, job.input(job.selection.indices[0])[1])
        with RunWriter(out, how.manifest, resume=resume) as writer:
            kept = inputs * job.samples_each * throughput.classes * _BYTES if job.keeps_scores else 0
            damaged = damaged_inputs(writer.run) if job.keeps_scores and writer.done else {}
            if damaged and not resample:
                raise refusal(writer.run, damaged)
            pending = [*damaged, *writer.pending]
            costs = (
                job.samples_each,
                throughput.rate * workers.size,
                throughput.classes,
                kept,
                throughput.words,
                workers.size,
            )
            budget = None if job.sampling.goal is None else job.sampling.goal.budget
            on_begin(RunEstimate(len(pending), inputs - len(pending), *costs, budget, throughput.in_bfloat16))
            with keeping(writer, anew=len(damaged) == len(writer.done)) as keeper:
                if keeper is not None and resample:
                    keeper.mend_ends()
                if workers.elsewhere:
                    made = rows_of_workers(job, each, min(workers.size, inputs), how, pending, keeper)
                else:
                    made = rows_here(job, pending, keeper)
                for rows in made:
                    if keeper is not None:
                        keeper.sync()
                    there = [row for row in rows if row.idx in writer.done]
                    writer.append(*(row for row in rows if row.idx not in writer.done))
                    for row in there:
                        writer.replace(row)
                    for row in rows:
                        on_row(row)
        on_end(results_of(writer.run))
    return writer.run
