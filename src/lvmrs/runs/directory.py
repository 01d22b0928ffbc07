"""A run directory to read: ``manifest.json`` and ``certificates.tsv``."""

from __future__ import annotations

import dataclasses
import html
from pathlib import Path
from typing import TYPE_CHECKING

from lvmrs._extras import optional
from lvmrs.errors import RunError
from lvmrs.runs.manifest import Manifest
from lvmrs.runs.rows import COLUMNS, HEADER, Row

if TYPE_CHECKING:
    import pandas

__all__ = ["MANIFEST", "ROWS", "Run"]

MANIFEST, ROWS = "manifest.json", "certificates.tsv"


class Run:
    """A run on disk, to read."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory).expanduser()
        if self.directory.is_file():
            raise RunError(f"{self.directory} is a file, not a run; make a run of it with lvmrs import")
        if not self.directory.is_dir():
            raise RunError(f"{self.directory} is not a run: there is no such directory")
        self.manifest = Manifest.read(self.directory / MANIFEST)

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
        return self.directory / ROWS

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
