"""One process at a time, on file systems with and without locks."""

import errno
import fcntl
import os
import socket
from pathlib import Path

import pytest

from lvmrs._util import lock as _locking
from lvmrs._util.lock import Lock
from lvmrs.errors import RunError
from tests.hostile.commands import limited
from tests.runs.helpers import in_child

UNSUPPORTED = [errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL]


def without(monkeypatch: pytest.MonkeyPatch, *names: str, number: int = errno.ENOSYS) -> None:
    """A file system that does not have these locks."""

    def fails(file: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    for name in names:
        monkeypatch.setattr(fcntl, name, fails)


def refused(path: Path) -> bool:
    """Whether another process is refused."""

    def attempt() -> None:
        _locking._ours.clear()
        with pytest.raises(RunError, match="somebody is here"):
            Lock(path, "somebody is here")

    return in_child(attempt) == 0


LEVELS = [(), ("flock",), ("flock", "lockf")]


@pytest.mark.parametrize("missing", LEVELS, ids=["flock", "lockf", "owner"])
def test_a_second_one_is_kept_out_until_the_first_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: tuple[str, ...]
) -> None:
    without(monkeypatch, *missing)
    path = tmp_path / ".lock"
    lock = Lock(path, "somebody is here")
    with pytest.raises(RunError, match="somebody is here"):
        Lock(path, "somebody is here")
    assert refused(path)
    assert refused(path)  # the first try took nothing away
    lock.release()
    assert list(tmp_path.iterdir()) == []
    assert not refused(path)
    Lock(path, "somebody is here").release()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", UNSUPPORTED)
def test_whatever_a_file_system_says_that_has_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    without(monkeypatch, "flock", "lockf", number=number)
    lock = Lock(tmp_path / ".lock", "somebody is here")
    assert (tmp_path / ".lock-owner").read_text() == f"{socket.gethostname()} {os.getpid()}\n"
    lock.release()


@pytest.mark.parametrize("missing", LEVELS, ids=["flock", "lockf", "owner"])
def test_a_lock_ends_with_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: tuple[str, ...]
) -> None:
    without(monkeypatch, *missing)
    path = tmp_path / ".lock"
    assert in_child(lambda: Lock(path, "somebody is here")) == 0  # it ends without release
    assert path.exists()
    Lock(path, "somebody is here").release()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("owner", ["another-machine 1\n", "no number\n", "", f"{socket.gethostname()} 1\n"])
def test_an_owner_that_may_live_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str) -> None:
    without(monkeypatch, "flock", "lockf")
    (tmp_path / ".lock-owner").write_text(owner)
    with pytest.raises(RunError, match=r"somebody is here; if no process writes there any more, delete .*\.lock-owner"):
        Lock(tmp_path / ".lock", "somebody is here")
    assert (tmp_path / ".lock-owner").read_text() == owner


def test_an_owner_that_is_a_pipe_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "flock", "lockf")
    os.mkfifo(tmp_path / ".lock-owner")
    with limited(20), pytest.raises(OSError, match="a device or a pipe"):
        Lock(tmp_path / ".lock", "somebody is here")


def test_a_lock_file_that_was_removed_meanwhile_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one before removes its file between the moments when the second one opens it and locks it."""
    path, real = tmp_path / ".lock", fcntl.flock
    removed: list[bool] = []

    def late(file: int, operation: int) -> None:
        if not removed:
            path.unlink()
            removed.append(True)
        real(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    lock = Lock(path, "somebody is here")
    assert path.exists()
    assert refused(path)
    lock.release()
