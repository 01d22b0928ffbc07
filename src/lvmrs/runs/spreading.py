"""Has workers compute the rows of a job.

The first worker checks the model and chooses how it is run, as one process does for itself. All workers run it in that
way, so that rows do not depend on the worker. Workers whose logits differ are rejected, and their results discarded.
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

__all__ = ["JobWorker", "Made", "Prepared", "Receiver", "Together", "asking", "computing"]

# With a goal, a worker is asked about at most so many inputs at once, and each worker this many times.
_TOGETHER, _SHARES = 64, 4
# Bytes of a logit, and of kept scores that a worker has in memory.
_BYTES, _IN_MEMORY = 4, 1 << 28


class Receiver:
    """Takes the scores of one input after the other, if they are kept, and notes their checksum in its row.

    Args:
        writer: the writer of the run.
        keeper: the writer of its scores; None if they are not kept.
    """

    def __init__(self, writer: RunWriter, keeper: ScoresWriter | None) -> None:
        self._writer, self._keeper = writer, keeper

    @property
    def watch(self) -> Watch | None:
        """Takes the next scores of the present input; None if they are not kept."""
        return None if self._keeper is None else self._keeper.add

    def begin(self, index: int) -> None:
        """The scores of this input come next."""
        if self._keeper is not None:
            self._keeper.begin(self._writer.position(index))

    def finished(self, row: Row) -> Row:
        """The row of the present input, whose scores are all there."""
        return row if self._keeper is None else replace(row, scores=self._keeper.checksum)

    def wait(self) -> None:
        """Wait until all scores are on the disk."""
        if self._keeper is not None:
            self._keeper.finish()


@dataclass(frozen=True)
class Prepared:
    """How a job is run: the same for all workers."""

    pace: Pace
    manifest: Manifest
    """What the run records: derived where the job is run."""
    rounding: float | None
    """How much rounding all rows allow for at least, if that was settled."""

    def settle(self, job: Job) -> None:
        """Run the job in this way."""
        job.smoothed.fix_way(self.pace.way)
        job.smoothed.rounding.settled = self.rounding


class Made(NamedTuple):
    """A row, and the scores that it was made from, if they are to be kept."""

    row: Row
    scores: dict[Stage, NDArray[Any]]

    @property
    def nbytes(self) -> int:
        """How large the scores are."""
        return sum(logits.nbytes for logits in self.scores.values())


class Together(NamedTuple):
    """What a worker has made of some inputs, up to the first that failed."""

    made: list[Made]
    failure: LvmrsError | None

    @property
    def nbytes(self) -> int:
        """How large the scores are."""
        return sum(made.nbytes for made in self.made)


def _prepared(begun: Manifest | None, command: str, job: Job) -> Prepared:
    """Check the model on the first input, and choose how to run it, unless the run was begun in some way."""
    if begun is not None and begun.running is not None:  # the last digits of logits may depend on it
        job.smoothed.fix_way(begun.running)
    first, _ = job.input(job.selection.indices[0])
    pace = job.smoothed.prepare(first, samples=job.samples_each * len(job.selection.indices))
    job.settle_rounding(None if begun is None else begun.terms.rounding)
    return Prepared(pace, job.manifest(pace.way, command), job.smoothed.rounding.settled)


class _ByThisProcess:
    """Computes rows here; while one is proved and written, the next is sampled."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def prepared(self, begun: Manifest | None, command: str) -> Prepared:
        """How the job is run."""
        return _prepared(begun, command, self._job)

    def rows(self, how: Prepared, indices: Sequence[int], receiver: Receiver) -> Iterator[list[Row]]:
        """The rows of inputs, in order."""
        rows = self._job.rows(indices, receiver.watch)
        for index in indices:
            receiver.begin(index)
            yield [receiver.finished(next(rows))]


class _ByWorkers:
    """Has rows computed. A worker is asked questions, which are functions of the job that it has.

    If sampling stops at a goal, a question is about several inputs, whose samples fill batches together.
    """

    def __init__(self, job: Job, each: Each, workers: int) -> None:
        self._job, self._each, self._workers = job, each, workers

    def prepared(self, begun: Manifest | None, command: str) -> Prepared:
        """How the job is run, as the first worker chooses it."""
        ((how,),) = self._each([partial(_prepared, begun, command)])
        return how  # type: ignore[no-any-return]

    def rows(self, how: Prepared, indices: Sequence[int], receiver: Receiver) -> Iterator[list[Row]]:
        """The rows of inputs as they are finished, in lists of those that are there at a time."""
        watch = receiver.watch
        several = self._several(len(indices), how.pace.classes)
        groups = [indices[start : start + several] for start in range(0, len(indices), several)]
        for answers in self._each(partial(_certified, how, group, watch is not None) for group in groups):
            rows = []
            for made in (made for answer in answers for made in answer.made):
                receiver.begin(made.row.idx)
                for stage, logits in made.scores.items():
                    watch(stage, logits)  # type: ignore[misc]  # there are scores only if they are watched
                rows.append(receiver.finished(made.row))
            yield rows
            for answer in answers:
                if answer.failure is not None:
                    raise answer.failure

    def _several(self, inputs: int, classes: int) -> int:
        """How many inputs a question is about: few enough for each worker to get some, and for scores in memory."""
        if self._job.sampling.goal is None:
            return 1
        kept = self._job.samples_each * classes * _BYTES if self._job.keeps_scores else 1
        return max(1, min(_TOGETHER, inputs // (_SHARES * self._workers), _IN_MEMORY // kept))


@contextmanager
def computing(job: Job, workers: Workers, *, most: int) -> Iterator[_ByThisProcess | _ByWorkers]:
    """A ``with`` block in which workers compute rows of the job. At most ``most`` workers are started."""
    if not workers.elsewhere:
        yield _ByThisProcess(job)
        return
    with asking(job, workers, most=most) as each:
        yield _ByWorkers(job, each, min(workers.size, most))


@contextmanager
def asking(job: Job, workers: Workers, *, most: int) -> Iterator[Each]:
    """A ``with`` block in which workers have copies of the job, and answer questions: functions of the job."""
    if not workers.elsewhere:
        yield lambda questions: ([question(job)] for question in questions)
        return
    # Workers with a device of their own are compared with the first of them: this machine may have no such device.
    known = None if workers.device is not None else probe(job, "the command")
    with workers.doing(JobWorker(job, workers.device), most=most, files=job.files) as each:
        yield rejecting_others(each, known)


class JobWorker:
    """The task of a worker: it has a copy of the job, and answers questions, which are functions of the job.

    Its first reply has a probe, by which the command checks that the copy is the same classifier.

    Args:
        job: the job.
        device: the device on which the worker runs the model; None for that of the job.
    """

    def __init__(self, job: Job, device: str | None) -> None:
        self._job, self._device = job, device
        self._probed = False

    def __call__(self, question: Callable[[Job], Any]) -> Reply:
        """Answer a question."""
        if self._device is not None:
            torch_checks.device(self._device)  # a node may have a GPU that its torch cannot use
            self._job, self._device = self._job.on(self._device), None
        value = question(self._job)  # before the probe: its errors say what is wrong with a model
        first = None if self._probed else probe(self._job, "the worker")
        self._probed = True
        return Reply(value, first)


def _certified(how: Prepared, indices: Sequence[int], keep: bool, job: Job) -> Together:
    """The question that rows answer."""
    how.settle(job)
    scores: dict[Stage, list[NDArray[Any]]] = {}
    found: list[Made] = []

    def add(stage: Stage, logits: Tensor) -> None:
        scores.setdefault(stage, []).append(as_kept(logits).copy())  # the model may use its memory again

    try:
        for row in job.rows(indices, add if keep else None):
            found.append(Made(row, {stage: np.concatenate(portions) for stage, portions in scores.items()}))
            scores.clear()
    except LvmrsError as error:
        if not found:
            raise  # so that the worker says on which machine that was
        return Together(found, error)
    return Together(found, None)
