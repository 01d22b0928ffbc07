"""What a Slurm job does: it runs a command of lvmrs in a process of its own, and ends it in order if Slurm asks."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from lvmrs._extras import optional
from lvmrs._stopping import EXIT_CODE
from lvmrs.errors import RunError

__all__ = ["Command"]


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
        """Run the command. A failure is an error, so that jobs that depend on this one do not begin."""
        command = [sys.executable, "-m", "lvmrs", *self.words]
        with subprocess.Popen(command, cwd=self.directory) as self._process:  # noqa: S603 (what the user typed)
            code = self._process.wait()
        if code:
            state = "was stopped" if code == EXIT_CODE else f"ended with code {code}"
            raise RunError(f"lvmrs {' '.join(self.words):.200} {state}; its log says why")
        return code

    def checkpoint(self) -> Any:
        """Called by submitit before the job is killed: the rows are on the disk, and the job is submitted again."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait()
        submitit = optional("submitit", extra="slurm", error=RunError)
        return submitit.helpers.DelayedSubmission(Command(self.words, self.directory))
