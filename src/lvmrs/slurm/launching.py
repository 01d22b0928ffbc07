"""Submitting a run to Slurm: an array with one task for each shard, and a job that merges them when all are done."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lvmrs import _checks
from lvmrs._extras import optional
from lvmrs.errors import RunError, guarded
from lvmrs.runs import Run
from lvmrs.slurm.array import shard_directory
from lvmrs.slurm.sbatch import checked_settings, minutes
from lvmrs.slurm.tasks import Command

__all__ = ["Launched", "launch"]

# Seconds between two looks at the queue.
_LOOK = 2.0
# How often a task may reach its time limit and be requeued.
_TIMEOUTS = 100


@dataclass(frozen=True)
class Launched:
    """A run that was submitted."""

    out: Path
    """The run, when it is merged."""
    shards: tuple[Path, ...]
    """The runs of the shards."""
    array: str
    """The number of the array in Slurm."""
    merging: str
    """The number of the job that merges the shards."""
    logs: Path
    """The folder with the logs of all tasks."""

    def wait(self, on_rows: Callable[[int, int], None] = lambda rows, inputs: None, *, look: float = _LOOK) -> Run:
        """Wait until the run is merged.

        Args:
            on_rows: called now and then with the number of rows that the shards have, and that they will have.
            look: seconds between two looks at the queue.
        """
        while _queued(self.array, self.merging):
            self._tell(on_rows)
            time.sleep(look)
        self._tell(on_rows)
        if (merged := _run(self.out)) is not None and merged.complete:
            return merged
        waiting = [path for path in self.shards if (run := _run(path)) is None or not run.complete]
        what = f"{waiting[0]} is not finished" if waiting else "the shards were not merged"
        raise RunError(
            f"the jobs {self.array} and {self.merging} have ended, and {what}; the logs in {self.logs} say why. What "
            "was written is safe: launch the same command again"
        )

    def _tell(self, on_rows: Callable[[int, int], None]) -> None:
        begun = [run for run in map(_run, self.shards) if run is not None]
        if rows := sum(run.count for run in begun):
            on_rows(rows, len(replace(begun[0].manifest.selection, shard=1, shards=1).indices))


def launch(
    words: Sequence[str],
    out: str | Path,
    *,
    shards: int,
    tasks: int | None = None,
    settings: Mapping[str, str] | None = None,
    directory: Path | None = None,
    signal_delay: int = 90,
) -> Launched:
    """Submit a command to Slurm, in shards.

    Args:
        words: the command, such as ``["certify", "--model", …]``, without the shard.
        out: where the command would write its run; shards are written beside it.
        shards: into how many shards the run is divided. Each is a task of an array.
        tasks: how many of them run at a time; by default all. With more shards than tasks they are taken in turn, so
            that they need not be equal in work.
        settings: options of sbatch, such as ``{"partition": "gpu", "time": "120"}``; the time limit is a day if none is
            given.
        directory: where relative paths begin; by default the working directory.
        signal_delay: so many seconds before the time limit, a task ends in order and is submitted again.

    Returns:
        The jobs, which can be waited for.
    """
    count = _checks.count("shards", shards, least=2)
    at_once = count if tasks is None else _checks.count("tasks", tasks, least=1)
    known = checked_settings(settings or {})
    shard_directory(out, 1, count)  # a path without a name is refused before the working directory is put before it
    place = Path.cwd() if directory is None else directory
    whole = place / Path(out).expanduser()
    if (there := _run(whole)) is not None and there.complete:
        raise RunError(f"{whole} holds a complete run already; choose another directory")
    if shutil.which("sbatch") is None:
        raise RunError("there is no sbatch here; run this where jobs can be submitted to Slurm")
    submitit: Any = optional("submitit", extra="slurm", error=RunError)
    parts = tuple(shard_directory(whole, number, count) for number in range(1, count + 1))
    logs = whole.with_name(f"{whole.name}-slurm")
    executor = submitit.SlurmExecutor(folder=logs, max_num_timeout=_TIMEOUTS)
    common = {"time": minutes(known["time"]), "signal_delay_s": signal_delay, "stderr_to_stdout": True}
    with guarded("the run cannot be submitted to Slurm", error=RunError):
        more = {**known, "requeue": True}
        executor.update_parameters(**common, job_name="lvmrs", array_parallelism=at_once, additional_parameters=more)
        command = Command((*words, "--shard", "auto", "--resume"), place)
        array = executor.submit_array([command] * count)[0].job_id.partition("_")[0]
        after = {"dependency": f"afterok:{array}", "kill-on-invalid-dep": "yes"}
        executor.update_parameters(**common, job_name="lvmrs-merge", additional_parameters={**more, **after})
        merged = executor.submit(Command(("merge", *map(str, parts), "--out", str(whole)), place))
    return Launched(whole, parts, array, merged.job_id, logs)


def _queued(*jobs: str) -> bool:
    """Whether one of these jobs is waiting or running. While nobody answers, they are taken to be."""
    asked = ["squeue", "--noheader", "--jobs", ",".join(jobs)]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603
    if found.returncode:
        return "Invalid job id" not in found.stderr
    return bool(found.stdout.strip())


def _run(shard: Path) -> Run | None:
    """The run of a shard; None if it is not begun."""
    with suppress(RunError):
        run = Run(shard)
        return run if run.count else None
    return None
