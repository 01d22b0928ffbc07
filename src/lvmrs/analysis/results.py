"""Results as arrays, from runs of lvmrs and from TSV files of other projects.

Whether a prediction is correct is always computed from label and prediction: in files of other projects the column
``correct`` is 0/1, a boolean, or a running total. Unused columns, such as ``time``, are not read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lvmrs._util import files as _disk
from lvmrs._util.files import no_file
from lvmrs.errors import RunError
from lvmrs.kernel import checks
from lvmrs.kernel.goals import is_correct
from lvmrs.record import Manifest, Run, result_file
from lvmrs.record.attacks import Attack
from lvmrs.record.result_file import Columns, Kind

__all__ = ["Attacked", "NoRowsError", "Results", "check_results", "read", "results_of"]

_NEEDED = {"idx": Kind.WHOLE, "label": Kind.WHOLE, "predict": Kind.WHOLE, "radius": Kind.NUMBER}
_NOISE = {"sigma": Kind.NUMBER}


class NoRowsError(RunError):
    """A valid file or run has no rows yet."""


@dataclass(frozen=True, eq=False)
class Attacked:
    """The results of an attack, in the order of the results of the run."""

    distance: NDArray[np.float64]
    """Distance of the nearest point at which the class does not win; infinite if none was found or searched for."""
    tried: NDArray[np.bool_]
    """Which inputs were attacked."""
    beta: float
    """The probability that a found point is wrong, for each input."""


@dataclass(frozen=True, eq=False)
class Results:
    """Index, label, prediction (−1: abstains) and radius of every input, and the manifest of the run if known."""

    name: str
    idx: NDArray[np.int64]
    label: NDArray[np.int64]
    predict: NDArray[np.int64]
    radius: NDArray[np.float64]
    missing: int = 0
    """Number of inputs without a row in an unfinished run."""
    manifest: Manifest | None = None
    """The manifest of the run, if known."""
    clean: NDArray[np.int64] | None = None
    """Predictions of the base classifier without noise; None unless they were measured for every input."""
    sigma: float | None = None
    """σ in a file of another project, if the file has it."""
    attacked: Attacked | None = None
    """The results of an attack on the run; None if it was not attacked."""
    samples: NDArray[np.float64] | None = None
    """Number of samples of each proof; None unless it is known for every input."""
    limit: NDArray[np.float64] | None = None
    """Upper bounds on the radius of the exact means, infinite where unknown; None if the run has no goal."""
    top: NDArray[np.int64] | None = None
    """The class that the proof tried to certify for each input; None for files of other projects."""

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Whether each prediction is the label; an abstention is never correct."""
        return is_correct(self.predict, self.label)

    def only(self, places: NDArray[np.intp]) -> Results:
        """The results at these positions of the arrays, as complete results."""
        found = self.attacked
        return Results(
            self.name,
            self.idx[places],
            self.label[places],
            self.predict[places],
            self.radius[places],
            manifest=self.manifest,
            clean=None if self.clean is None else self.clean[places],
            attacked=None if found is None else Attacked(found.distance[places], found.tried[places], found.beta),
            samples=None if self.samples is None else self.samples[places],
            limit=None if self.limit is None else self.limit[places],
            top=None if self.top is None else self.top[places],
        )

    def __len__(self) -> int:
        """Number of inputs."""
        return len(self.idx)

    def __repr__(self) -> str:
        """One-line summary for people."""
        unfinished = f", {self.missing} missing" if self.missing else ""
        return f"<Results {self.name}: {len(self)} inputs{unfinished}>"


def read(path: str | Path) -> Results:
    r"""Read the results in a run directory, or in a TSV file with the columns idx, label, predict and radius.

    Args:
        path: The directory or the file.

    Returns:
        The results, of at least one input.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "other.tsv")
    ...     _ = file.write_text("idx\tlabel\tpredict\tradius\n0\t3\t3\t0.25\n")
    ...     print(read(file).radius)
    [0.25]
    """
    path = _disk.place(path)
    if path.is_dir():
        return results_of(Run(path))
    if not path.is_file():
        raise RunError(f"{path} {no_file(path)}; give a run directory or a TSV file")
    columns = result_file.read(path, _NEEDED, _NOISE)
    if not len(columns["idx"]):
        raise NoRowsError(f"{path} has no rows, only a header; there is nothing to analyse")
    return _results(str(path), columns)


def results_of(run: Run, attack: Attack | None = None) -> Results:
    """The present results of a run. The docstring of ``lvmrs.runs`` has an example of a run.

    Args:
        run: The run, which has at least one row.
        attack: An attack on the run; by default the one in its directory, if there is one.

    Returns:
        The results; ``missing`` is the number of inputs without a row.
    """
    checks.instance("run", run, Run, "a lvmrs.Run")
    columns = run.read(*_NEEDED, "clean", "samples", "limit", "top")
    found = len(columns["idx"])
    if not found:
        raise NoRowsError(f"{run.directory} has no rows yet; there is nothing to analyse")
    missing = len(run.manifest.selection.indices) - found
    results = _results(str(run.directory), columns, missing, run.manifest)
    return replace(results, attacked=_attacked(Attack.of(run) if attack is None else attack, results.idx))


def _attacked(attack: Attack | None, idx: NDArray[np.int64]) -> Attacked | None:
    """The results of an attack for these inputs."""
    if attack is None or not len((rows := attack.read())["idx"]):
        return None
    distance, tried = np.full(len(idx), np.inf), np.isin(idx, rows["idx"])
    order = np.argsort(idx)
    places = order[np.searchsorted(idx, rows["idx"], sorter=order)]
    distance[places] = np.where(np.isnan(rows["distance"]), np.inf, rows["distance"])
    return Attacked(distance, tried, attack.record.beta)


def check_results(results: object, name: str = "results") -> None:
    """Raise unless an object is Results."""
    checks.instance(name, results, Results, "Results, as lvmrs.analysis.read gives them")


def _results(name: str, columns: Columns, missing: int = 0, manifest: Manifest | None = None) -> Results:
    idx, label, predict, radius = (columns[column] for column in _NEEDED)
    clean = columns.get("clean")
    measured = None if clean is None or np.isnan(clean).any() else clean.astype(np.int64)
    noise = columns.get("sigma")
    sigma = None if noise is None or not len(noise) else float(noise[0])
    samples, limit = columns.get("samples"), columns.get("limit")
    return Results(
        name,
        idx,
        label,
        predict,
        radius,
        missing,
        manifest,
        measured,
        sigma,
        samples=None if samples is None or np.isnan(samples).any() else samples,
        limit=None if limit is None else np.where(np.isnan(limit), np.inf, limit),
        top=columns.get("top"),
    )
