"""Locks that keep two processes from writing to the same file. A lock is released when its process ends, or is killed.

A lock uses ``flock``. On network file systems without ``flock`` it uses ``lockf``, and without both a file that names
the owner. Another process of the same machine takes over that file if the owner is dead.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path

from lvmrs._util import files
from lvmrs._util.files import check_kind
from lvmrs.errors import RunError

_UNSUPPORTED = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}
# Locks of lockf belong to a process: it could take the same lock twice, and closing one file would release both.
_ours: set[Path] = set()


class Lock:
    """An exclusive lock. The constructor takes the lock, or raises RunError if another process holds it.

    Args:
        path: the lock file. The constructor makes it if necessary, and ``release`` removes it.
        taken: the error message if another process holds the lock.
    """

    def __init__(self, path: Path, taken: str) -> None:
        self.path, self._taken = path.parent.resolve() / path.name, taken  # links are not followed
        self._owner: Path | None = None
        if self.path in _ours:
            raise RunError(taken)
        self._file = self._opened()
        _ours.add(self.path)

    def release(self) -> None:
        """Release the lock. If its files cannot be removed, the lock is released all the same."""
        _ours.discard(self.path)
        with suppress(OSError):
            files.remove(self.path)
            if self._owner is not None:
                files.remove(self._owner)
        with suppress(OSError):
            files.close(self._file)

    def _opened(self) -> int:
        while True:
            file = files.open_file(self.path)
            try:
                self._lock(file)
                if _is(file, self.path):
                    return file
            except BaseException:
                files.close(file)
                raise
            files.close(file)  # the previous owner removed the file meanwhile

    def _lock(self, file: int) -> None:
        for lock in (fcntl.flock, fcntl.lockf):
            try:
                lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
                    raise RunError(self._taken) from None
                if error.errno not in _UNSUPPORTED:
                    raise
            else:
                return
        self._owner = self.path.with_name(f"{self.path.name}-owner")
        _own(self._owner, self._taken)


def _is(file: int, path: Path) -> bool:
    """Whether ``path`` still names this open file."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _own(owner: Path, taken: str) -> None:
    """Make the file that names this process as the owner of the lock."""
    while True:
        try:
            file = files.open_file(owner, os.O_EXCL)
        except FileExistsError:
            _remove_if_dead(owner, taken)
            continue
        try:
            files.write(file, f"{socket.gethostname()} {os.getpid()}\n".encode())
            files.sync(file)
        except BaseException:
            with suppress(OSError):
                files.remove(owner)
            raise
        finally:
            files.close(file)
        return


def _remove_if_dead(owner: Path, taken: str) -> None:
    """Remove the file of a dead owner. Renames it first, since two processes may do this at the same time."""
    found = _text(owner)
    if found is None:
        return
    if not _dead(found):
        raise RunError(f"{taken}; if no process writes there any more, delete {owner}")
    mine = owner.with_name(f"{owner.name}-{os.getpid()}")
    try:
        files.rename(owner, mine)
    except FileNotFoundError:
        return
    if _text(mine) != found:  # another process took over meanwhile
        files.rename(mine, owner)
        raise RunError(taken)
    files.remove(mine)


def _text(owner: Path) -> str | None:
    try:
        check_kind(owner)
        return owner.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None


def _dead(text: str) -> bool:
    """Whether the owner was a process of this machine that has ended."""
    host, _, number = text.strip().rpartition(" ")
    if host != socket.gethostname() or not number.isdecimal() or not 0 < int(number) < 1 << 31:
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # a process of another user
        return False
    return False
