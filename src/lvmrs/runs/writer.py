"""Writing of a run, row by row, so that a crash loses at most the row that is being written.

A row is one write of one complete line, and is on the disk before the next input is begun. A crash can leave a line
without its end, which is removed when the run is resumed. A lock, which ends with its process, keeps a second writer
out.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from lvmrs.errors import RunError
from lvmrs.runs.directory import MANIFEST, ROWS, Run
from lvmrs.runs.manifest import Manifest
from lvmrs.runs.rows import Row
from lvmrs.runs.whole_writes import append_line, disk_errors, write_whole

__all__ = ["RunWriter"]

_LOCK = ".lock"


class RunWriter:
    """Writes a run to disk, row by row; only one process at a time can. Use it in a ``with`` block.

    ``begin`` makes one.
    """

    def __init__(self, run: Run, lock: int) -> None:
        self.run, self._lock = run, lock
        self._drop_torn_line()
        self.done = {row.idx for row in run.rows()}
        self._columns = run.columns  # a run of an earlier version keeps the columns that it has
        self._file = os.open(run.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        if not os.fstat(self._file).st_size:
            self._write_line("\t".join(self._columns))

    @classmethod
    def begin(cls, directory: str | Path, manifest: Manifest, *, resume: bool = False) -> RunWriter:
        """Begin a new run, or resume the one in the directory.

        Args:
            directory: the directory of the run; it is made if it does not exist.
            manifest: how the run is made. A resumed run must have been begun with the same settings, and keeps its own
                manifest and batch size.
            resume: whether a run in the directory is resumed; otherwise it is refused.

        Returns:
            The writer, which holds the lock of the run.
        """
        path = Path(directory).expanduser()
        with _writable(path):
            path.mkdir(parents=True, exist_ok=True)
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            cls._settle(path, manifest, resume=resume)
            return cls(Run(path), lock)
        except BlockingIOError:
            os.close(lock)
            raise RunError(f"another process is writing to {path}; wait for it, or choose another directory") from None
        except BaseException:
            os.close(lock)
            raise

    @staticmethod
    def begun(directory: str | Path, *, resume: bool, batch: int | None = None) -> Manifest | None:
        """Check a directory before anything is loaded. A place that cannot hold a run is refused.

        Args:
            directory: the directory for a run.
            resume: whether a run in it is to be resumed; otherwise it is refused.
            batch: the batch size that was asked for, if any; it must be that of the run that is resumed.

        Returns:
            The manifest of the run in the directory; None if there is no run yet.
        """
        path = Path(directory).expanduser()
        if path == Path():
            raise RunError("a run needs a directory of its own; name one")
        with _writable(path):
            is_file = path.is_file() or any(parent.is_file() for parent in path.parents)
            begun, rows = (path / MANIFEST).exists(), (path / ROWS).exists()
        if is_file:
            raise RunError(f"{path} is a file, and a run needs a directory; choose another directory")
        if rows and not begun:
            raise RunError(f"{path} has {ROWS} but no {MANIFEST}; it is not a run, choose another directory")
        if not begun:
            return None
        if not resume:
            raise RunError(f"{path} holds a run already; resume it, or choose another directory")
        found = Manifest.read(path / MANIFEST)
        if batch is not None and found.batch not in (None, batch):
            raise RunError(
                f"{path} was begun in batches of {found.batch}, and cannot be resumed in batches of {batch}; leave the "
                "batch size out"
            )
        return found

    @classmethod
    def _settle(cls, path: Path, manifest: Manifest, *, resume: bool) -> None:
        begun = cls.begun(path, resume=resume)
        if begun is None:
            with disk_errors(path):
                write_whole(path / MANIFEST, _checked_text(manifest))
            return
        if changed := begun.difference(manifest):
            raise RunError(f"{path} was begun with other settings, and cannot be resumed: {'; '.join(changed)}")

    def __enter__(self) -> RunWriter:
        """Begin a ``with`` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file and give up the lock."""
        os.close(self._file)
        os.close(self._lock)

    @property
    def pending(self) -> list[int]:
        """The indices of the inputs that have no row yet."""
        return [index for index in self.run.manifest.selection.indices if index not in self.done]

    def position(self, index: int) -> int:
        """The position of an input in the selection of the run."""
        return self.run.manifest.selection.indices.index(index)

    def append(self, row: Row) -> None:
        """Write a row, and wait until it is on the disk."""
        self._write_line(row.text(self._columns))
        self.done.add(row.idx)

    def _write_line(self, line: str) -> None:
        with disk_errors(self.run.directory):
            append_line(self._file, line)

    def _drop_torn_line(self) -> None:
        if self.run.file.exists():
            text = self.run.file.read_bytes()
            whole = text.rfind(b"\n") + 1
            if whole < len(text):
                os.truncate(self.run.file, whole)


def _checked_text(manifest: Manifest) -> str:
    """The manifest as JSON; refused before it is written if it could not be read again."""
    text = manifest.to_json()
    if Manifest.parse(text, "the manifest of this run") != manifest:
        raise RunError(
            "the manifest of this run would be read in another way than it is meant; use plain numbers and texts"
        )
    return text


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(f"{path} cannot be written to ({error.strerror}); choose another directory") from error
