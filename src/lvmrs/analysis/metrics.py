"""Certified accuracy and related measures, each with a confidence interval for the finite test set.

Intervals treat the test inputs as a sample of their distribution. Shares have exact intervals (Clopper and Pearson
1934). The average certified radius has Student's interval, widened by the interval of the share of inputs with a
positive radius: if these are few, Student's interval alone would be too narrow. Intervals do not account for the
probability α that a certificate is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvmrs.analysis.results import Results, check_results
from lvmrs.kernel import checks
from lvmrs.kernel.goals import ABSTAIN

__all__ = [
    "Estimate",
    "abstention",
    "average_certified_radius",
    "certified_accuracy",
    "certified_accuracy_intervals",
    "clean_accuracy",
    "mean_interval",
    "share_interval",
]


class Estimate(NamedTuple):
    """A number, and an interval that contains the true value at the requested confidence level."""

    value: float
    low: float
    high: float


def certified_accuracy(results: Results, radii: Sequence[float]) -> list[float]:
    """For each radius, the share of all inputs that are predicted correctly with at least that certified radius.

    Args:
        results: The results of a run.
        radii: The radii, in any order.

    Returns:
        A share from 0 to 1 for each radius.

    >>> classes, radii = np.array([0, 1, 1, 2]), np.array([0.2, 0.7, 0.0, 0.9])
    >>> run = Results("a run", np.arange(4), label=classes, predict=np.array([0, 1, -1, 2]), radius=radii)
    >>> certified_accuracy(run, [0.0, 0.5])
    [0.75, 0.5]
    """
    return [count / len(results) for count in _counts(results, radii)]


def certified_accuracy_intervals(
    results: Results, radii: Sequence[float], *, confidence: float = 0.95
) -> list[Estimate]:
    """Certified accuracy, each with its own interval: pointwise, not simultaneous over radii.

    Args:
        results: The results of a run.
        radii: The radii, in any order.
        confidence: Confidence level of each interval, strictly between 0 and 1.

    Returns:
        A share with its exact interval (Clopper and Pearson 1934) for each radius.

    >>> classes, radii = np.array([0, 1, 1, 2]), np.array([0.2, 0.7, 0.0, 0.9])
    >>> run = Results("a run", np.arange(4), label=classes, predict=np.array([0, 1, -1, 2]), radius=radii)
    >>> [[round(value, 3) for value in share] for share in certified_accuracy_intervals(run, [0.5])]
    [[0.5, 0.068, 0.932]]
    """
    return [share_interval(count, len(results), confidence) for count in _counts(results, radii)]


def _counts(results: Results, radii: Sequence[float]) -> list[int]:
    check_results(results)
    certified = np.sort(results.radius[results.correct])
    return (len(certified) - np.searchsorted(certified, checks.radii(radii), side="left")).tolist()  # type: ignore[no-any-return]


def clean_accuracy(results: Results, *, confidence: float = 0.95) -> Estimate | None:
    """Accuracy of the base classifier without noise.

    Args:
        results: The results of a run.
        confidence: Confidence level of the interval, strictly between 0 and 1.

    Returns:
        The share of correct predictions with its exact interval; None unless it was measured for every input.

    >>> classes = np.array([0, 1])
    >>> run = Results("a run", np.arange(2), classes, classes, np.ones(2), clean=np.array([0, 0]))
    >>> clean_accuracy(run).value
    0.5
    """
    check_results(results)
    if results.clean is None:
        return None
    return share_interval(int((results.clean == results.label).sum()), len(results), confidence)


def abstention(results: Results, *, confidence: float = 0.95) -> Estimate:
    """Share of inputs without a certificate.

    Args:
        results: The results of a run.
        confidence: Confidence level of the interval, strictly between 0 and 1.

    Returns:
        The share of abstentions with its exact interval.

    >>> classes, radii = np.array([0, 1, 1, 2]), np.array([0.2, 0.7, 0.0, 0.9])
    >>> run = Results("a run", np.arange(4), label=classes, predict=np.array([0, 1, -1, 2]), radius=radii)
    >>> abstention(run).value
    0.25
    """
    check_results(results)
    return share_interval(int((results.predict == ABSTAIN).sum()), len(results), confidence)


def average_certified_radius(results: Results, *, confidence: float = 0.95) -> Estimate:
    """The mean radius over all inputs, with 0 for wrong predictions and abstentions (Zhai et al. 2020).

    Args:
        results: The results of a run.
        confidence: Confidence level of the interval, strictly between 0 and 1.

    Returns:
        The mean with its interval, which is wide if few inputs have a positive radius.

    >>> classes, radii = np.array([0, 1, 1, 2]), np.array([0.2, 0.7, 0.0, 0.9])
    >>> run = Results("a run", np.arange(4), label=classes, predict=np.array([0, 1, -1, 2]), radius=radii)
    >>> round(average_certified_radius(run).value, 6)
    0.45
    """
    check_results(results)
    radii = np.where(results.correct, results.radius, 0.0)
    positive = int((radii > 0).sum())
    if not positive:
        return Estimate(0.0, 0.0, np.inf)
    student, share = mean_interval(radii, confidence), share_interval(positive, len(radii), confidence)
    among = float(radii.sum()) / positive
    return Estimate(student.value, max(0.0, min(student.low, among * share.low)), max(student.high, among * share.high))


def share_interval(count: int, total: int, confidence: float = 0.95) -> Estimate:
    """A share with its exact interval (Clopper and Pearson 1934).

    Args:
        count: number of inputs that have the property.
        total: number of inputs, at least 1.
        confidence: confidence level of the interval.

    >>> share, low, high = share_interval(90, 100)
    >>> print(f"{share:.2f}, between {low:.3f} and {high:.3f}")
    0.90, between 0.824 and 0.951
    """
    from lvmrs.kernel.bounds import binomial

    counts, n, tail = np.asarray(float(count)), np.asarray(float(total)), np.asarray(_tail(confidence))
    return Estimate(count / total, float(binomial.lower(counts, n, tail)), float(binomial.upper(counts, n, tail)))


def mean_interval(values: NDArray[np.float64], confidence: float = 0.95) -> Estimate:
    """A mean with Student's interval. The interval is infinite for a single value, and if all values are equal."""
    mean, n = float(values.mean()), len(values)
    if n < 2 or not values.std():
        return Estimate(mean, -np.inf, np.inf)
    from scipy import special  # imported here, since the import takes longer than starting a command

    width = float(special.stdtrit(n - 1, 1 - _tail(confidence)) * values.std(ddof=1) / np.sqrt(n))
    return Estimate(mean, mean - width, mean + width)


def _tail(confidence: float) -> float:
    """The probability outside of an interval of this confidence level, at each end."""
    return (1 - checks.single("confidence", checks.fraction("confidence", confidence))) / 2
