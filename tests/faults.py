"""Faults of the disk: one call of the file system fails, writes only a part, or is the last that a process makes."""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lvmrs._util import files
from lvmrs._util import lock as _locking

__all__ = ["FAULTS", "CrashError", "Disk", "faulty_disk"]

FAULTS = ("ENOSPC", "EIO", "EDQUOT", "short write", "crash before", "crash halfway", "crash after")
"""What can happen to one call."""
_CHANGES = ("mkdir", "open", "write", "pwrite", "fsync", "replace", "unlink", "ftruncate", "flock", "lockf")


class CrashError(BaseException):
    """The process is dead: nothing that it would do next happens."""


class Disk:
    """Counts the calls that change the file system, and lets one of them go wrong.

    Args:
        number: the number of the call that goes wrong, from 0; −1 for none.
        fault: one of FAULTS.
    """

    def __init__(self, number: int = -1, fault: str = "EIO") -> None:
        self.number, self.fault = number, fault
        self.calls: list[str] = []
        self._dead = self._full = False
        self._open: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        if name == "fsync":
            return lambda *given: self._call(name, lambda file: None, given)  # no plug is pulled here
        real = getattr(fcntl if name in ("flock", "lockf") or name.startswith("LOCK_") else os, name)
        if name == "close":
            return self._close
        if not callable(real) or name not in _CHANGES:
            return real
        return lambda *given: self._call(name, real, given)

    def end(self) -> None:
        """What the system does when a process ends: it closes its files."""
        for file in self._open:
            os.close(file)
        _locking._ours.clear()

    def _close(self, file: int) -> None:
        if not self._dead:
            self._open.discard(file)
            os.close(file)

    def _call(self, name: str, real: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        if self._dead:
            raise CrashError
        if self._full and name in ("write", "pwrite"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if name == "open" and not given[1] & os.O_CREAT:  # a directory, to sync it
            return self._done(name, real(*given))
        self.calls.append(name)
        return self._wrong(name, real, given) if len(self.calls) == self.number + 1 else self._done(name, real(*given))

    def _done(self, name: str, result: Any) -> Any:
        if name == "open":
            self._open.add(result)
        return result

    def _wrong(self, name: str, real: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        if self.fault.startswith("E"):
            number = getattr(errno, self.fault)
            raise OSError(number, os.strerror(number))
        partly = (given[0], given[1][: len(given[1]) // 2], *given[2:]) if name in ("write", "pwrite") else given
        if self.fault == "short write":
            self._full = partly is not given
            return self._done(name, real(*partly))
        if self.fault == "crash halfway":
            self._done(name, real(*partly))
        elif self.fault == "crash after":
            self._done(name, real(*given))
        self._dead = True
        raise CrashError


@contextmanager
def faulty_disk(disk: Disk) -> Iterator[Disk]:
    """Let lvmrs write through this disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "os", disk)
        patch.setattr(_locking, "fcntl", disk)
        try:
            yield disk
        finally:
            disk.end()
