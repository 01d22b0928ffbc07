"""Results as arrays, from our runs and from the TSV files of other projects.

Whether an answer is correct is always computed from label and prediction: in files of the field the column ``correct``
is 0/1, a boolean, or a running total. Columns that are not needed (``time`` among them) are not read.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvmrs.errors import RunError
from lvmrs.runs import Run

__all__ = ["Results", "read", "results_of"]

_NEEDED = ("idx", "label", "predict", "radius")


@dataclass(frozen=True, eq=False)
class Results:
    """Index, label, answer (−1: abstains) and radius of every input; and what is known of how they were made."""

    name: str
    idx: NDArray[np.int64]
    label: NDArray[np.int64]
    predict: NDArray[np.int64]
    radius: NDArray[np.float64]
    missing: int = 0
    """Inputs that an unfinished run has no row for."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Those of the manifest; of another project's file, nothing."""

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Where the answer is the label; an abstention is never right."""
        right: NDArray[np.bool_] = (self.predict == self.label) & (self.predict != -1)
        return right

    def __len__(self) -> int:
        """How many inputs."""
        return len(self.idx)

    def __repr__(self) -> str:
        """One line."""
        unfinished = f", {self.missing} missing" if self.missing else ""
        return f"<Results {self.name}: {len(self)} inputs{unfinished}>"


def read(path: str | Path) -> Results:
    """The results in a run directory, or in a TSV file with the columns idx, label, predict and radius."""
    path = Path(path).expanduser()
    if path.is_dir():
        return results_of(Run(path))
    if not path.is_file():
        raise RunError(f"{path} does not exist; give a run directory or a TSV file")
    return _of_file(path, str(path))


def results_of(run: Run) -> Results:
    """The results of a run so far."""
    manifest = run.manifest
    if not run.file.exists():
        raise RunError(f"{run.directory} has no rows yet; there is nothing to analyse")
    found = _of_file(run.file, str(run.directory), torn=True)
    strangers = np.setdiff1d(found.idx, np.asarray(manifest.selection.indices))
    if len(strangers):
        raise RunError(f"{run.file}: input {strangers[0]} does not belong to this run; it is from another")
    missing = len(manifest.selection.indices) - len(found)
    settings = {**manifest.about, **manifest.settings}
    return Results(found.name, found.idx, found.label, found.predict, found.radius, missing, settings)


def _of_file(path: Path, name: str, *, torn: bool = False) -> Results:
    columns = _columns(path)
    wanted = (*_NEEDED, "sigma") if "sigma" in columns else _NEEDED
    values = _values(path, [columns.index(column) for column in wanted], torn=torn)
    if not len(values):
        raise RunError(f"{path} has no rows, only a header; there is nothing to analyse")
    idx, label, predict = (_whole(path, column, values[:, k]) for k, column in enumerate(_NEEDED[:3]))
    radius = values[:, 3]
    if len(bad := np.flatnonzero(~((radius >= 0) & np.isfinite(radius)))):
        raise RunError(
            f"{path}: the radius of input {idx[bad[0]]} is {radius[bad[0]]:g}, and must be a finite number from 0; "
            "remove the row, or certify the input again"
        )
    if (idx < 0).any():
        raise RunError(f"{path}: index {idx.min()} is below 0; inputs are numbered from 0")
    order = np.sort(idx)
    if len(twice := order[:-1][np.diff(order) == 0]):
        raise RunError(f"{path}: input {twice[0]} has two rows; remove one of them")
    if len(noises := np.unique(values[:, 4:])) > 1:
        raise RunError(f"{path} mixes sigma {noises[0]:g} and {noises[1]:g}; split it into a file for each")
    return Results(name, idx, label, predict, radius)


def _columns(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            head = file.readline()
    except UnicodeDecodeError as error:
        raise RunError(f"{path} is not a text file: {error}") from error
    if not head.strip():
        raise RunError(f"{path} is empty; expected a line with the names of the columns, then a line for each input")
    columns = [column.strip() for column in head.rstrip("\r\n").split("\t")]
    missing = [column for column in _NEEDED if column not in columns]
    if missing:
        raise RunError(
            f"{path}: column {missing[0]} is missing; the first line must name the columns, with tabs between them: "
            "idx, label, predict, radius"
        )
    return columns


def _values(path: Path, places: list[int], *, torn: bool) -> NDArray[np.float64]:
    """These columns of all lines; with ``torn``, a last line without its end is one that was being written."""
    rows = None
    if torn:
        with path.open("rb") as file:
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                file.seek(0)
                rows = sum(1 for _ in file) - 2
    if rows is not None and rows <= 0:
        return np.empty((0, len(places)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about there being no rows, which is said better above
            return np.loadtxt(
                path,
                delimiter="\t",
                skiprows=1,
                usecols=places,
                ndmin=2,
                max_rows=rows,
                comments=None,
                encoding="utf-8",
            )
    except ValueError as error:
        raise RunError(f"{path} is damaged: {str(error).rstrip('.')}") from error


def _whole(path: Path, column: str, values: NDArray[np.float64]) -> NDArray[np.int64]:
    if not np.isfinite(values).all() or not np.array_equal(values, np.round(values)):
        raise RunError(f"{path}: column {column} must hold whole numbers")
    return values.astype(np.int64)
