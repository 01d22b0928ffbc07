"""Copies of files for a worker, in a folder of its own.

A worker may be killed at any time, and then its folder stays. It is locked as long as the worker lives, so that the
next worker on that machine finds out which folders nobody needs any more, and removes them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from lvmrs import _disk
from lvmrs.workers.shipping import unloaded

__all__ = ["Copies", "remove_abandoned"]

_PREFIX, _NEW = "lvmrs-copies-", "lvmrs-new-"


class Copies:
    """A folder with copies, from which files are read from now on.

    Args:
        files: the content of files, by their paths.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        made = Path(tempfile.mkdtemp(prefix=_NEW)).resolve()
        self._lock = _locked(made)
        self.folder = made.with_name(made.name.replace(_NEW, _PREFIX))
        _disk.rename(made, self.folder)  # it has the name by which others look for it after it is locked
        try:
            unloaded(files, self.folder)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._lock is not None:
            _disk.close(self._lock)
            self._lock = None


def remove_abandoned() -> None:
    """Remove the folders of this user whose worker does not live any more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it is somebody else's, or was removed meanwhile
            if folder.lstat().st_uid == os.getuid() and (lock := _locked(folder)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                _disk.close(lock)


def _locked(folder: Path) -> int | None:
    """A lock on a folder, which ends with this process; None if another process has it, or it cannot be locked."""
    file = _disk.open_directory(folder)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        _disk.close(file)
        return None
    return file
