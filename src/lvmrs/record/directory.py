"""Reads a run directory, which holds ``manifest.json`` and ``certificates.tsv``."""

from __future__ import annotations

import html
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lvmrs._util import files
from lvmrs._util.text import optional
from lvmrs.errors import RunError
from lvmrs.record import result_file
from lvmrs.record.manifest import Manifest
from lvmrs.record.result_file import COLUMNS, KINDS, OF_A_GOAL, OF_ROUTED, Columns, Row, Wanted, rows_of

if TYPE_CHECKING:
    import pandas

MANIFEST, ROWS = "manifest.json", "certificates.tsv"
SCORES = {"selection": "scores-selection.npy", "certification": "scores-certification.npy"}
"""The file of the kept scores of each stage."""


class Run:
    """A run on disk, for reading. ``lvmrs.runs`` makes runs.

    Args:
        directory: the directory of the run. Raises if it holds no run.

    ``manifest`` has the settings of the run, and ``rows()`` the certificates. The docstring of ``lvmrs.runs`` has an
    example.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = files.place(directory)
        if self.directory.is_file():
            raise RunError(f"{self.directory} is a file, not a run; make a run of it with lvmrs import")
        if not self.directory.is_dir():
            raise RunError(f"{self.directory} is not a run: the directory does not exist")
        self.manifest = Manifest.read(self.directory / MANIFEST)

    def __repr__(self) -> str:
        """One-line summary for people."""
        return f"<Run {self.directory}: {self.count} of {len(self.manifest.selection.indices)} inputs>"

    def _repr_html_(self) -> str:
        terms = self.manifest.terms
        shown = {"model": self.manifest.model.name, "method": self.manifest.method.name}
        shown |= {name: str(getattr(terms, name)) for name in ("sigma", "alpha", "n0", "n", "seed")}
        shown |= {"inputs": f"{self.count} of {len(self.manifest.selection.indices)}"}
        cells = "".join(f"<tr><th>{name}</th><td>{html.escape(str(value))}</td></tr>" for name, value in shown.items())
        return f"<table><caption>{html.escape(str(self.directory))}</caption>{cells}</table>"

    def frame(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame."""
        return frame_of(self.rows())

    @property
    def file(self) -> Path:
        """The file that holds the rows."""
        return self.directory / ROWS

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the file, in order; those of a goal or a routed classifier only if the run has one."""
        has = OF_A_GOAL if self.manifest.terms.goal is not None else OF_ROUTED if self.manifest.routed else frozenset()
        return tuple(name for name in COLUMNS if name in has or name not in OF_A_GOAL | OF_ROUTED)

    def read(self, *names: str, wanted: Wanted | None = None) -> Columns:
        """Read columns of all complete rows, or of the wanted ones.

        Args:
            names: names of fields of ``Row``; ``idx`` and ``radius`` must be among them.
            wanted: whether to read a row, given its line, which has the fields in the order of ``columns``.

        Returns:
            An array for each name, in the order in which the rows were written. Columns of a goal are missing if the
            run has none.
        """
        kinds = {name: KINDS[name] for name in names if name in self.columns}
        return result_file.read(self.file, kinds, ours=(self.columns, self.manifest.selection), wanted=wanted)

    def rows(self, inputs: Collection[int] | None = None) -> list[Row]:
        """Read all complete rows, or those of some inputs, in the order in which they were written.

        Args:
            inputs: the indices of the inputs. Reading a few of a million rows takes a tenth of the time of all.
        """
        if inputs is None:
            return rows_of(Row, self.read(*COLUMNS))
        place, numbers = self.columns.index("idx"), set(inputs)

        def is_wanted(line: str) -> bool:
            try:
                return float(line.split("\t", place + 1)[place]) in numbers
            except ValueError:
                return True  # the reader reports it as damaged

        return rows_of(Row, self.read(*COLUMNS, wanted=is_wanted))

    def one_of_each(self, *names: str) -> list[Row]:
        """Read the first row of each combination of values in these columns."""
        places = [self.columns.index(name) for name in names]
        seen: set[tuple[str, ...]] = set()

        def is_new(line: str) -> bool:
            fields = line.rstrip("\n").split("\t")
            texts = tuple(fields[place] for place in places)
            before = len(seen)
            seen.add(texts)
            return len(seen) > before

        return rows_of(Row, self.read(*COLUMNS, wanted=is_new))

    @property
    def count(self) -> int:
        """The number of complete rows."""
        return len(self.read("idx", "radius")["idx"])

    @property
    def has_rows(self) -> bool:
        """Whether there is a complete row. Reads no further than the first row."""
        return result_file.has_lines(self.file)

    @property
    def complete(self) -> bool:
        """Whether every input of the selection has a row."""
        return self.count == len(self.manifest.selection.indices)


def frame_of(rows: Sequence[Row]) -> pandas.DataFrame:
    """Rows as a pandas DataFrame."""
    library = optional("pandas", extra="pandas", error=RunError)
    frame: pandas.DataFrame = library.DataFrame([vars(row) for row in rows], columns=COLUMNS)
    return frame
