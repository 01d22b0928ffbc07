"""Chooses one way to run the model for all shards of a run, since the last digits of logits may depend on it."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

from lvmrs._util import files as _disk
from lvmrs._util.files import replacing
from lvmrs._util.lock import Lock
from lvmrs.engine.way import Way
from lvmrs.errors import LvmrsError, RunError
from lvmrs.runs.job import Job

__all__ = ["way_of_shards"]

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
    copied = job.remade(job.model.model)
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
