"""Signals that ask the program to stop: Control-C, SIGTERM and SIGHUP, and SIGUSR1 and SIGUSR2 of batch systems.

This module needs nothing that takes time to import: it is in place before anything else is loaded. An exception must
not be raised while torch is being imported, since C++ code that meets one aborts. So while nothing is written yet, the
program just leaves. Later it is interrupted with ``KeyboardInterrupt``, so that files are closed and the user is told
how to go on.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # importing typing takes a while, in which a signal would not be answered
if TYPE_CHECKING:
    from sys import UnraisableHookArgs
    from types import FrameType
    from typing import NoReturn

__all__ = ["EXIT_CODE", "SIGNALS", "check", "ignore", "listen", "work_begins"]

EXIT_CODE = 3
"""Exit code of a program that was stopped."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""The signals that ask to stop. Slurm sends SIGUSR1 or SIGUSR2 some time before it kills (sbatch --signal)."""


class _State:
    """What this process was asked, and what it has done."""

    process = 0
    working = False
    asked = False


def listen() -> None:
    """Take the signals, except those that are ignored from the start: nohup and background jobs want that."""
    _State.process = os.getpid()
    sys.unraisablehook = _swallowed
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def work_begins() -> None:
    """From now on something may be written: a signal interrupts the work, which ends in order."""
    _State.working = True


def check() -> None:
    """Interrupt the work if a signal came and its interruption was lost, in code that swallows all exceptions."""
    if _State.asked:
        raise KeyboardInterrupt


def ignore() -> None:
    """Ignore further signals: the program is about to end."""
    _State.asked = False
    if _State.process == os.getpid():
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
    # Python remembers an interruption that passed through exec, as in the making of a dataclass, and would end
    # ``python -m lvmrs`` with SIGINT instead of our exit code. It forgets when it runs any text.
    eval("None")  # noqa: S307


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    if not _State.working and _State.process == os.getpid():
        _leave()
    _State.asked = True
    raise KeyboardInterrupt


def _swallowed(lost: UnraisableHookArgs) -> None:
    """Say what Python says of an exception that it must swallow, in the callback of a weak reference for example.

    Of an interruption nothing is said: it is not lost, since ``check`` interrupts again.
    """
    if not (_State.asked and issubclass(lost.exc_type, KeyboardInterrupt)):
        sys.__unraisablehook__(lost)


def _leave() -> NoReturn:
    try:
        os.write(2, b"lvmrs: stopped; nothing was written\n")
    finally:  # also if the terminal is gone
        os._exit(EXIT_CODE)
