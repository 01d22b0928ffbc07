"""Slurm, without a cluster: the shard of a task, options of sbatch, what cannot be launched, and how a task ends."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from lvmrs import runs
from lvmrs.errors import InvalidArgumentError, RunError
from lvmrs.runs.workers import slurm
from lvmrs.runs.workers.slurm import Command, checked_settings, launch, minutes, shard_directory, shard_of_task
from tests.runs.conftest import no_measuring
from tests.runs.helpers import job_of

__all__ = ["no_measuring"]


def task(number: object, first: object, count: object, step: object = None, last: object = None) -> tuple[int, int]:
    names = {"ID": number, "MIN": first, "COUNT": count, "STEP": step, "MAX": last}
    return shard_of_task({f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in names.items() if value is not None})


def test_tasks_are_counted_from_the_first() -> None:
    assert [task(number, 0, 4) for number in range(4)] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [task(number, 1, 3) for number in range(1, 4)] == [(1, 3), (2, 3), (3, 3)]
    assert [task(number, 10, 3, 5) for number in (10, 15, 20)] == [(1, 3), (2, 3), (3, 3)]
    assert [task(number, 0, 3, 2, 4) for number in (0, 2, 4)] == [(1, 3), (2, 3), (3, 3)], "0-5:2"
    assert task(3, 3, 1, 1, 3) == (1, 1)


@pytest.mark.parametrize("given", [("", "", ""), ("1", "", "4"), ("x", "0", "4"), ("-1", "0", "4"), ("²", "0", "4")])
def test_what_is_no_task_is_refused(given: tuple[str, str, str]) -> None:
    with pytest.raises(InvalidArgumentError, match="shard auto is for the tasks of a Slurm array, and this is none"):
        task(*given)


@pytest.mark.parametrize(
    "given",
    [
        *((9, 1, 3), (0, 1, 3), (12, 10, 3, 5)),
        *((0, 0, 3, 1, 5), (2, 0, 3, 1, 5), (5, 0, 3, 1, 5)),  # what Slurm sets for 0,2,5
        *((0, 0, 6, 1, 9), (1, 0, 6, 1, 9), (9, 0, 6, 1, 9)),  # 0,1,2,7-9
    ],
)
def test_gaps_are_refused(given: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"the array has gaps.* submit an array such as 1-8, or name the"):
        task(*given)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("array", "one task for each shard; use --shards and --tasks"),
        ("arr", "one task for each shard"),
        ("output", "name the logs"),
        ("open_mode", "name the logs"),
        ("signal", "a task ends in order"),
        ("no-requeue", "a task that is stopped is requeued"),
        ("ntasks", "each shard is one task"),
        ("wrap", "what sbatch does with the script"),
    ],
)
def test_options_that_would_break_a_launch_are_refused(name: str, sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"sbatch '{name}' cannot be given here: .*{sentence}"):
        checked_settings({"partition": "gpu", name: "x"})


def test_other_options_are_taken_and_the_time_limit_is_a_day() -> None:
    given = {"gres": "gpu:1", "mem": "8G", "cpus-per-task": "4", "dependency": "afterok:3", "no-kill": "off"}
    assert checked_settings(given) == {"time": "1440", **given}
    assert checked_settings({"time": "4:00:00"}) == {"time": "4:00:00"}


@pytest.mark.parametrize(
    ("text", "limit"),
    [("90", 90), ("2:30", 3), ("4:00:00", 240), ("1-12", 2160), ("1-12:30", 2190), ("0-0:0:30", 1), ("0:20", 1)],
)
def test_time_limits(text: str, limit: int) -> None:
    assert minutes(text) == limit


@pytest.mark.parametrize("text", ["", "soon", "1:2:3:4", "-5", "1-", "１２"])
def test_other_time_limits_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="time must be minutes"):
        minutes(text)


def test_a_complete_run_in_the_way_is_not_taken_for_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_measuring: None
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    runs.certify(job_of(), tmp_path / "a")
    with pytest.raises(RunError, match="a holds a complete run already; choose another directory"):
        launch(["certify"], "a", shards=2, directory=tmp_path)
    with pytest.raises(RunError, match="there is no sbatch here"):
        launch(["certify"], "b", shards=2, directory=tmp_path)


@pytest.mark.parametrize("out", [".", "/", "..", "a/.."])
def test_shards_need_a_name(out: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="out must have a name, which shards are named after"):
        shard_directory(out, 1, 2)
    with pytest.raises(InvalidArgumentError, match="out must have a name"):
        launch(["certify"], out, shards=2, directory=tmp_path)


# As submitit does it: the handler of a signal calls checkpoint while the same thread waits for the command.
PREEMPTED = """
import os, signal, sys, threading, time, types
from pathlib import Path
from lvmrs.runs.workers import slurm

helpers = types.SimpleNamespace(DelayedSubmission=lambda job: job)
slurm.optional = lambda *_, **__: types.SimpleNamespace(helpers=helpers)
slurm.sys = types.SimpleNamespace(executable=sys.argv[1])
command = slurm.Command(("certify",), Path())

def handler(number, frame):
    print("again", command.checkpoint().words)
    sys.exit(7)

def preempt():
    while command._process is None:
        time.sleep(0.05)
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGUSR2)

signal.signal(signal.SIGUSR2, handler)
threading.Thread(target=preempt, daemon=True).start()
command()
"""


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_task_that_waits_for_its_command_can_be_requeued(tmp_path: Path) -> None:
    line = [sys.executable, "-c", PREEMPTED, str(program(tmp_path / "sleeper", "exec sleep 900"))]
    # A command that is waited for, and not stopped, outlives the timeout also on a busy machine.
    found = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603
    assert (found.returncode, found.stdout) == (7, "again ('certify',)\n"), found.stderr


def test_a_command_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = tmp_path / "count"
    fake = program(tmp_path / "fake", f'echo >> {count}; [ "$(wc -l < {count})" -ge 3 ] || exit 3')
    monkeypatch.setattr(slurm, "_DECISION", 0.0)
    monkeypatch.setattr(sys, "executable", str(fake))
    assert Command(("certify",), tmp_path)() == 0
    assert len(count.read_text().splitlines()) == 3


def test_a_command_that_fails_or_is_always_stopped_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "_DECISION", 0.0)
    for code, sentence in ((1, "ended with code 1; its log says why"), (3, "was stopped; its log says why")):
        monkeypatch.setattr(sys, "executable", str(program(tmp_path / "fake", f"exit {code}")))
        with pytest.raises(RunError, match=sentence):
            Command(("certify", "--out", "a"), tmp_path)()


def test_it_can_be_pickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(program(tmp_path / "fake", "exit 0")))
    command = Command(("certify",), tmp_path)
    command()
    again = pickle.loads(pickle.dumps(command))  # noqa: S301
    assert (again.words, again.directory, again()) == (("certify",), tmp_path, os.EX_OK)
