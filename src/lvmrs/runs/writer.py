"""Writing a run: alone, row by row, so that a crash loses the row in hand at most.

A row is one write of one whole line, brought to the disk before the next input is begun. What a crash can leave behind
is a line without its end, which is dropped when the run is resumed. A lock that ends with its process keeps a second
writer out.
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
    """A run on disk, to write: alone, and row by row. Use it in a ``with`` block."""

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
        """A new run; or with ``resume`` the one that is there, if it was made with the same settings.

        A resumed run keeps its batch size, and so its manifest as it is.
        """
        path = Path(directory).expanduser()
        cls.begun(path, resume=resume)
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
        """Look at a directory before anything is loaded: the manifest of the run that is in it, if there is one.

        Args:
            directory: where a run is to be.
            resume: whether the run that is there is to be resumed; else it is refused.
            batch: the batch size that is asked for, if any; a run that is resumed keeps its own.

        A place where no run can be is refused too.
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
                f"{path} was begun in batches of {found.batch}, and is not resumed in batches of {batch}; leave the "
                "batch size out"
            )
        return found

    @classmethod
    def _settle(cls, path: Path, manifest: Manifest, *, resume: bool) -> None:
        begun = cls.begun(path, resume=resume)
        if begun is None:
            with disk_errors(path):
                write_whole(path / MANIFEST, manifest.to_json())
            return
        if changed := begun.difference(manifest):
            raise RunError(f"{path} was begun with other settings, and is not resumed with these: {'; '.join(changed)}")

    def __enter__(self) -> RunWriter:
        """Write in a ``with`` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let others write."""
        os.close(self._file)
        os.close(self._lock)

    @property
    def pending(self) -> list[int]:
        """The indices that have no row yet."""
        return [index for index in self.run.manifest.selection.indices if index not in self.done]

    def position(self, index: int) -> int:
        """The place of an input among those of the run."""
        return self.run.manifest.selection.indices.index(index)

    def append(self, row: Row) -> None:
        """Write a row and bring it to the disk."""
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


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(f"{path} cannot be written to ({error.strerror}); choose another directory") from error
