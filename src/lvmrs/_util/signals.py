"""Handlers for the signals that stop the program: SIGINT, SIGTERM, SIGHUP, and SIGUSR1 and SIGUSR2 of batch systems.

This module imports nothing slow, so that the handlers are installed before anything else is loaded. A handler must not
raise an exception during the import of torch, because C++ code would abort. Before the program writes anything, a
signal therefore ends the process at once. Later a signal raises ``KeyboardInterrupt``, so that files are closed and the
command line tells the user how to resume.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # the import of typing is slow, and signals have no handler before its end
if TYPE_CHECKING:
    from sys import UnraisableHookArgs
    from types import FrameType
    from typing import NoReturn

EXIT_CODE = 3
"""Exit code of a program that a signal stopped."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""The signals that stop the program. Slurm can send SIGUSR1 or SIGUSR2 before it kills a job (sbatch --signal)."""


class _State:
    """State of the handlers in this process."""

    process = 0
    working = False
    stop_requested = False


def listen() -> None:
    """Install the handlers, except for signals that the process ignores already (nohup, background jobs)."""
    _State.process = os.getpid()
    sys.unraisablehook = _report_unraisable
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def work_begins() -> None:
    """Declare that the program may write files from now on: signals raise ``KeyboardInterrupt`` instead of exiting."""
    _State.working = True


def check() -> None:
    """Raise ``KeyboardInterrupt`` if a signal arrived, in case other code caught the first one."""
    if _State.stop_requested:
        raise KeyboardInterrupt


def ignore() -> None:
    """Ignore further signals, because the program is about to exit."""
    _State.stop_requested = False
    if _State.process == os.getpid():
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
    # After a KeyboardInterrupt inside exec (as in dataclasses), ``python -m lvmrs`` would end with SIGINT instead of
    # EXIT_CODE. Running any text with eval resets this state of the interpreter.
    eval("None")  # noqa: S307


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    if not _State.working and _State.process == os.getpid():
        try:
            os.write(2, b"lvmrs: stopped; nothing was written\n")
        finally:  # also if the terminal is closed
            os._exit(EXIT_CODE)
    _State.stop_requested = True
    raise KeyboardInterrupt


def _report_unraisable(lost: UnraisableHookArgs) -> None:
    """Report an exception that Python cannot raise, such as one in the callback of a weak reference.

    Does not report a ``KeyboardInterrupt`` of a signal, because ``check`` raises it again.
    """
    if not (_State.stop_requested and issubclass(lost.exc_type, KeyboardInterrupt)):
        sys.__unraisablehook__(lost)
