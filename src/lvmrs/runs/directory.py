"""A run directory: ``manifest.json`` and ``certificates.tsv``, written so that a crash loses the row in hand at most.

A row is one write of one whole line, brought to the disk before the next input is begun. What a crash can leave behind
is a line without its end, which is dropped when the run is resumed. A lock that ends with its process keeps a second
writer out.
"""

from __future__ import annotations

import dataclasses
import fcntl
import html
import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from lvmrs._extras import optional
from lvmrs.errors import RunError
from lvmrs.runs.disk import append_line, disk_errors, write_whole
from lvmrs.runs.manifest import Manifest
from lvmrs.runs.rows import COLUMNS, HEADER, Row

if TYPE_CHECKING:
    import pandas

__all__ = ["Run", "RunWriter"]

_MANIFEST, _ROWS, _LOCK = "manifest.json", "certificates.tsv", ".lock"


class Run:
    """A run on disk, to read."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory).expanduser()
        if self.directory.is_file():
            raise RunError(f"{self.directory} is a file, not a run; make a run of it with lvmrs import")
        if not self.directory.is_dir():
            raise RunError(f"{self.directory} is not a run: there is no such directory")
        self.manifest = Manifest.read(self.directory / _MANIFEST)

    def __repr__(self) -> str:
        """One line."""
        return f"<Run {self.directory}: {len(self.rows())} of {len(self.manifest.selection.indices)} inputs>"

    def _repr_html_(self) -> str:
        settings = self.manifest.settings
        names = ("model", "sigma", "alpha", "n0", "n", "seed")
        shown = {name: settings.get(name) for name in names} | {"method": settings["method"]["planner"]}
        shown |= {"inputs": f"{len(self.rows())} of {len(self.manifest.selection.indices)}"}
        cells = "".join(f"<tr><th>{name}</th><td>{html.escape(str(value))}</td></tr>" for name, value in shown.items())
        return f"<table><caption>{html.escape(str(self.directory))}</caption>{cells}</table>"

    def frame(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame."""
        library = optional("pandas", extra="pandas", error=RunError)
        frame: pandas.DataFrame = library.DataFrame([dataclasses.asdict(row) for row in self.rows()], columns=COLUMNS)
        return frame

    @property
    def file(self) -> Path:
        """Where the rows are."""
        return self.directory / _ROWS

    def rows(self) -> list[Row]:
        """All whole rows, in the order in which they were written."""
        lines = self._text().split("\n")[:-1]  # what has no end is a row in the making, or torn
        if lines and lines[0] != HEADER:
            found = lines[0].split("\t")
            missing = [name for name in COLUMNS if name not in found]
            what = f"column {missing[0]} is missing" if missing else "its columns are not those of this version"
            raise RunError(f"{self.file}: {what}; the first line must be the header that lvmrs writes")
        rows = [Row.parse(line, f"{self.file}, line {number}") for number, line in enumerate(lines[1:], start=2)]
        self._check(rows)
        return rows

    @property
    def complete(self) -> bool:
        """Whether every expected input has its row."""
        return len(self.rows()) == len(self.manifest.selection.indices)

    def _text(self) -> str:
        try:
            return self.file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""
        except (UnicodeDecodeError, OSError) as error:
            raise RunError(f"{self.file} is damaged: {error}") from error

    def _check(self, rows: list[Row]) -> None:
        expected = self.manifest.selection.indices
        seen: set[int] = set()
        for row in rows:
            if row.idx not in expected:
                raise RunError(f"{self.file}: input {row.idx} does not belong to this run; it is from another")
            if row.idx in seen:
                raise RunError(f"{self.file}: input {row.idx} has two rows; remove one of them")
            seen.add(row.idx)


class RunWriter:
    """A run on disk, to write: alone, and row by row. Use it in a ``with`` block."""

    def __init__(self, run: Run, lock: int) -> None:
        self.run, self._lock = run, lock
        self._drop_torn_line()
        self.done = {row.idx for row in run.rows()}
        self._file = os.open(run.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        if not os.fstat(self._file).st_size:
            self._write_line(HEADER)

    @classmethod
    def begin(cls, directory: str | Path, manifest: Manifest, *, resume: bool = False) -> RunWriter:
        """A new run; or with ``resume`` the one that is there, if it was made with the same settings.

        A resumed run keeps its batch size, and so its manifest as it is.
        """
        path = Path(directory).expanduser()
        if path == Path():
            raise RunError("--out must name a directory of its own for the run")
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except (FileExistsError, NotADirectoryError):
            raise RunError(f"{path} is a file, and a run needs a directory; choose another --out") from None
        except OSError as error:
            raise RunError(f"{path} cannot be written to ({error.strerror}); choose another --out") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            cls._settle(path, manifest, resume=resume)
            return cls(Run(path), lock)
        except BlockingIOError:
            os.close(lock)
            raise RunError(f"another process is writing to {path}; wait for it, or choose another --out") from None
        except BaseException:
            os.close(lock)
            raise

    @staticmethod
    def _settle(path: Path, manifest: Manifest, *, resume: bool) -> None:
        if not (path / _MANIFEST).exists():
            if (path / _ROWS).exists():
                raise RunError(f"{path} has {_ROWS} but no {_MANIFEST}; it is not a run, choose another --out")
            with disk_errors(path):
                write_whole(path / _MANIFEST, manifest.to_json())
            return
        if not resume:
            raise RunError(f"{path} holds a run already; resume it, or choose another --out")
        if changed := Manifest.read(path / _MANIFEST).difference(manifest):
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

    def append(self, row: Row) -> None:
        """Write a row and bring it to the disk."""
        self._write_line(row.text())
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
