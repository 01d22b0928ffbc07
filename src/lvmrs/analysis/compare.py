"""Compares two runs on the same inputs: counts the inputs that only one of them certifies."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lvmrs._util.text import outward, percent
from lvmrs.analysis.metrics import Estimate, average_certified_radius, mean_interval
from lvmrs.analysis.results import CERTIFIED_ACCURACY, Results, check_results
from lvmrs.analysis.summary import Summary, common_measure
from lvmrs.errors import RunError
from lvmrs.kernel import checks
from lvmrs.kernel.radius import rounded_down
from lvmrs.record import Manifest

_Read = Callable[[Manifest], object]


@dataclass(frozen=True)
class Pair:
    """Numbers of inputs that both runs certify correctly at a radius, only the first, only the second, or neither.

    Without labels, these are numbers of certified inputs.
    """

    radius: float
    both: int
    only_first: int
    only_second: int
    neither: int

    @property
    def p_value(self) -> float:
        """Two-sided exact test of equal accuracy on the inputs where the runs differ (McNemar 1947)."""
        from scipy import special  # imported here, since the import takes longer than starting a command

        fewer, differ = min(self.only_first, self.only_second), self.only_first + self.only_second
        return min(1.0, 2 * float(special.bdtr(fewer, differ, 0.5))) if differ else 1.0


@dataclass(frozen=True)
class Comparison:
    """The comparison of two runs on their common inputs."""

    first: str
    second: str
    inputs: int
    pairs: list[Pair]
    average_first: Estimate
    average_second: Estimate
    average_difference: Estimate
    """Mean of second minus first over the common inputs, paired."""
    warnings: list[str]
    unfinished: bool = False
    confidence: float = 0.95
    """Confidence level of the intervals."""
    has_targets: bool = False
    """Whether sampling stopped at target radii, so that average radii are not to be compared."""
    measure: str = CERTIFIED_ACCURACY
    """What is compared: "certified share" if the inputs have no labels."""

    def rows(self) -> list[list[str]]:
        """A table, with its header first."""
        head = ["radius", self.first, self.second, "only first", "only second", "p"]
        return [head] + [
            [
                f"{pair.radius:g}",
                percent((pair.both + pair.only_first) / self.inputs),
                percent((pair.both + pair.only_second) / self.inputs),
                str(pair.only_first),
                str(pair.only_second),
                f"{pair.p_value:.2g}",
            ]
            for pair in self.pairs
        ]

    @property
    def averages(self) -> str:
        """One line with the average certified radii (ACR) and their difference with its interval.

        If sampling stopped at target radii, the line says that they are not compared.
        """
        if self.has_targets:
            return f"{self.inputs} inputs; average radii are not compared, since sampling stopped at target radii"
        change = self.average_difference
        unlabelled = "" if self.measure == CERTIFIED_ACCURACY else f" without labels, {self.measure} in %"
        return (
            f"{self.inputs} inputs{unlabelled}; ACR {rounded_down(self.average_first.value)} and "
            f"{rounded_down(self.average_second.value)}, difference {change.value:+.4f} "
            f"({outward(change.low, change.high)} at {self.confidence:g})"
        )

    def _repr_html_(self) -> str:
        head, *rows = ([html.escape(cell) for cell in row] for row in self.rows())
        lines = ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
        warned = "".join(f"<p><b>Caution:</b> {html.escape(text)}</p>" for text in self.warnings)
        return (
            f"{warned}<table><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr>"
            f"{''.join(f'<tr>{line}</tr>' for line in lines)}</table><p>{self.averages}</p>"
        )


def compare(first: Results, second: Results, radii: Sequence[float], *, confidence: float = 0.95) -> Comparison:
    """Compare two runs on their common inputs.

    Args:
        first: The results of one run.
        second: The results of another.
        radii: The radii at which certified inputs are counted.
        confidence: Confidence level of each interval, strictly between 0 and 1.

    Returns:
        The comparison. Its warnings name reasons to doubt it.

    >>> classes = np.array([0, 1])
    >>> one = Results("one", np.arange(2), classes, predict=np.array([0, -1]), radius=np.array([0.9, 0.0]))
    >>> two = Results("two", np.arange(2), classes, predict=classes, radius=np.array([0.2, 0.2]))
    >>> found = compare(one, two, [0.0, 0.5])
    >>> [(pair.only_first, pair.only_second) for pair in found.pairs]
    [(0, 1), (1, 0)]
    """
    check_results(first, "first")
    check_results(second, "second")
    radii, measure = checks.radii(radii), common_measure([first, second])
    common, at_first, at_second = np.intersect1d(first.idx, second.idx, assume_unique=True, return_indices=True)
    if not len(common):
        raise RunError(f"{first.name} and {second.name} have no input in common; there is nothing to compare")
    one, other = first.only(at_first), second.only(at_second)
    return Comparison(
        first.name,
        second.name,
        len(common),
        [_pair(one, other, radius) for radius in radii],
        average_certified_radius(one, confidence=confidence),
        average_certified_radius(other, confidence=confidence),
        mean_interval(np.where(other.counted, other.radius, 0.0) - np.where(one.counted, one.radius, 0.0), confidence),
        differences(first, second) + unfinished(first, second) + stopped_early(first, second),
        bool(first.missing or second.missing),
        confidence,
        any(run.manifest and run.manifest.terms.goal and run.manifest.terms.goal.targets for run in (first, second)),
        measure,
    )


def _pair(one: Results, other: Results, radius: float) -> Pair:
    first, second = (run.counted & (run.radius >= radius) for run in (one, other))
    return Pair(
        radius,
        int((first & second).sum()),
        int((first & ~second).sum()),
        int((~first & second).sum()),
        int((~first & ~second).sum()),
    )


def differences(first: Results, second: Results) -> list[str]:
    """Reasons why two results are not directly comparable.

    Args:
        first: The results of one run.
        second: The results of another.

    Returns:
        One clause for each reason: other data, another subset, noise, risk or number of samples. Empty if there is no
        known reason.

    >>> run = Results("a run", np.arange(3), np.zeros(3, dtype=int), np.zeros(3, dtype=int), np.ones(3))
    >>> differences(run, run.only(np.array([0, 1])))
    ['the subsets differ: 3 and 2 inputs, 2 in common; those are compared']
    """
    check_results(first, "first")
    check_results(second, "second")
    found = []
    common, at_first, at_second = np.intersect1d(first.idx, second.idx, assume_unique=True, return_indices=True)
    if not np.array_equal(_labels(first, at_first), _labels(second, at_second)):
        found.append("the labels of the same inputs differ: these are other data, or another order")
    elif _known_to_differ(first, second, lambda made: made.data.hash) is not None:
        found.append("the hashes of their data differ: other data, or another split or size")
    if len(common) < max(len(first), len(second)):
        found.append(
            f"the subsets differ: {len(first)} and {len(second)} inputs, {len(common)} in common; those are compared"
        )
    for title, read in _TERMS.items():
        if (values := _known_to_differ(first, second, read)) is not None:
            found.append("the {} differ: {} and {}".format(title, *values))
    return found


def _labels(run: Results, places: NDArray[np.intp]) -> NDArray[np.int64]:
    """The labels of these inputs; an empty array if there are none."""
    return np.empty(0, np.int64) if run.label is None else run.label[places]


def unfinished(*runs: Results | Summary) -> list[str]:
    """Name the unfinished runs, with their numbers of missing inputs.

    Args:
        runs: results or summaries of runs.

    Returns:
        A sentence for each unfinished run, without a full stop; empty if all are finished.

    >>> import numpy as np
    >>> none = np.zeros(0, dtype=np.int64)
    >>> unfinished(Results("runs/a", none, none, none, np.zeros(0), missing=3))
    ['runs/a is not finished: 3 inputs are missing']
    """
    return [f"{run.name} is not finished: {run.missing} inputs are missing" for run in runs if run.missing]


def stopped_early(*runs: Results | Summary) -> list[str]:
    """Say for each run with a goal of sampling how the goal limits what its radii say.

    Args:
        runs: results or summaries of runs.

    Returns:
        A sentence for each run with a goal, without a full stop.

    >>> import numpy as np
    >>> none = np.zeros(0, dtype=np.int64)
    >>> stopped_early(Results("runs/a", none, none, none, np.zeros(0)))
    []
    """
    return [f"{run.name}: {run.caution}" for run in runs if run.caution is not None]


def _known_to_differ(first: Results, second: Results, read: _Read) -> tuple[object, object] | None:
    """The values in two manifests if both are known and differ, else None."""
    if first.manifest is None or second.manifest is None:
        return None
    one, other = read(first.manifest), read(second.manifest)
    return None if one is None or other is None or one == other else (one, other)


# Terms that should be equal in a comparison, by their names in the warning.
_TERMS: dict[str, _Read] = {
    "kinds of noise": lambda made: made.terms.noise,
    "risks α": lambda made: None if made.terms.alpha is None else f"{made.terms.alpha:g}",
    "noises σ": lambda made: f"{made.terms.sigma:g}" if made.terms.samples else None,
    # With a goal, n is only the maximum number of samples of an input.
    "numbers of samples n": lambda made: made.terms.n if made.terms.goal is None else None,
}
