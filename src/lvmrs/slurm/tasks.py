"""What a Slurm job does: it runs a command of lvmrs in a process of its own, and ends it in order if Slurm asks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from lvmrs._extras import optional
from lvmrs._stopping import EXIT_CODE
from lvmrs.errors import RunError

__all__ = ["Command"]

# Seconds that Slurm has to kill or requeue a task whose command it has stopped: more than KillWait usually is.
_DECISION = 120.0
# How often a command that was stopped is run again in the same task.
_AGAIN = 10


class Command:
    """A command of lvmrs that can be stopped at any time, and then goes on where it was. It can be pickled.

    Args:
        words: the command, without "lvmrs".
        directory: where it runs.
    """

    def __init__(self, words: tuple[str, ...], directory: Path) -> None:
        self.words, self.directory = words, directory
        self._process: subprocess.Popen[bytes] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: the process is not."""
        return {"words": self.words, "directory": self.directory, "_process": None}

    def __call__(self) -> int:
        """Run the command. A failure is an error, so that jobs that depend on this one do not begin.

        A command that was stopped has not failed. Slurm sends SIGTERM to all processes of a task that it is about to
        requeue or to cancel, and kills them a while later; an error in between would end the task for good. If nothing
        comes, the signal was for the command alone, which goes on.
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
        """Called by submitit before the job is killed: the rows are on the disk, and the job is submitted again.

        It is called in a signal handler, most often while this very thread is in ``Popen.wait``, which holds a lock
        that a second ``wait`` would wait for in vain. So the end is waited for beside it, and the process is left
        for the first ``wait``.
        """
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            with suppress(ChildProcessError):  # it has ended, and the first wait knows
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        submitit = optional("submitit", extra="slurm", error=RunError)
        return submitit.helpers.DelayedSubmission(Command(self.words, self.directory))
