"""Writing of an attack, row by row, so that a crash loses at most the input that is being attacked."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvmrs import _disk
from lvmrs._locking import Lock
from lvmrs._replacing import aside, replacing
from lvmrs.errors import RunError
from lvmrs.runs.attacks import COLUMNS, RECORD, ROWS, Attack, AttackRecord, AttackRow, has_attack
from lvmrs.runs.directory import MANIFEST, Run
from lvmrs.runs.whole_writes import append_lines, disk_errors, opened_lines, write_whole

__all__ = ["AttackWriter", "attack_place"]

_LOCK = ".attack-lock"
_ELSEWHERE = "choose another directory"


def attack_place(run: Run, out: str | Path | None) -> Path:
    """Where an attack on a run is written: in its directory, or in ``out``, which must not be that of another run."""
    if out is None:
        return run.directory
    place = _disk.place(out)
    if place == Path():
        raise RunError("an attack needs a directory of its own, if not that of the run; name one")
    with _disk.errors(place, _ELSEWHERE):
        is_file = place.is_file() or any(parent.is_file() for parent in place.parents)
        of_another = (place / MANIFEST).exists() and not place.samefile(run.directory)
    if is_file:
        raise RunError(f"{place} is a file, and an attack needs a directory; {_ELSEWHERE}")
    if of_another:
        raise RunError(f"{place} holds another run than {run.directory}, and its attack would be there; {_ELSEWHERE}")
    return place


class AttackWriter:
    """Writes an attack row by row; only one process at a time can. Use it in a ``with`` block.

    An attack with the same settings that is there already is completed; another one is refused. A new one that fails
    before its first row is removed.

    Args:
        run: the run that is attacked.
        directory: where to write; it is made if it does not exist.
        record: the settings.
    """

    def __init__(self, run: Run, directory: Path, record: AttackRecord) -> None:
        self.directory = directory
        with _disk.errors(directory, _ELSEWHERE):
            _disk.make_directory(directory)
            self._lock = Lock(directory / _LOCK, f"another process is writing an attack to {directory}; wait for it")
        try:
            self.done = self._settle(run, record)
            self._new = not self.done
            self.attack = Attack(run, directory)
            with disk_errors(directory):
                self._file = opened_lines(self.attack.file)
                if not _disk.size(self._file):
                    append_lines(self._file, ["\t".join(COLUMNS)])
                    _disk.sync_directory(directory)
        except BaseException:
            self._lock.release()
            raise

    def _settle(self, run: Run, record: AttackRecord) -> set[int]:
        """Write the settings of a new attack, or compare those of the one that is there; which inputs are done."""
        place = self.directory
        with disk_errors(place):
            for name in (RECORD, ROWS):  # of a process that was killed
                _disk.remove(aside(place / name))
        if has_attack(place):
            begun = Attack(run, place)
            if done := set(begun.read()["idx"].tolist()):
                if changed := begun.record.difference(record):
                    raise RunError(
                        f"{place} holds an attack with other settings ({'; '.join(changed)}); choose another "
                        f"directory, or delete {RECORD} and {ROWS}"
                    )
                return done
        with disk_errors(place):
            _disk.remove(place / ROWS)
            write_whole(place / RECORD, record.to_json())
        return set()

    def __enter__(self) -> AttackWriter:
        """Begin a ``with`` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file and give up the lock."""
        failed = kind is not None and self._new and not self.done
        try:
            with disk_errors(self.directory):
                _disk.close(self._file)
            if failed:
                with suppress(OSError):  # the error that ended the attack is told; what is left can be begun again
                    _disk.remove(self.attack.file)
                    _disk.remove(self.directory / RECORD)
        finally:
            self._lock.release()
        if failed:
            with suppress(OSError):
                _disk.remove_directory(self.directory)

    def append(self, row: AttackRow, point: NDArray[Any] | None) -> None:
        """Write a row, and the point that was found before it if it is to be kept; wait until they are on the disk."""
        with disk_errors(self.directory):
            if point is not None:
                with replacing(self.attack.point(row.idx)) as file:
                    np.save(file, point, allow_pickle=False)
            append_lines(self._file, [row.text()])
        self.done.add(row.idx)
