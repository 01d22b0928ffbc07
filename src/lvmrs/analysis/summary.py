"""Computes all measures of a run that tables, JSON and reports show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lvmrs.analysis.attacked import AttackSummary, attack_summary
from lvmrs.analysis.metrics import (
    Estimate,
    abstention,
    average_certified_radius,
    certified_accuracy_intervals,
    clean_accuracy,
)
from lvmrs.analysis.results import Results, check_results
from lvmrs.analysis.spending import Spending, spending
from lvmrs.errors import RunError
from lvmrs.kernel import checks

__all__ = ["Summary", "best_over_runs", "summarise"]


@dataclass(frozen=True)
class Summary:
    """The measures of one run, each with its interval for the finite test set."""

    name: str
    inputs: int
    """Number of inputs with a row; all shares are shares of these."""
    missing: int
    """Number of inputs without a row in an unfinished run."""
    confidence: float
    """Confidence level of all intervals."""
    radii: tuple[float, ...]
    certified_accuracy: tuple[Estimate, ...]
    """One for each of the radii."""
    average_certified_radius: Estimate
    clean_accuracy: Estimate | None
    """Accuracy of the base classifier without noise; None if it was not measured for every input."""
    abstention: Estimate
    attack: AttackSummary | None = None
    """Measures of an attack on the run; None if it was not attacked."""
    spent: Spending | None = None
    """Samples and verdicts of a run whose sampling stops at a goal; None for others."""


def summarise(results: Results, radii: Sequence[float], *, confidence: float = 0.95) -> Summary:
    """Compute the measures of one run.

    Args:
        results: The results of the run.
        radii: The radii for certified accuracy.
        confidence: Confidence level of each interval, between 0 and 1.

    Returns:
        All measures, each with its interval.

    >>> import numpy as np
    >>> classes, radii = np.array([0, 1, 1, 2]), np.array([0.2, 0.7, 0.4, 0.9])
    >>> run = Results("a run", np.arange(4), label=classes, predict=np.array([0, 1, -1, 2]), radius=radii)
    >>> summary = summarise(run, [0.0, 0.5])
    >>> [share.value for share in summary.certified_accuracy], summary.abstention.value
    ([0.75, 0.5], 0.25)
    """
    check_results(results)
    radii = checks.radii(radii)
    return Summary(
        results.name,
        len(results),
        results.missing,
        confidence,
        tuple(radii),
        tuple(certified_accuracy_intervals(results, radii, confidence=confidence)),
        average_certified_radius(results, confidence=confidence),
        clean_accuracy(results, confidence=confidence),
        abstention(results, confidence=confidence),
        attack_summary(results, radii, confidence=confidence),
        spending(results),
    )


def best_over_runs(runs: Sequence[Summary]) -> list[tuple[float, Summary]]:
    """The largest certified accuracy at each radius, with its run: the envelope over σ that papers show.

    The best run is chosen on the same inputs, so there is no interval.

    Args:
        runs: Summaries of at least one run, all at the same radii.

    Returns:
        For each radius the largest certified accuracy, and its summary.

    >>> import numpy as np
    >>> classes = np.array([0, 1])
    >>> one = Results("one", np.arange(2), classes, predict=np.array([0, 0]), radius=np.array([0.9, 0.9]))
    >>> two = Results("two", np.arange(2), classes, predict=classes, radius=np.array([0.2, 0.2]))
    >>> best = best_over_runs([summarise(run, [0.0, 0.5]) for run in (one, two)])
    >>> [(share, run.name) for share, run in best]
    [(1.0, 'two'), (0.5, 'one')]
    """
    if not runs:
        raise RunError("no runs were given; there is nothing to take the best of")
    if any(run.radii != runs[0].radii for run in runs):
        raise RunError("the runs are summarised at different radii; take the same radii for all of them")
    shares = np.array([[share.value for share in run.certified_accuracy] for run in runs])
    return [(float(shares[k, j]), runs[k]) for j, k in enumerate(shares.argmax(axis=0))]
