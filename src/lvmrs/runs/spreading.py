"""Computes the rows of a job with workers.

The first worker checks the model and chooses how to run it, as a single process does. All workers run the model in that
way, so that rows do not depend on the worker. Workers with differing logits are rejected, and their results discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lvmrs.engine.samplers import Pace
from lvmrs.errors import LvmrsError
from lvmrs.kernel import torch_checks
from lvmrs.kernel.noise import Stage
from lvmrs.kernel.sampler import Watch
from lvmrs.record import Manifest, Row, RunWriter
from lvmrs.record.scores import ScoresWriter, as_kept
from lvmrs.runs.job import Job
from lvmrs.runs.probing import Reply, probe, rejecting_others
from lvmrs.runs.workers import Workers
from lvmrs.runs.workers.base import Each

__all__ = ["JobWorker", "Prepared", "Receiver", "ScoredRow", "WorkerRows", "asking", "computing"]

# With a goal, a question covers at most _TOGETHER inputs, and each worker gets at least _SHARES questions.
_TOGETHER, _SHARES = 64, 4
# Bytes of a logit; maximum number of bytes of kept scores in the memory of a worker.
_BYTES, _IN_MEMORY = 4, 1 << 28


class Receiver:
    """Takes the scores of one input after the other, if they are kept, and puts their checksum into its row.

    Args:
        writer: the writer of the run.
        keeper: the writer of its scores; None if they are not kept.
    """

    def __init__(self, writer: RunWriter, keeper: ScoresWriter | None) -> None:
        self._writer, self._keeper = writer, keeper

    @property
    def watch(self) -> Watch | None:
        """Writes the next scores of the current input; None if scores are not kept."""
        return None if self._keeper is None else self._keeper.add

    def begin(self, index: int) -> None:
        """Begin the scores of an input."""
        if self._keeper is not None:
            self._keeper.begin(self._writer.position(index))

    def finished(self, row: Row) -> Row:
        """The row of the current input, with the checksum of its scores."""
        return row if self._keeper is None else replace(row, scores=self._keeper.checksum)

    def wait(self) -> None:
        """Wait until all scores are on the disk."""
        if self._keeper is not None:
            self._keeper.finish()


@dataclass(frozen=True)
class Prepared:
    """How all workers run a job."""

    pace: Pace
    manifest: Manifest
    """The manifest of the run, made in the process that runs the job."""
    rounding: float | None
    """The least rounding allowance of all rows, if it was fixed."""

    def settle(self, job: Job) -> None:
        """Apply these settings to a job."""
        job.smoothed.fix_way(self.pace.way)
        job.smoothed.rounding.settled = self.rounding


class ScoredRow(NamedTuple):
    """A row, and its scores if they are kept."""

    row: Row
    scores: dict[Stage, NDArray[Any]]

    @property
    def nbytes(self) -> int:
        """Size of the scores in bytes."""
        return sum(logits.nbytes for logits in self.scores.values())


class WorkerRows(NamedTuple):
    """The rows that a worker has made for a question, up to the first input that failed."""

    made: list[ScoredRow]
    failure: LvmrsError | None

    @property
    def nbytes(self) -> int:
        """Size of the scores in bytes."""
        return sum(made.nbytes for made in self.made)


def _prepared(begun: Manifest | None, command: str, job: Job) -> Prepared:
    """Check the model on the first input, and choose how to run it, unless the run records that already."""
    if begun is not None and begun.running is not None:  # the last digits of logits may depend on it
        job.smoothed.fix_way(begun.running)
    first, _ = job.input(job.selection.indices[0])
    pace = job.smoothed.prepare(first, samples=job.samples_each * len(job.selection.indices))
    job.settle_rounding(None if begun is None else begun.terms.rounding)
    return Prepared(pace, job.manifest(pace.way, command), job.smoothed.rounding.settled)


class _ByThisProcess:
    """Computes rows in this process. The next input is sampled while a row is proved and written."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def prepared(self, begun: Manifest | None, command: str) -> Prepared:
        """Check the model and choose how to run it."""
        return _prepared(begun, command, self._job)

    def rows(self, how: Prepared, indices: Sequence[int], receiver: Receiver) -> Iterator[list[Row]]:
        """The rows of inputs, in order."""
        rows = self._job.rows(indices, receiver.watch)
        for index in indices:
            receiver.begin(index)
            yield [receiver.finished(next(rows))]


class _ByWorkers:
    """Has workers compute rows. A question to a worker is a function of the worker's copy of the job.

    If sampling stops at a goal, a question covers several inputs, so that their samples fill batches together.
    """

    def __init__(self, job: Job, each: Each, workers: int) -> None:
        self._job, self._each, self._workers = job, each, workers

    def prepared(self, begun: Manifest | None, command: str) -> Prepared:
        """Have the first worker check the model and choose how to run it."""
        ((how,),) = self._each([partial(_prepared, begun, command)])
        return how  # type: ignore[no-any-return]

    def rows(self, how: Prepared, indices: Sequence[int], receiver: Receiver) -> Iterator[list[Row]]:
        """Yield lists of finished rows, in the order in which they finish."""
        watch = receiver.watch
        several = self._several(len(indices), how.pace.classes)
        groups = [indices[start : start + several] for start in range(0, len(indices), several)]
        for answers in self._each(partial(_certified, how, group, watch is not None) for group in groups):
            rows = []
            for made in (made for answer in answers for made in answer.made):
                receiver.begin(made.row.idx)
                for stage, logits in made.scores.items():
                    watch(stage, logits)  # type: ignore[misc]  # scores exist only with a watch
                rows.append(receiver.finished(made.row))
            yield rows
            for answer in answers:
                if answer.failure is not None:
                    raise answer.failure

    def _several(self, inputs: int, classes: int) -> int:
        """Inputs per question: few enough that every worker gets some, and that kept scores fit into memory."""
        if self._job.sampling.goal is None:
            return 1
        kept = self._job.samples_each * classes * _BYTES if self._job.keeps_scores else 1
        return max(1, min(_TOGETHER, inputs // (_SHARES * self._workers), _IN_MEMORY // kept))


@contextmanager
def computing(job: Job, workers: Workers, *, most: int) -> Iterator[_ByThisProcess | _ByWorkers]:
    """Context in which workers compute rows of the job. Starts at most ``most`` workers."""
    if not workers.elsewhere:
        yield _ByThisProcess(job)
        return
    with asking(job, workers, most=most) as each:
        yield _ByWorkers(job, each, min(workers.size, most))


@contextmanager
def asking(job: Job, workers: Workers, *, most: int) -> Iterator[Each]:
    """Context in which workers have copies of the job and answer questions, which are functions of the job."""
    if not workers.elsewhere:
        yield lambda questions: ([question(job)] for question in questions)
        return
    # Workers with their own device are compared with the first of them: this machine may have no such device.
    known = None if workers.device is not None else probe(job, "the command")
    with workers.doing(JobWorker(job, workers.device), most=most, files=job.files) as each:
        yield rejecting_others(each, known)


class JobWorker:
    """The task of a worker: has a copy of the job, and answers questions, which are functions of the job.

    The first reply has a probe, with which the command checks that the copy is the same classifier.

    Args:
        job: the job.
        device: the device on which the worker runs the model; None for the device of the job.
    """

    def __init__(self, job: Job, device: str | None) -> None:
        self._job, self._device = job, device
        self._probed = False

    def __call__(self, question: Callable[[Job], Any]) -> Reply:
        """Answer a question."""
        if self._device is not None:
            torch_checks.device(self._device)  # a node may have a GPU that its torch cannot use
            self._job, self._device = self._job.on(self._device), None
        value = question(self._job)  # before the probe, since its errors explain a faulty model
        first = None if self._probed else probe(self._job, "the worker")
        self._probed = True
        return Reply(value, first)


def _certified(how: Prepared, indices: Sequence[int], keep: bool, job: Job) -> WorkerRows:
    """Certify some inputs, and collect their scores if they are kept."""
    how.settle(job)
    scores: dict[Stage, list[NDArray[Any]]] = {}
    found: list[ScoredRow] = []

    def add(stage: Stage, logits: Tensor) -> None:
        scores.setdefault(stage, []).append(as_kept(logits).copy())  # the model may use its memory again

    try:
        for row in job.rows(indices, add if keep else None):
            found.append(ScoredRow(row, {stage: np.concatenate(portions) for stage, portions in scores.items()}))
            scores.clear()
    except LvmrsError as error:
        if not found:
            raise  # the worker adds the name of its machine
        return WorkerRows(found, error)
    return WorkerRows(found, None)
