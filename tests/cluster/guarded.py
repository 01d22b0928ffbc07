"""Programs that end with the tests, with all processes that they have started, however the tests end."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["descendants", "guarded", "kill", "missing_programs"]

# Starts a command, and kills all of it when nobody holds the other end of its input any more.
_GUARD = """
import os, subprocess, sys, threading
from tests.cluster.guarded import descendants, kill
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
threading.Thread(target=lambda: os._exit(process.wait() & 255), daemon=True).start()
sys.stdin.read()
kill([*descendants(process.pid), process.pid])
process.wait()
"""


def descendants(process: int) -> list[int]:
    """The processes that a process has started, and those that they have started."""
    found = []
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # it has ended
            for child in map(int, listed.read_text().split()):
                found += [child, *descendants(child)]
    return found


def kill(processes: Sequence[int]) -> None:
    """Kill processes that may have ended already."""
    for each in processes:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def guarded(words: Sequence[str], environment: Mapping[str, str], log: Path) -> "subprocess.Popen[bytes]":
    """Start a program; close its input to end it."""
    with log.open("ab") as out:
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", _GUARD, *words],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
        )


def missing_programs(*names: str) -> list[str]:
    """Those that are not installed."""
    return [name for name in names if shutil.which(name) is None]
