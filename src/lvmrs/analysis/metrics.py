"""Certified accuracy and its relatives, each with a confidence interval for the finite test set.

The test inputs are taken for a sample of the distribution they come from: shares have exact intervals (Clopper and
Pearson 1934). The average certified radius has Student's interval, widened by that of the share of inputs that have a
radius at all: where these are few, Student's alone would be too narrow. Intervals are about the test set; that each
certificate may be wrong with probability α is another matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from lvmrs import _checks, binomial
from lvmrs.analysis.results import Results
from lvmrs.answers import ABSTAIN

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
    """A number, and an interval that holds the true one with the confidence that was asked for."""

    value: float
    low: float
    high: float


def certified_accuracy(results: Results, radii: Sequence[float]) -> list[float]:
    """For each radius, the share of all inputs whose answer is correct with a radius of at least that."""
    return [count / len(results) for count in _counts(results, radii)]


def certified_accuracy_intervals(
    results: Results, radii: Sequence[float], *, confidence: float = 0.95
) -> list[Estimate]:
    """Certified accuracy, each with its own interval: at one radius, not at all of them together."""
    return [share_interval(count, len(results), confidence) for count in _counts(results, radii)]


def _counts(results: Results, radii: Sequence[float]) -> list[int]:
    certified = np.sort(results.radius[results.correct])
    return (len(certified) - np.searchsorted(certified, np.asarray(radii, dtype=float), side="left")).tolist()  # type: ignore[no-any-return]


def clean_accuracy(results: Results, *, confidence: float = 0.95) -> Estimate | None:
    """How often the classifier itself is right, without noise; None unless that was measured for every input."""
    if results.clean is None:
        return None
    return share_interval(int((results.clean == results.label).sum()), len(results), confidence)


def abstention(results: Results, *, confidence: float = 0.95) -> Estimate:
    """How often nothing could be certified."""
    return share_interval(int((results.predict == ABSTAIN).sum()), len(results), confidence)


def average_certified_radius(results: Results, *, confidence: float = 0.95) -> Estimate:
    """The mean radius over all inputs, counting nothing for those that are wrong or abstain (Zhai et al. 2020)."""
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
        count: how many of the inputs count.
        total: how many inputs there are, at least 1.
        confidence: with what probability the interval holds the true share.

    >>> share, low, high = share_interval(90, 100)
    >>> print(f"{share:.2f}, between {low:.3f} and {high:.3f}")
    0.90, between 0.824 and 0.951
    """
    counts, n, tail = np.asarray(float(count)), np.asarray(float(total)), np.asarray(_tail(confidence))
    return Estimate(count / total, float(binomial.lower(counts, n, tail)), float(binomial.upper(counts, n, tail)))


def mean_interval(values: NDArray[np.float64], confidence: float = 0.95) -> Estimate:
    """A mean with Student's interval; the interval is infinite if there is one value, or if all values are equal."""
    mean, n = float(values.mean()), len(values)
    if n < 2 or not values.std():
        return Estimate(mean, -np.inf, np.inf)
    width = float(special.stdtrit(n - 1, 1 - _tail(confidence)) * values.std(ddof=1) / np.sqrt(n))
    return Estimate(mean, mean - width, mean + width)


def _tail(confidence: float) -> float:
    """The probability that an interval of this confidence leaves out at each end."""
    return (1 - _checks.single("confidence", _checks.fraction("confidence", confidence))) / 2
