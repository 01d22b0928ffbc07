"""Computes the rows of a job with workers, so that rows do not depend on the worker.

The first worker checks the model and chooses how to run it, as a single process does, and all workers run the model in
that way. The shards of a run share the choice through a file (``way_of_shards``).

A job is sent with its weights, and workers compare the versions of libraries. Logits may still differ because of
processors, libraries that the model calls besides torch, environment variables, and buffers that a model fills when it
is loaded. So the first reply of each worker has a probe: logits of the same few inputs, at the cost of three small
batches. Workers whose probe differs are rejected, and their results discarded.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmrs._util import files as _disk
from lvmrs._util import machine
from lvmrs._util.files import replacing
from lvmrs._util.lock import Lock
from lvmrs.engine.samplers import Throughput
from lvmrs.engine.way import Way
from lvmrs.errors import LvmrsError, RunError
from lvmrs.kernel.model_check import Agreement
from lvmrs.kernel.noise import Stage
from lvmrs.record import Manifest, Row
from lvmrs.record.scores import ScoresWriter, as_kept
from lvmrs.runs.job import Job
from lvmrs.runs.workers.base import Each, Workers

# With a goal, a question covers at most _TOGETHER inputs, and each worker gets at least _SHARES questions.
_TOGETHER, _SHARES = 64, 4
# Bytes of a logit; maximum number of bytes of kept scores in the memory of a worker.
_BYTES, _IN_MEMORY = 4, 1 << 28


@dataclass(frozen=True)
class Prepared:
    """How all workers run a job."""

    throughput: Throughput
    manifest: Manifest
    """The manifest of the run, made in the process that runs the job."""
    rounding: float | None
    """The least rounding allowance of all rows, if it was fixed."""


class WorkerRows(NamedTuple):
    """The rows that a worker has made for a question, up to the first input that failed."""

    made: list[tuple[Row, dict[Stage, NDArray[Any]]]]
    """Each row with its scores, if they are kept."""
    failure: LvmrsError | None

    @property
    def nbytes(self) -> int:
        """Size of the scores in bytes."""
        return sum(logits.nbytes for _, scores in self.made for logits in scores.values())


def prepared(begun: Manifest | None, command: str, job: Job) -> Prepared:
    """Check the model on the first input, and choose how to run it, unless the begun run records that already."""
    if begun is not None and begun.running is not None:  # the last digits of logits may depend on it
        job.smoothed.fix_way(begun.running)
    first, _ = job.input(job.selection.indices[0])
    throughput = job.smoothed.prepare(first, samples=job.samples_each * len(job.selection.indices))
    job.settle_rounding(None if begun is None else begun.terms.rounding)
    return Prepared(throughput, job.manifest(throughput.way, command), job.smoothed.rounding.settled)


def rows_here(job: Job, indices: Sequence[int], keeper: ScoresWriter | None) -> Iterator[list[Row]]:
    """Compute rows in this process, in order. The next input is sampled while a row is proved and written."""
    rows = job.rows(indices, None if keeper is None else keeper.add)
    for index in indices:
        if keeper is not None:
            keeper.begin(index)
        row = next(rows)
        yield [row if keeper is None else keeper.finished(row)]


def rows_of_workers(
    job: Job, each: Each, workers: int, how: Prepared, indices: Sequence[int], keeper: ScoresWriter | None
) -> Iterator[list[Row]]:
    """Have workers compute rows, by questions of ``asking``. Yields lists of rows, in the order in which they finish.

    If sampling stops at a goal, a question covers several inputs, so that their samples fill batches together: few
    enough that every worker gets some, and that kept scores fit into memory.
    """
    several = 1
    if job.sampling.goal is not None:
        kept = job.samples_each * how.throughput.classes * _BYTES if job.keeps_scores else 1
        several = max(1, min(_TOGETHER, len(indices) // (_SHARES * workers), _IN_MEMORY // kept))
    groups = [indices[start : start + several] for start in range(0, len(indices), several)]
    for answers in each(partial(_certified, how, group, keeper is not None) for group in groups):
        made = [row_and_scores for answer in answers for row_and_scores in answer.made]
        yield [row if keeper is None else keeper.keep(row, scores.items()) for row, scores in made]
        for answer in answers:
            if answer.failure is not None:
                raise answer.failure


def _certified(how: Prepared, indices: Sequence[int], keep: bool, job: Job) -> WorkerRows:
    """Certify some inputs, and collect their scores if they are kept."""
    job.smoothed.fix_way(how.throughput.way)
    job.smoothed.rounding.settled = how.rounding
    scores: dict[Stage, list[NDArray[Any]]] = {}
    found: list[tuple[Row, dict[Stage, NDArray[Any]]]] = []

    def add(stage: Stage, logits: Tensor) -> None:
        scores.setdefault(stage, []).append(as_kept(logits).copy())  # the model may use its memory again

    try:
        for row in job.rows(indices, add if keep else None):
            found.append((row, {stage: np.concatenate(portions) for stage, portions in scores.items()}))
            scores.clear()
    except LvmrsError as error:
        if not found:
            raise  # the worker adds the name of its machine
        return WorkerRows(found, error)
    return WorkerRows(found, None)


@contextmanager
def asking(job: Job, workers: Workers, *, most: int) -> Iterator[Each]:
    """Context in which workers, at most ``most``, have copies of a job and answer questions: functions of the job."""
    if not workers.elsewhere:
        yield lambda questions: ([question(job)] for question in questions)
        return
    # Workers with their own device are compared with the first of them: this machine may have no such device.
    known = None if workers.device is not None else probe(job, "the command")
    with workers.doing(JobWorker(job, workers.device), most=most, files=job.files) as each:
        yield rejecting_others(each, known)


class JobWorker:
    """The task of a worker: answers questions about its copy of the job, on its own device if it has one."""

    def __init__(self, job: Job, device: str | None) -> None:
        self._job, self._device = job, device
        self._probed = False

    def __call__(self, question: Callable[[Job], Any]) -> Reply:
        """Answer a question."""
        if self._device is not None:
            machine.device(self._device)  # a node may have a GPU that its torch cannot use
            self._job, self._device = self._job.on(self._device), None
        value = question(self._job)  # before the probe, since its errors explain a faulty model
        first = None if self._probed else probe(self._job, "the worker")
        self._probed = True
        return Reply(value, first)


# Noisy copies of the first input on which the model is run, to compare workers.
_ROWS = 4


class Probe(NamedTuple):
    """The logits of a model for inputs that are the same on all machines."""

    logits: Tensor
    agreement: Agreement
    """The differences that rounding may cause in these logits."""
    where: str
    """The process and host that computed them, such as "the worker on node7"."""


class Reply(NamedTuple):
    """A worker's result. The first reply of a worker has a probe."""

    value: Any
    probe: Probe | None

    @property
    def nbytes(self) -> int:
        """Size of the value in bytes; 0 if the value has no ``nbytes``, and is small."""
        return int(getattr(self.value, "nbytes", 0))


def probe(job: Job, process: str) -> Probe:
    """Run the model on a few noisy copies of the first input of a job, in a process such as "the worker"."""
    first, _ = job.input(job.selection.indices[0])
    noise = torch.randn(_ROWS, *first.shape, generator=torch.Generator().manual_seed(0))
    scale = job.smoothed.settings["sigma"] or 0.0
    logits, agreement = job.smoothed.unchecked_logits(first + scale * noise.to(first))
    return Probe(logits, agreement, f"{process} on {socket.gethostname()}")


def rejecting_others(each: Each, known: Probe | None) -> Each:
    """Yield the values of replies to questions. Rejects workers whose logits differ, and discards their results.

    ``known`` is the probe of this process; None if the model does not run here: the first worker is the reference.
    """
    reference = known

    def values(questions: Iterable[Any]) -> Iterator[list[Any]]:
        nonlocal reference
        for replies in each(questions):
            for found in (reply.probe for reply in replies if reply.probe is not None):
                reference = found if reference is None else reference
                _check_same(reference, found)
            yield [reply.value for reply in replies]

    return values


def _check_same(known: Probe, found: Probe) -> None:
    there = f"{found.where} does not run the same classifier as {known.where}"
    advice = "its processor, libraries or files differ: use nodes of one kind, or leave this node out"
    if known.logits.shape != found.logits.shape:
        classes = f"it has {found.logits.shape[1]} classes and not {known.logits.shape[1]}"
        raise RunError(f"{there}: {classes}; {advice}")
    agreement = known.agreement.widened(found.agreement)
    if not agreement.agree(found.logits, known.logits):
        apart = float((found.logits - known.logits).abs().nan_to_num(nan=torch.inf).max())
        allowed = float(agreement.allowance(known.logits).max())
        raise RunError(
            f"{there}: logits of the same inputs differ by {apart:.3g}, and rounding explains {allowed:.1g}; {advice}"
        )


# Maximum number of characters that are read from a file.
_LONGEST = 10_000
# Seconds between two checks whether another task has chosen.
_LOOK = 0.2


def way_of_shards(job: Job, out: str | Path) -> Way:
    """How all shards of a run execute the model. The first task chooses; the others wait, and read its choice.

    Args:
        job: the job of one shard, which is not changed.
        out: the directory of the whole run, beside which the choice is written: ``OUT-way.json``.
    """
    path = _disk.place(out)
    file = path.with_name(f"{path.name}-way.json")
    taken = f"another task is choosing how to run the model; if none is, delete {file}.lock"
    with _disk.errors(file, "choose another directory"):
        _disk.make_directory(file.parent)
        while not file.exists():
            try:
                lock = Lock(file.with_name(f"{file.name}.lock"), taken)
            except RunError:
                time.sleep(_LOOK)
                continue
            try:
                if not file.exists():
                    _choose(job, file)
            finally:
                lock.release()
        return _read(job, file)


def _choose(job: Job, file: Path) -> None:
    first, _ = job.input(job.selection.indices[0])
    copied = job.with_model(job.model.model)
    way = copied.prepare(first, samples=job.samples_each * len(job.selection.indices)).way
    with replacing(file) as written:
        written.write(json.dumps({"weights": job.model.fingerprint, "way": asdict(way)}).encode())


def _read(job: Job, file: Path) -> Way:
    try:
        with file.open(encoding="utf-8") as opened:
            stored = json.loads(opened.read(_LONGEST))
        weights, way = stored["weights"], Way(**stored["way"])
    except (ValueError, TypeError, KeyError, LvmrsError) as error:
        raise RunError(f"{file} does not say how a model is run; delete it, and begin the shards again") from error
    if weights != job.model.fingerprint:
        raise RunError(f"{file} is about a model with other weights; choose another directory, or delete it")
    return way
