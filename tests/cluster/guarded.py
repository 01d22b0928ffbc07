"""Programs that end with the tests, with all processes that they have started, however the tests end."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["descendants", "guarded", "kill", "missing_programs", "remove"]

# Starts a command, and kills all of it when nobody holds the other end of its input any more; then it removes a folder.
_GUARD = """
import os, subprocess, sys, threading
from tests.cluster.guarded import descendants, kill, remove
process = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL)
asked = threading.Event()
def end_with_it():
    code = process.wait()
    if not asked.is_set():
        os._exit(code & 255)
threading.Thread(target=end_with_it, daemon=True).start()
sys.stdin.read()
asked.set()
kill([*descendants(process.pid), process.pid])
remove(sys.argv[1])
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


def remove(folder: str) -> None:
    """Remove a folder, into which others that are dying may still write; none if the name is empty."""
    end = time.monotonic() + 5
    while folder and Path(folder).exists() and time.monotonic() < end:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.05)


def guarded(
    words: Sequence[str], environment: Mapping[str, str], log: Path, folder: Path | None = None
) -> "subprocess.Popen[bytes]":
    """Start a program; close its input to end it. If there is a folder of its own, it is removed then."""
    with log.open("ab") as out:
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", _GUARD, "" if folder is None else str(folder), *words],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
        )


def missing_programs(*names: str) -> list[str]:
    """Those that are not installed."""
    return [name for name in names if shutil.which(name) is None]
