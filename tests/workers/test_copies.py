"""Copies of files for a worker: none is left when the worker has ended, however it ended."""

import os
import signal
from pathlib import Path

import pytest

from lvmrs import _paths
from lvmrs.workers.copies import Copies, remove_abandoned
from tests.jobs.helpers import in_child

FILES = {"/no/such/weights.pt": b"1", "/no/such/nets.py": b"2"}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(_paths, "_MOVED", {})
    return tmp_path


def killed() -> None:
    remove_abandoned()
    Copies(FILES)
    os.kill(os.getpid(), signal.SIGKILL)


def test_they_are_read_and_removed(place: Path) -> None:
    copies = Copies(FILES)
    assert [_paths.where(Path(name)).read_bytes() for name in FILES] == [b"1", b"2"]
    assert list(place.iterdir()) == [copies.folder]
    copies.discard()
    copies.discard()
    assert not list(place.iterdir())


def test_a_full_disk_leaves_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("lvmrs.workers.shipping.is_now_at", full)
    with pytest.raises(OSError, match="no space left"):
        Copies(FILES)
    assert not list(place.iterdir())


def test_those_of_killed_workers_are_removed_by_the_next_one(place: Path) -> None:
    living = Copies(FILES)
    for _ in range(2):
        assert in_child(killed) == -signal.SIGKILL
        assert len(list(place.iterdir())) == 2, "one of a living worker, and that of the last killed one"
    remove_abandoned()
    assert list(place.iterdir()) == [living.folder]
    assert len(list(living.folder.rglob("*.p[ty]"))) == 2
    living.discard()


def test_what_others_have_put_there_is_left_alone(place: Path) -> None:
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").touch()
    (place / "lvmrs-copies-link").symlink_to(elsewhere)
    (place / "lvmrs-copies-file").touch()
    remove_abandoned()
    assert sorted(path.name for path in place.iterdir()) == ["elsewhere", "lvmrs-copies-file", "lvmrs-copies-link"]
    assert (elsewhere / "file").exists()
