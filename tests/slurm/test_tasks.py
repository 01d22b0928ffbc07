"""The task of a Slurm job: how it ends when it is asked to, and what it does after its command was stopped."""

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lvmrs.errors import RunError
from lvmrs.slurm import tasks
from lvmrs.slurm.tasks import Command

# As submitit does it: the handler of a signal calls checkpoint while the same thread waits for the command.
PREEMPTED = """
import os, signal, sys, threading, time, types
from pathlib import Path
from lvmrs.slurm import tasks

helpers = types.SimpleNamespace(DelayedSubmission=lambda job: job)
tasks.optional = lambda *_, **__: types.SimpleNamespace(helpers=helpers)
tasks.sys = types.SimpleNamespace(executable=sys.argv[1])
command = tasks.Command(("certify",), Path())

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
    line = [sys.executable, "-c", PREEMPTED, str(program(tmp_path / "sleeper", "exec sleep 20"))]
    begun = time.monotonic()
    found = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    assert (found.returncode, found.stdout) == (7, "again ('certify',)\n"), found.stderr
    assert time.monotonic() - begun < 19, "the command was waited for, and not stopped"


def test_a_command_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = tmp_path / "count"
    fake = program(tmp_path / "fake", f'echo >> {count}; [ "$(wc -l < {count})" -ge 3 ] || exit 3')
    monkeypatch.setattr(tasks, "_DECISION", 0.0)
    monkeypatch.setattr(sys, "executable", str(fake))
    assert Command(("certify",), tmp_path)() == 0
    assert len(count.read_text().splitlines()) == 3


def test_a_command_that_fails_or_is_always_stopped_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_DECISION", 0.0)
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
