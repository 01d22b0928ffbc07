"""Runs a command on a Slurm cluster: an array with one task per shard, and a job that merges the shards.

>>> shard_of_task({"SLURM_ARRAY_TASK_ID": "6", "SLURM_ARRAY_TASK_MIN": "5", "SLURM_ARRAY_TASK_COUNT": "4"})
(2, 4)
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lvmrs._util.signals import EXIT_CODE
from lvmrs._util.text import optional
from lvmrs.errors import InvalidArgumentError, RunError, guarded
from lvmrs.kernel import checks
from lvmrs.record import Run

# Seconds between two calls of squeue.
_LOOK = 2.0
# How often a task may reach its time limit and be requeued.
_TIMEOUTS = 100
# Seconds in which Slurm kills or requeues a task after it stopped the command: more than the usual KillWait.
_DECISION = 120.0
# How often a stopped command is run again in the same task.
_AGAIN = 10
# The time limit of a task in minutes, if none is given: a day.
_DAY = 24 * 60
_LIMIT = re.compile(r"(?:([0-9]{1,4})-)?([0-9]{1,6})(?::([0-9]{1,2}))?(?::([0-9]{1,2}))?")
# Options of sbatch that launch sets, or that would break a launched run, and why.
_REFUSED = {
    "array": "the array has one task for each shard; use --shards and --tasks",
    **dict.fromkeys(("output", "error", "open-mode"), "launch --wait and its messages name the logs"),
    "signal": "a task ends in order after the signal before its time limit",
    **dict.fromkeys(("requeue", "no-requeue"), "a task that is stopped is requeued, and resumes"),
    **dict.fromkeys(("nodes", "ntasks", "ntasks-per-node"), "each shard is one task on one node"),
    "kill-on-invalid-dep": "shards are merged only if all have ended well",
    **dict.fromkeys(("wait", "wrap", "parsable", "test-only"), "it changes what sbatch does with the script of launch"),
}


def shard_of_task(environment: Mapping[str, str] | None = None) -> tuple[int, int]:
    """The number of the shard of this array task, counted from 1, and the number of shards.

    Args:
        environment: the environment variables of Slurm; by default those of this process.
    """
    given = os.environ if environment is None else environment
    words = {name: given.get(f"SLURM_ARRAY_TASK_{name}", "") for name in ("ID", "MIN", "COUNT", "STEP", "MAX")}
    known = {name: int(word) for name, word in words.items() if word.isascii() and word.isdigit()}
    if not {"ID", "MIN", "COUNT"} <= set(known):
        told = ", ".join(f"SLURM_ARRAY_TASK_{name} is {words[name]!r:.40}" for name in ("ID", "MIN", "COUNT"))
        raise InvalidArgumentError(
            f"shard auto is for the tasks of a Slurm array, and this is none ({told}); submit it with sbatch "
            "--array=1-8, or name the shard, such as 2/8"
        )
    task, first, count, step = known["ID"], known["MIN"], known["COUNT"], max(1, known.get("STEP", 1))
    last = known.get("MAX", first + (count - 1) * step)
    place, rest = divmod(task - first, step)
    # Slurm does not list the tasks of an array such as 0,2,5, and reports a step of 1 for it.
    if rest or not 0 <= place < count or last != first + (count - 1) * step:
        raise InvalidArgumentError(
            f"task {task} is one of {count} from {first} to {last}: the array has gaps, so that it does not say which "
            "shard this is; submit an array such as 1-8, or name the shard, such as 2/8"
        )
    return place + 1, count


def shard_directory(out: str | Path, shard: int, shards: int) -> Path:
    """The directory of a shard, beside that of the whole run.

    >>> print(shard_directory("runs/a", 2, 8))
    runs/a-2-of-8
    """
    path = Path(out)
    if path.name in ("", ".."):
        raise InvalidArgumentError(f"out must have a name, which shards are named after, got {str(out)!r:.80}")
    return path.with_name(f"{path.name}-{shard}-of-{shards}")


def checked_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Options of sbatch with a time limit; raises if an option would break a launched run.

    >>> checked_settings({"partition": "gpu"})
    {'time': '1440', 'partition': 'gpu'}
    """
    for name in settings:
        dashed = checks.text("sbatch", name).replace("_", "-")
        for refused, why in _REFUSED.items():
            if refused.startswith(dashed):  # sbatch accepts abbreviated names
                raise InvalidArgumentError(f"sbatch {name!r:.40} cannot be given here: {why}; leave it out")
    known = {"time": str(_DAY), **settings}
    minutes(known["time"])
    return known


def minutes(text: str) -> int:
    """A time limit in minutes, from sbatch's formats: minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S."""
    found = _LIMIT.fullmatch(text)
    if found is None:
        raise InvalidArgumentError(
            f"time must be minutes, or like 4:00:00 or 1-12, as sbatch takes it, got {text!r:.40}"
        )
    days, *parts = (int(part or 0) for part in found.groups())
    if found[1] is None and found[4] is None:  # minutes, or M:S
        parts = [0, *parts[:2]]
    hours, whole, seconds = parts
    return max(1, 24 * 60 * days + 60 * hours + whole + bool(seconds))


class Command:
    """A command of lvmrs, without the word "lvmrs", that runs in a Slurm job, and resumes after a stop."""

    def __init__(self, words: tuple[str, ...], directory: Path) -> None:
        self.words, self.directory = words, directory
        self._process: subprocess.Popen[bytes] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The state without the process, which cannot be pickled."""
        return {"words": self.words, "directory": self.directory, "_process": None}

    def __call__(self) -> int:
        """Run the command. Raises if it fails, so that dependent jobs do not begin.

        A stopped command has not failed. Slurm sends SIGTERM to all processes of a task before it requeues or cancels
        the task, and kills them later; an error in between would end the task for good. If Slurm does neither, only the
        command got the signal, and the command is run again.
        """
        code = self._run()
        for _ in range(_AGAIN):
            if code != EXIT_CODE:
                break
            time.sleep(_DECISION)
            code = self._run()
        if code:
            state = "was stopped" if code == EXIT_CODE else f"ended with code {code}"
            raise RunError(f"lvmrs {' '.join(self.words):.200} {state}; its log says why")
        return code

    def _run(self) -> int:
        command = [sys.executable, "-m", "lvmrs", *self.words]
        with subprocess.Popen(command, cwd=self.directory) as self._process:  # noqa: S603 (what the user typed)
            return self._process.wait()

    def checkpoint(self) -> Any:
        """Stop the command, whose rows are on the disk, and resubmit it. submitit calls this before the job is killed.

        The call comes from a signal handler, usually while the same thread is in ``Popen.wait``, which holds a lock
        that a second ``wait`` would never get. So ``waitid`` waits for the end, and leaves the exit code to the first
        ``wait``.
        """
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            with suppress(ChildProcessError):  # the first wait already has the exit code
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        submitit = optional("submitit", extra="slurm", error=RunError)
        return submitit.helpers.DelayedSubmission(Command(self.words, self.directory))


@dataclass(frozen=True)
class Launched:
    """A submitted run."""

    out: Path
    """Directory of the merged run."""
    shards: tuple[Path, ...]
    """Directories of the shards."""
    array: str
    """Slurm's job id of the array."""
    merging: str
    """Slurm's job id of the merging job."""
    logs: Path
    """Directory of the logs of all tasks."""

    def wait(self, on_rows: Callable[[int, int], None] = lambda rows, inputs: None, *, look: float = _LOOK) -> Run:
        """Wait until the run is merged, and look at the queue every ``look`` seconds.

        Calls ``on_rows`` each time with the number of rows of all shards, and the number of inputs.
        """
        while _queued(self.array, self.merging):
            self._tell(on_rows)
            time.sleep(look)
        self._tell(on_rows)
        if (merged := _run_in(self.out)) is not None and merged.complete:
            return merged
        waiting = [path for path in self.shards if (run := _run_in(path)) is None or not run.complete]
        what = f"{waiting[0]} is not finished" if waiting else "the shards were not merged"
        raise RunError(
            f"the jobs {self.array} and {self.merging} have ended, and {what}; the logs in {self.logs} say why. Rows "
            "already written are safe: launch the same command again"
        )

    def _tell(self, on_rows: Callable[[int, int], None]) -> None:
        begun = [run for run in map(_run_in, self.shards) if run is not None]
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
    """Submit a command to Slurm in shards.

    Args:
        words: the command, such as ``["certify", "--model", …]``, without the shard.
        out: the directory of the run; shards are written beside it.
        shards: number of shards. Each is a task of an array.
        tasks: maximum number of tasks that run at the same time; by default all. With more shards than tasks, shards
            may differ in work.
        settings: options of sbatch, such as ``{"partition": "gpu", "time": "120"}``; the default time limit is a day.
        directory: the base of relative paths; by default the working directory.
        signal_delay: seconds before the time limit at which a task stops and is submitted again.

    Returns:
        The submitted jobs, with a method to wait for them.
    """
    count = checks.count("shards", shards, least=2)
    at_once = count if tasks is None else checks.count("tasks", tasks, least=1)
    known = checked_settings(settings or {})
    shard_directory(out, 1, count)  # raises for a path without a name, before the working directory gives it one
    place = Path.cwd() if directory is None else directory
    whole = place / Path(out).expanduser()
    if (there := _run_in(whole)) is not None and there.complete:
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
    """Whether one of these jobs waits or runs; True while squeue fails, as it does when Slurm is restarted."""
    asked = ["squeue", "--noheader", "--jobs", ",".join(jobs)]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603
    if found.returncode:
        return "Invalid job id" not in found.stderr
    return bool(found.stdout.strip())


def _run_in(directory: Path) -> Run | None:
    """The run in a directory; None if it has no row yet."""
    with suppress(RunError):
        run = Run(directory)
        return run if run.count else None
    return None
