"""Results as arrays, from runs of lvmrs and from TSV files of other projects.

Whether a prediction is correct is always computed from label and prediction: in files of other projects the column
``correct`` is 0/1, a boolean, or a running total. Unused columns, such as ``time``, are not read. ``safe_inputs`` lists
the inputs that are certified at a radius, and ``import_results`` makes a run of the results of another project.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvmrs._util import files
from lvmrs._util.files import no_file
from lvmrs.errors import InvalidArgumentError, RunError
from lvmrs.kernel import checks
from lvmrs.kernel.method import ABSTAIN, is_correct
from lvmrs.record import Manifest, Row, Run, RunWriter, Selection, result_file
from lvmrs.record.attacks import Attack
from lvmrs.record.manifest import DataRecord, MethodRecord, ModelRecord, Origin, TermsRecord
from lvmrs.record.result_file import NOT_NAMED, Columns, Kind, correctness

_NEEDED = {"idx": Kind.WHOLE, "label": Kind.MEASURED, "predict": Kind.WHOLE, "radius": Kind.NUMBER}
_NOISE = {"sigma": Kind.NUMBER}


CERTIFIED_ACCURACY, CERTIFIED_SHARE = "certified accuracy", "certified share"
"""Names of the share of inputs that are certified: correctly, or with any answer if labels are unknown."""


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
    label: NDArray[np.int64] | None
    """None unless the label of every input is known."""
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
    p_lower: NDArray[np.float64] | None = None
    """Lower bounds on the mean score of that class under noise; None unless they are known for every input."""
    maps: tuple[str, ...] = ()
    """Names of the maps whose scores ``p_lower`` bounds."""

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Whether each prediction is the label; an abstention is never correct. Raises a RunError without labels."""
        if self.label is None:
            raise RunError(f"{self.name} has no labels, so that accuracy is unknown; summarise counts all answers")
        return is_correct(self.predict, self.label)

    @property
    def counted(self) -> NDArray[np.bool_]:
        """The answers that count in measures: correct ones; without labels, all but abstentions."""
        return self.predict != ABSTAIN if self.label is None else self.correct

    @property
    def measure(self) -> str:
        """The name of the share of inputs with a counted answer."""
        return CERTIFIED_SHARE if self.label is None else CERTIFIED_ACCURACY

    @property
    def caution(self) -> str | None:
        """How the goal of its sampling limits what the radii of a run say; None without a goal."""
        if self.manifest is None or (goal := self.manifest.terms.goal) is None:
            return None
        if goal.limited:
            few = "" if self.label is None else " of right answers (inputs planned for a wrong class got few samples)"
            return (
                f"its budget of {goal.budget} samples was allocated to raise the average radius{few}: abstentions are "
                "not those of a fixed n"
            )
        lower = f"below what all {self.manifest.terms.n} samples would give"
        if goal.tolerance is not None:
            return f"sampling stopped within a tolerance: each radius may be up to {goal.tolerance:g} {lower}"
        targets = " and ".join(f"{target:g}" for target in goal.targets)
        return (
            f"sampling stopped when it was decided whether {targets} can be certified: compare certified accuracy only "
            f"there; elsewhere it may be {lower}, as may ACR and p_lower"
        )

    def only(self, places: NDArray[np.intp]) -> Results:
        """The results at these positions of the arrays, as complete results."""
        arrays: dict[str, Any] = {
            name: value[places] for name, value in vars(self).items() if isinstance(value, np.ndarray)
        }
        found = self.attacked
        attacked = None if found is None else Attacked(found.distance[places], found.tried[places], found.beta)
        return replace(self, **arrays, attacked=attacked, missing=0, sigma=None)

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
    path = files.place(path)
    if path.is_dir():
        return results_of(Run(path))
    if not path.is_file():
        raise RunError(f"{path} {no_file(path)}; give a run directory or a TSV file")
    columns = result_file.read(path, _NEEDED, _NOISE)
    if not len(columns["idx"]):
        raise NoRowsError(f"{path} has no rows, only a header; there is nothing to analyse")
    return results_of_columns(str(path), columns)


def results_of(run: Run, attack: Attack | None = None) -> Results:
    """The present results of a run. The docstring of ``lvmrs.runs`` has an example of a run.

    Args:
        run: The run, which has at least one row.
        attack: An attack on the run; by default the one in its directory, if there is one.

    Returns:
        The results; ``missing`` is the number of inputs without a row.
    """
    checks.instance("run", run, Run, "a lvmrs.Run")
    columns = run.read(*_NEEDED, "clean", "samples", "limit", "top", "p_lower", "map")
    found = len(columns["idx"])
    if not found:
        raise NoRowsError(f"{run.directory} has no rows yet; there is nothing to analyse")
    missing = len(run.manifest.selection.indices) - found
    results = results_of_columns(str(run.directory), columns, missing, run.manifest)
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


def named(results: Sequence[Results], names: Sequence[str] | None) -> list[Results]:
    """Give results other names in tables, figures and messages.

    Args:
        results: The results of several runs.
        names: One name for each of them, all different; None keeps the names.

    Returns:
        The results with these names.

    >>> none = np.zeros(0, dtype=np.int64)
    >>> named([Results("runs/a-2026", none, none, none, np.zeros(0))], ["duels"])
    [<Results duels: 0 inputs>]
    """
    results = checks.instances("results", results, Results, "Results, as lvmrs.analysis.read gives them")
    check_names(names, len(results))
    return [
        replace(result, name=name) for result, name in zip(results, names or [r.name for r in results], strict=True)
    ]


def check_names(names: Sequence[str] | None, count: int) -> None:
    """Raise unless there are ``count`` different names, or None."""
    if names is not None and not (len(set(names)) == len(names) == count and all(names)):
        raise InvalidArgumentError(
            f"names must be {count} different names, one for each run, got {', '.join(map(repr, names)):.200}"
        )


def check_results(results: object, name: str = "results") -> None:
    """Raise unless an object is Results."""
    checks.instance(name, results, Results, "Results, as lvmrs.analysis.read gives them")


def results_of_columns(name: str, columns: Columns, missing: int = 0, manifest: Manifest | None = None) -> Results:
    """Results from columns of rows; unknown values are NaN."""
    clean, noise, samples, limit, p_lower = (
        columns.get(column) for column in ("clean", "sigma", "samples", "limit", "p_lower")
    )
    bounded = p_lower is not None and not np.isnan(p_lower).any() and manifest is not None and manifest.terms.samples
    needed: dict[str, Any] = {column: columns[column] for column in _NEEDED}
    needed["label"] = None if np.isnan(needed["label"]).any() else needed["label"].astype(np.int64)
    return Results(
        name,
        **needed,
        missing=missing,
        manifest=manifest,
        clean=None if clean is None or np.isnan(clean).any() else clean.astype(np.int64),
        sigma=None if noise is None else float(noise[0]),
        samples=None if samples is None or np.isnan(samples).any() else samples,
        limit=None if limit is None else np.where(np.isnan(limit), np.inf, limit),
        top=columns.get("top"),
        p_lower=p_lower if bounded else None,
        maps=tuple(sorted(set(columns["map"].tolist()))) if bounded else (),
    )


def safe_inputs(run: Run, radius: float, *, correct: bool = False) -> list[Row]:
    """The rows of a run that are certified at a radius, in the order of the inputs.

    No point closer than the radius changes the answer to such an input; each certificate is wrong with probability at
    most α. Wrong answers are certified as well as correct ones. Certificates that an attack broke are left out. The
    docstring of ``lvmrs.runs`` has an example of a run.

    Args:
        run: The run.
        radius: The radius, from 0.
        correct: Leave out inputs whose certified class is not their label. Raises a RunError without labels.

    Returns:
        The rows; ``predict`` is the certified class, and ``name`` the name of the input, if it has one.
    """
    checks.instance("run", run, Run, "a lvmrs.Run")
    radius = checks.nonnegative_number("radius", radius)
    attack = Attack.of(run)
    broken = set() if attack is None else {row.idx for row in attack.rows() if row.broken}
    certified = (row for row in run.rows() if row.predict != ABSTAIN and row.radius >= radius)
    rows = sorted((row for row in certified if row.idx not in broken), key=lambda row: row.idx)
    if correct and any(row.correct is None for row in rows):
        raise RunError(f"{run.directory} has no labels, so that wrong answers are unknown; list all certified inputs")
    return [row for row in rows if row.correct or not correct]


def import_results(
    file: str | Path,
    out: str | Path,
    *,
    sigma: float,
    alpha: float | None = None,
    n0: int | None = None,
    n: int | None = None,
    data: str | None = None,
    split: str = "test",
    method: str = "imported",
    command: str = "",
) -> Run:
    r"""Make a run of a TSV file, for comparisons and reports. No input is certified again.

    Args:
        file: a file with the columns idx, label, predict and radius.
        out: the directory of the run. If the same import was begun there, it is completed.
        sigma: the σ of its noise.
        alpha: its risk, if known.
        n0: its number of selection samples, if known.
        n: its number of certification samples, if known.
        data: the name of the data set in lvmrs, for the pictures of a report.
        split: the split of the data set.
        method: a name for the method.
        command: the command line of the user, which the run records.

    Returns:
        The run.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "other.tsv")
    ...     _ = file.write_text("idx\tlabel\tpredict\tradius\n0\t3\t3\t0.25\n")
    ...     print([row.correct for row in import_results(file, Path(folder, "run"), sigma=0.5).rows()])
    [1]
    """
    if files.place(file).is_dir():
        raise InvalidArgumentError(f"{file} is a run already; use it as it is")
    terms = TermsRecord(
        sigma=checks.positive_number("sigma", sigma),
        alpha=None if alpha is None else checks.alpha(alpha),
        n0=None if n0 is None else checks.count("n0", n0, least=1),
        n=None if n is None else checks.count("n", n, least=1),
    )
    found = read(file)
    if found.sigma not in (None, terms.sigma):
        raise InvalidArgumentError(f"sigma is {terms.sigma:g}, and the column sigma of {file} says {found.sigma:g}")
    manifest = Manifest(
        ModelRecord(method),
        DataRecord(split, data),
        MethodRecord(method),
        terms,
        _selection(found),
        origin=Origin(command, imported=str(file)),
    )
    order = np.argsort(found.idx)
    with RunWriter(out, manifest, resume=True) as writer:
        labels = [None] * len(found) if found.label is None else found.label[order].tolist()
        columns = (labels, *(column[order].tolist() for column in (found.idx, found.predict, found.radius)))
        writer.append_missing(itertools.starmap(_row, zip(*columns, strict=True)))
        return writer.run


def _selection(found: Results) -> Selection:
    """Every k-th input if that gives exactly these inputs; else a list of the inputs."""
    size, step = int(found.idx.max()) + 1, max(1, int(np.gcd.reduce(found.idx)))
    regular = Selection(size, skip=step)
    return regular if len(regular.indices) == len(found) else Selection(size, only=sorted(found.idx.tolist()))


def _row(label: int | None, index: int, predict: int, radius: float) -> Row:
    unknown = math.nan
    return Row(
        idx=index, label=label, predict=predict, radius=radius, correct=correctness(predict, label), time=0.0,
        p_lower=unknown, p_upper=unknown, top=predict, map=NOT_NAMED, temperature=unknown, mass=unknown,
        bound=NOT_NAMED, form=NOT_NAMED, risk_top=unknown, groups="-", risk_groups="-",
    )  # fmt: skip
