"""Writes a run row by row, so that a crash loses no written row.

A row is one write of one complete line, and is on the disk before the next input begins. A crash can leave an
incomplete line, which is removed when the run is resumed. A lock, which ends with its process, prevents a second
writer. A new run that fails before its first row is removed. A killed process may leave a directory with a manifest,
no row, and scores of the first input. Such a directory holds no run yet: a run with any settings can begin there.
"""

from __future__ import annotations

import dataclasses
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from lvmrs._util import files
from lvmrs._util.files import replacing, temporary_name
from lvmrs._util.lock import Lock
from lvmrs.errors import RunError
from lvmrs.record.directory import MANIFEST, ROWS, SCORES, Run
from lvmrs.record.manifest import Manifest
from lvmrs.record.result_file import COLUMNS, Row, header

_ELSEWHERE = "choose another directory"


class LinesWriter(ABC):
    """Appends lines to a file beside a record of its settings, in a ``with`` block. Only one process can write.

    A new file that fails before its first line is removed with its record. Use ``disk_errors`` around writes.
    """

    record: ClassVar[str]
    """Name of the file of the settings."""
    lines: ClassVar[str]
    """Name of the file of the lines."""
    lock: ClassVar[str]
    """Name of the lock."""
    done: set[int]
    """Indices of the inputs that have a line."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with files.errors(directory, _ELSEWHERE):
            files.make_directory(directory)
            taken = f"another process is writing to {directory}; wait for it, or choose another directory"
            self._lock = Lock(directory / self.lock, taken)
        try:
            with disk_errors(directory):
                for name in (self.record, self.lines):  # left by a killed process
                    files.remove(temporary_name(directory / name))
            self._new = self._settle()
            self.done, columns = self._begun()
            with disk_errors(directory):
                self._file = opened_lines(directory / self.lines)
                try:
                    if not files.size(self._file):
                        append_lines(self._file, ["\t".join(columns)])
                        files.sync_directory(directory)
                except BaseException:
                    files.close(self._file)
                    raise
        except BaseException:
            self._lock.release()
            raise

    @abstractmethod
    def _settle(self) -> bool:
        """Write the settings of a new file, or compare those of a begun one; True if the file is new."""

    @abstractmethod
    def _begun(self) -> tuple[set[int], Sequence[str]]:
        """Check the file; returns the inputs that have a line, and the names of the columns."""

    def _keeps_more(self) -> bool:
        """Whether the directory holds files that need the record, even if there are no lines."""
        return False

    def __enter__(self) -> Self:
        """Begin a ``with`` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file and release the lock. A new file that failed before its first line is removed."""
        failed = kind is not None and self._new and not self.done
        try:
            with disk_errors(self.directory):
                files.close(self._file)
            failed = failed and not self._keeps_more()
            if failed:
                with suppress(OSError):  # the first error is reported; a new file can begin on the remaining ones
                    files.remove(self.directory / self.lines)
                    files.remove(self.directory / self.record)
        finally:
            self._lock.release()
        if failed:
            with suppress(OSError):
                files.remove_directory(self.directory)


class RunWriter(LinesWriter):
    """Writes a run to disk row by row, in a ``with`` block. Only one process at a time can write.

    Args:
        directory: the directory of the run; it is made if it does not exist.
        manifest: the manifest of the run. A resumed run must have been begun with the same settings, and keeps its own
            manifest and batch size.
        resume: resume a run in the directory; otherwise an existing run raises.
    """

    record, lines, lock = MANIFEST, ROWS, ".lock"

    def __init__(self, directory: str | Path, manifest: Manifest, *, resume: bool = False) -> None:
        self._manifest, self._resume = manifest, resume
        super().__init__(files.place(directory))

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
        path = checked_place(directory, "a run")
        with files.errors(path, _ELSEWHERE):
            begun = (path / MANIFEST).exists()
            results = [name for name in (ROWS, *SCORES.values()) if (path / name).exists()]
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

    def _settle(self) -> bool:
        begun = self.begun(self.directory, resume=self._resume)
        if begun is not None:
            if changed := begun.difference(self._manifest):
                told = "; ".join(changed)
                raise RunError(f"{self.directory} was begun with other settings, and cannot be resumed: {told}")
            return False
        text = self._manifest.to_json()
        if Manifest.parse(text, "the manifest of this run") != self._manifest:
            raise RunError("the manifest of this run would not be read back as written; use plain numbers and texts")
        with disk_errors(self.directory):
            for name in (*SCORES.values(), ROWS):  # useless without a row
                files.remove(self.directory / name)
            write_whole(self.directory / MANIFEST, text)
        return True

    def _begun(self) -> tuple[set[int], Sequence[str]]:
        self.run = Run(self.directory)
        return set(self.run.read(*COLUMNS)["idx"].tolist()), self.run.columns  # reads, and so checks, all columns

    def _keeps_more(self) -> bool:
        """Whether scores could not be removed: the manifest then stays, so that the run can be begun again."""
        return any((self.directory / name).exists() for name in SCORES.values())

    @property
    def pending(self) -> list[int]:
        """Indices of the inputs without a row."""
        return [index for index in self.run.manifest.selection.indices if index not in self.done]

    def append(self, *rows: Row) -> None:
        """Append rows in one write, and wait until they are on the disk."""
        if rows:
            with disk_errors(self.directory):
                append_lines(self._file, [row.text(self.run.columns) for row in rows])
        self.done.update(row.idx for row in rows)

    def append_missing(self, rows: Iterable[Row]) -> None:
        """Append the rows that the run lacks; raises if another given row differs from the existing one."""
        found = {row.idx: row.text(self.run.columns) for row in self.run.rows()}
        missing = []
        for row in rows:
            if row.idx not in found:
                missing.append(row)
            elif found[row.idx] != row.text(self.run.columns):
                raise RunError(
                    f"{self.directory} holds a run already, with another row of input {row.idx}; choose another "
                    "directory"
                )
        self.append(*missing)

    def replace(self, row: Row) -> None:
        """Replace the row of an input, unless only the time differs."""
        columns = self.run.columns
        (old,) = self.run.rows([row.idx])
        if dataclasses.replace(row, time=old.time).text(columns) == old.text(columns):
            return
        lines = self.run.file.read_text(encoding="utf-8").split("\n")
        place = columns.index("idx")
        for number, line in enumerate(lines[1:-1], start=1):
            if int(float(line.split("\t")[place])) == row.idx:
                lines[number] = row.text(columns)
        with disk_errors(self.directory):
            write_whole(self.run.file, "\n".join(lines))
            files.close(self._file)
            self._file = opened_lines(self.run.file)


def _holds_results(run: Run) -> bool:
    """Whether a run has rows, or has lost them: the file of rows is made before the scores, and is missing."""
    begun = bool(header(run.file, ours=True))
    return run.has_rows or (not begun and any((run.directory / name).exists() for name in SCORES.values()))


def checked_place(directory: str | Path, what: str) -> Path:
    """The directory for a run or an attack, named by ``what``; raises if a file is in the way."""
    path = files.place(directory)
    if path == Path():
        raise RunError(f"{what} needs a directory of its own; name one")
    with files.errors(path, _ELSEWHERE):
        is_file = path.is_file() or any(parent.is_file() for parent in path.parents)
    if is_file:
        raise RunError(f"{path} is a file, and {what} needs a directory; {_ELSEWHERE}")
    return path


def disk_errors(directory: Path) -> AbstractContextManager[None]:
    """Convert errors of writing to a begun run into one sentence."""
    return files.errors(directory, "rows already written are safe: make room and resume")


def opened_lines(path: Path) -> int:
    """Open a file for appending lines, and remove an incomplete last line, which a crash may leave."""
    file = files.open_file(path, os.O_APPEND)
    try:
        text = path.read_bytes()
        whole = text.rfind(b"\n") + 1
        if whole < len(text):
            files.truncate(file, whole)
    except BaseException:
        files.close(file)
        raise
    return file


def append_lines(file: int, lines: Sequence[str]) -> None:
    """Append lines to an open file and wait until they are on the disk; if that fails, remove them again."""
    before = files.size(file)
    try:
        files.write(file, "".join(f"{line}\n" for line in lines).encode())
        files.sync(file)
    except OSError:
        with suppress(OSError):  # an incomplete line is removed when the run is resumed
            files.truncate(file, before)
        raise


def write_whole(path: Path, text: str) -> None:
    """Write a file completely or not at all."""
    with replacing(path) as file:
        file.write(text.encode())
