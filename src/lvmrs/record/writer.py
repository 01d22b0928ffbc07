"""Writes a run row by row, so that a crash loses at most the row that is being written.

A row is one write of one complete line, and is on the disk before the next input begins. A crash can leave an
incomplete line, which is removed when the run is resumed. A lock, which ends with its process, prevents a second
writer. A new run that fails before its first row is removed. A killed process may leave a directory with a manifest,
no row, and scores of the first input. Such a directory holds no run yet: a run with any settings can begin there.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType

from lvmrs._util import files as _disk
from lvmrs._util.files import replacing, temporary_name
from lvmrs._util.lock import Lock
from lvmrs.errors import RunError
from lvmrs.record.directory import MANIFEST, ROWS, SCORES, Run
from lvmrs.record.manifest import Manifest
from lvmrs.record.result_file import header
from lvmrs.record.rows import COLUMNS, Row

__all__ = ["RunWriter", "append_lines", "disk_errors", "opened_lines", "write_whole"]

_LOCK = ".lock"
_ELSEWHERE = "choose another directory"


class RunWriter:
    """Writes a run to disk row by row, in a ``with`` block. Only one process at a time can write.

    Use ``begin`` to make a writer.
    """

    def __init__(self, run: Run, lock: Lock, *, new: bool) -> None:
        self.run, self._lock, self._new = run, lock, new
        self._columns = run.columns
        with disk_errors(run.directory):
            for name in (MANIFEST, ROWS):  # left by a killed process
                _disk.remove(temporary_name(run.directory / name))
            self._file = opened_lines(run.file)
        try:
            self.done: set[int] = set(run.read(*COLUMNS)["idx"].tolist())  # reads, and so checks, all columns
            if not _disk.size(self._file):
                self._write_lines(["\t".join(self._columns)])
                with disk_errors(run.directory):
                    _disk.sync_directory(run.directory)
        except BaseException:
            _disk.close(self._file)
            raise

    @classmethod
    def begin(cls, directory: str | Path, manifest: Manifest, *, resume: bool = False) -> RunWriter:
        """Begin a new run, or resume the one in the directory.

        Args:
            directory: the directory of the run; it is made if it does not exist.
            manifest: the manifest of the run. A resumed run must have been begun with the same settings, and keeps its
                own manifest and batch size.
            resume: resume a run in the directory; otherwise an existing run raises.

        Returns:
            The writer, which holds the lock of the run.
        """
        path = _disk.place(directory)
        with _disk.errors(path, _ELSEWHERE):
            _disk.make_directory(path)
            lock = Lock(path / _LOCK, f"another process is writing to {path}; wait for it, or choose another directory")
        try:
            new = cls._settle(path, manifest, resume=resume)
            return cls(Run(path), lock, new=new)
        except BaseException:
            lock.release()
            raise

    @staticmethod
    def begun(directory: str | Path, *, resume: bool, batch: int | None = None) -> Manifest | None:
        """Check a directory before a model or data are loaded. Raises if it cannot hold a run.

        Args:
            directory: the directory for a run.
            resume: resume a run in the directory; otherwise an existing run raises.
            batch: the requested batch size, if any; it must be that of the resumed run.

        Returns:
            The manifest of the run in the directory; None if there is no run yet, or a run without rows.
        """
        path = _disk.place(directory)
        if path == Path():
            raise RunError("a run needs a directory of its own; name one")
        with _disk.errors(path, _ELSEWHERE):
            is_file = path.is_file() or any(parent.is_file() for parent in path.parents)
            begun = (path / MANIFEST).exists()
            results = [name for name in (ROWS, *SCORES.values()) if (path / name).exists()]
        if is_file:
            raise RunError(f"{path} is a file, and a run needs a directory; {_ELSEWHERE}")
        if results and not begun:
            raise RunError(f"{path} has {results[0]} but no {MANIFEST}; it is not a run, choose another directory")
        if not begun or not _holds_results(run := Run(path)):
            return None
        if not resume:
            raise RunError(f"{path} holds a run already; resume it, or choose another directory")
        found = run.manifest
        if batch is not None and found.batch not in (None, batch):
            raise RunError(
                f"{path} was begun in batches of {found.batch}, and cannot be resumed in batches of {batch}; leave the "
                "batch size out"
            )
        return found

    @classmethod
    def _settle(cls, path: Path, manifest: Manifest, *, resume: bool) -> bool:
        """Write the manifest of a new run, or compare that of a begun one; True if the run is new."""
        begun = cls.begun(path, resume=resume)
        if begun is None:
            text = _checked_text(manifest)
            with disk_errors(path):
                for name in (
                    *SCORES.values(),
                    ROWS,
                ):  # useless without a row
                    _disk.remove(path / name)
                write_whole(path / MANIFEST, text)
            return True
        if changed := begun.difference(manifest):
            raise RunError(f"{path} was begun with other settings, and cannot be resumed: {'; '.join(changed)}")
        return False

    def __enter__(self) -> RunWriter:
        """Begin a ``with`` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file and release the lock. A new run that failed before its first row is removed."""
        failed = kind is not None and self._new and not self.done
        try:
            with disk_errors(self.run.directory):
                _disk.close(self._file)
            # If scores could not be removed, the manifest stays, so that the run can be begun again.
            failed = failed and not any((self.run.directory / name).exists() for name in SCORES.values())
            if failed:
                with suppress(OSError):  # the first error is reported; a run can begin on the remaining files
                    _disk.remove(self.run.file)
                    _disk.remove(self.run.directory / MANIFEST)
        finally:
            self._lock.release()
        if failed:
            with suppress(OSError):
                _disk.remove_directory(self.run.directory)

    @property
    def pending(self) -> list[int]:
        """Indices of the inputs without a row."""
        return [index for index in self.run.manifest.selection.indices if index not in self.done]

    def position(self, index: int) -> int:
        """The position of an input in the selection of the run."""
        return self.run.manifest.selection.position(index)

    def append(self, *rows: Row) -> None:
        """Append rows in one write, and wait until they are on the disk."""
        if rows:
            self._write_lines([row.text(self._columns) for row in rows])
        self.done.update(row.idx for row in rows)

    def append_missing(self, rows: Iterable[Row]) -> None:
        """Append the rows that the run lacks; raises if another given row differs from the existing one."""
        found = {row.idx: row.text(self._columns) for row in self.run.rows()}
        missing = []
        for row in rows:
            if row.idx not in found:
                missing.append(row)
            elif found[row.idx] != row.text(self._columns):
                raise RunError(
                    f"{self.run.directory} holds a run already, with another row of input {row.idx}; choose another "
                    "directory"
                )
        self.append(*missing)

    def replace(self, row: Row) -> None:
        """Replace the row of an input, unless only the time differs."""
        (old,) = (found for found in self.run.rows() if found.idx == row.idx)
        if dataclasses.replace(row, time=old.time).text(self._columns) == old.text(self._columns):
            return
        lines = self.run.file.read_text(encoding="utf-8").split("\n")
        place = self._columns.index("idx")
        for number, line in enumerate(lines[1:-1], start=1):
            if int(float(line.split("\t")[place])) == row.idx:
                lines[number] = row.text(self._columns)
        with disk_errors(self.run.directory):
            write_whole(self.run.file, "\n".join(lines))
            _disk.close(self._file)
            self._file = opened_lines(self.run.file)

    def _write_lines(self, lines: Sequence[str]) -> None:
        with disk_errors(self.run.directory):
            append_lines(self._file, lines)


def _holds_results(run: Run) -> bool:
    """Whether a run has rows, or lost them: it has scores, but not the file of rows, which is made first."""
    begun = bool(header(run.file, ours=True))
    return run.has_rows or (not begun and any((run.directory / name).exists() for name in SCORES.values()))


def _checked_text(manifest: Manifest) -> str:
    """The manifest as JSON; raises if parsing the text would give another manifest."""
    text = manifest.to_json()
    if Manifest.parse(text, "the manifest of this run") != manifest:
        raise RunError("the manifest of this run would not be read back as written; use plain numbers and texts")
    return text


def disk_errors(directory: Path) -> AbstractContextManager[None]:
    """Convert errors of writing to a begun run into one sentence."""
    return _disk.errors(directory, "rows already written are safe: make room and resume")


def opened_lines(path: Path) -> int:
    """Open a file for appending lines, and remove an incomplete last line, which a crash may leave."""
    file = _disk.open_file(path, os.O_APPEND)
    try:
        text = path.read_bytes()
        whole = text.rfind(b"\n") + 1
        if whole < len(text):
            _disk.truncate(file, whole)
    except BaseException:
        _disk.close(file)
        raise
    return file


def append_lines(file: int, lines: Sequence[str]) -> None:
    """Append lines to an open file and wait until they are on the disk; if that fails, remove them again."""
    before = _disk.size(file)
    try:
        _disk.write(file, "".join(f"{line}\n" for line in lines).encode())
        _disk.sync(file)
    except OSError:
        with suppress(OSError):  # an incomplete line is removed when the run is resumed
            _disk.truncate(file, before)
        raise


def write_whole(path: Path, text: str) -> None:
    """Write a file completely or not at all."""
    with replacing(path) as file:
        file.write(text.encode())
