"""The certificates of a data set as a table: in memory, from a run, and written as a run."""

from __future__ import annotations

import functools
import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lvmrs.analysis.metrics import average_certified_radius, certified_accuracy
from lvmrs.analysis.results import Results, results_of_columns
from lvmrs.analysis.summary import summarise
from lvmrs.analysis.tables import summary_table, table_rows
from lvmrs.kernel import checks
from lvmrs.record import Manifest, Row, Run, RunWriter
from lvmrs.record.directory import frame_of
from lvmrs.record.result_file import UNKNOWN

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from lvmrs.kernel.certificate import Certificate

# The radii of the table.
_RADII = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)


@dataclass(frozen=True, eq=False, repr=False)
class Certificates(Sequence[Row]):
    """The certificates of a data set, one row for each input. ``lvmrs.certify_dataset`` makes it.

    It is a sequence of ``lvmrs.runs.Row``, in the order of the indices.
    """

    manifest: Manifest
    """The settings: model, data, method, noise and samples."""
    rows: tuple[Row, ...]
    proved: tuple[Certificate, ...] | None = None
    """The ``Certificate`` of each row, with its guarantee in words; None if the rows were read from a run."""

    @classmethod
    def load(cls, directory: str | Path) -> Certificates:
        """Read the certificates of a run, which ``save``, ``lvmrs.certify_dataset`` or ``lvmrs certify`` wrote."""
        return cls.of(Run(directory))

    @classmethod
    def of(cls, run: Run) -> Certificates:
        """The certificates of a run."""
        checks.instance("run", run, Run, "a lvmrs.Run")
        return cls(run.manifest, tuple(sorted(run.rows(), key=lambda row: row.idx)))

    def save(self, directory: str | Path) -> Run:
        """Write a run directory, which ``load`` and commands such as ``lvmrs report`` read. Kept scores stay behind."""
        with RunWriter(directory, replace(self.manifest, keeps_scores=False)) as writer:
            writer.append(*(replace(row, scores=UNKNOWN) for row in self.rows))
            return writer.run

    def __getitem__(self, place: Any) -> Any:
        """The row at a place of the table (its index in the data set only if no input was skipped), or a slice."""
        return self.rows[place]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def indices(self) -> NDArray[np.int64]:
        """The index of each input in the data set."""
        return self.results.idx

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """The label of each input; None if the data have no labels."""
        return self.results.label

    @property
    def predictions(self) -> NDArray[np.int64]:
        """The certified class of each input; −1 if nothing is certified."""
        return self.results.predict

    @property
    def radii(self) -> NDArray[np.float64]:
        """The certified radius of each input; 0 if nothing is certified."""
        return self.results.radius

    @functools.cached_property
    def results(self) -> Results:
        """The columns as arrays, for the functions of ``lvmrs.analysis``."""
        columns = {
            name: np.array([math.nan if value is None else value for value in (getattr(row, name) for row in self)])
            for name in ("idx", "label", "predict", "radius", "clean", "samples", "limit", "top")
        }
        if self.manifest.terms.goal is None:
            del columns["samples"], columns["limit"]
        missing = len(self.manifest.selection.indices) - len(self)
        return results_of_columns(self.manifest.model.name, columns, missing, self.manifest)

    def accuracy(self, radii: Sequence[float] = (0.0,)) -> list[float]:
        """Certified accuracy at each radius: the share of inputs whose label is certified within it. Needs labels."""
        return certified_accuracy(self.results, radii)

    @property
    def average_radius(self) -> float:
        """The mean radius, with 0 for wrong classes and abstentions; without labels, of all certified classes."""
        return average_certified_radius(self.results).value

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame."""
        return frame_of(self.rows)

    def plot(self) -> Figure:
        """A matplotlib figure of certified accuracy against the radius, with a band for the finite test set."""
        from lvmrs.analysis.plots import curves

        return curves([self.results])

    @property
    def _title(self) -> str:
        terms = self.manifest.terms
        settings = ", ".join(f"{name}={getattr(terms, name)}" for name in ("sigma", "alpha", "n0", "n", "seed"))
        return f"{type(self).__name__} by {self.manifest.method.name}: {settings}"

    def __repr__(self) -> str:
        """A table of one line: certified accuracy at some radii in percent, average radius, abstentions."""
        return f"<{self._title}>" + (f"\n{summary_table([summarise(self.results, _RADII)])}" if self.rows else "")

    def _repr_html_(self) -> str:
        found = [summarise(self.results, _RADII)] if self.rows else []
        table: list[list[Any]] = table_rows(found) if found else []
        lines = "".join(
            "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row) + "</tr>"
            for tag, row in zip(("th", "td"), table, strict=False)
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for summary in found for note in summary.notes)
        return f"<table><caption>{html.escape(self._title)}</caption>{lines}</table>{notes}"
