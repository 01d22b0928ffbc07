"""Processes of tests: how they are started, how they hear signals, and that none is left behind."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from pathlib import Path

__all__ = ["adopt_orphans", "hear_signals", "left_behind", "running", "until"]

_PR_SET_CHILD_SUBREAPER = 36


def hear_signals() -> None:
    """Let processes of the tests hear Control-C and SIGHUP, also if the tests were started by nohup or in background.

    Whoever starts them so has these signals ignored, and a process inherits that. A handler is not inherited.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def adopt_orphans() -> None:
    """Make this process the parent of processes whose own parent dies, so that ``left_behind`` finds them (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def left_behind(process: int | None = None) -> dict[int, str]:
    """The running children of a process (of this one by default), with their command lines; Python's own excepted."""
    own = getattr(resource_tracker._resource_tracker, "_pid", None)
    found = {}
    for listed in Path(f"/proc/{process or os.getpid()}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended
            for child in map(int, listed.read_text().split()):
                with contextlib.suppress(OSError):  # a process that has ended
                    state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
                    words = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if child != own and state != "Z":
                        found[child] = words
    return found


@contextlib.contextmanager
def running(*command: str, cwd: Path | None = None, **more: str) -> Iterator["subprocess.Popen[str]"]:
    """A process of Python with these arguments, which is killed at the end of the block if it has not ended."""
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, *command],
        cwd=cwd,
        env={**os.environ, **more},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def until(
    condition: Callable[[], object], process: "subprocess.Popen[str] | None" = None, seconds: float = 300
) -> None:
    """Wait for something, as long as the process lives."""
    end = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.005)
