"""Certified accuracy and related measures, each with a confidence interval for the finite test set, and the curve.

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
from lvmrs.kernel.method import ABSTAIN

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""The shares of inputs at which the distribution of ``p_lower`` is shown."""
# Maximum number of steps of a curve that a figure shows.
_MOST_POINTS = 500


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
    check_results(results)
    return [count / len(results) for count in _counts(results, results.correct, radii)]


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
    check_results(results)
    return _intervals(results, results.correct, radii, confidence)


def counted_intervals(results: Results, radii: Sequence[float], confidence: float) -> list[Estimate]:
    """Certified accuracy with its intervals; without labels, the share of inputs with a certificate for any class."""
    return _intervals(results, results.counted, radii, confidence)


def _intervals(
    results: Results, counted: NDArray[np.bool_], radii: Sequence[float], confidence: float
) -> list[Estimate]:
    return [share_interval(count, len(results), confidence) for count in _counts(results, counted, radii)]


def _counts(results: Results, counted: NDArray[np.bool_], radii: Sequence[float]) -> list[int]:
    certified = np.sort(results.radius[counted])
    return (len(certified) - np.searchsorted(certified, checks.radii(radii), side="left")).tolist()  # type: ignore[no-any-return]


def clean_accuracy(results: Results, *, confidence: float = 0.95) -> Estimate | None:
    """Accuracy of the base classifier without noise.

    Args:
        results: The results of a run.
        confidence: Confidence level of the interval, strictly between 0 and 1.

    Returns:
        The share of correct predictions with its exact interval; None unless it was measured, and the label is known,
        for every input.

    >>> classes = np.array([0, 1])
    >>> run = Results("a run", np.arange(2), classes, classes, np.ones(2), clean=np.array([0, 0]))
    >>> clean_accuracy(run).value
    0.5
    """
    check_results(results)
    if results.clean is None or results.label is None:
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

    Without labels, predictions count whether or not they are wrong.

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
    radii = np.where(results.counted, results.radius, 0.0)
    positive = int((radii > 0).sum())
    if not positive:
        return Estimate(0.0, 0.0, np.inf)
    student, share = mean_interval(radii, confidence), share_interval(positive, len(radii), confidence)
    among = float(radii.sum()) / positive
    return Estimate(student.value, max(0.0, min(student.low, among * share.low)), max(student.high, among * share.high))


def p_lower_quantiles(results: Results) -> tuple[float, ...] | None:
    """Quantiles over the inputs of the lower bound on the mean score of the label, at the shares ``QUANTILES``.

    The bound is ``p_lower`` where the planned class is the label, and 0 where it is another one; without labels it is
    ``p_lower`` for every input. Sun et al. (2024,
    arXiv 2410.06895) advise to report this distribution: the average radius is dominated by easy inputs.

    Args:
        results: The results of a run.

    Returns:
        The quantiles, each the bound of an input; None if the bounds or the planned classes are not known.

    >>> classes = np.array([0, 1, 1, 2, 2])
    >>> bounds = np.array([0.9, 0.6, 0.8, 0.7, 0.99])
    >>> run = Results("a run", np.arange(5), classes, classes, np.ones(5), top=classes, p_lower=bounds)
    >>> p_lower_quantiles(run)
    (0.6, 0.7, 0.8, 0.9, 0.9)
    """
    check_results(results)
    if results.p_lower is None or results.top is None:
        return None
    known = results.label is not None
    bounds = np.where(results.top == results.label, results.p_lower, 0.0) if known else results.p_lower
    return tuple(np.quantile(bounds, QUANTILES, method="lower").tolist())


def share_interval(count: float, total: int, confidence: float = 0.95) -> Estimate:
    """The share ``count / total`` with its exact interval (Clopper and Pearson 1934).

    A sum of probabilities may take the place of a count: it varies no more than a count with the same mean.

    >>> share, low, high = share_interval(90, 100)
    >>> print(f"{share:.2f}, between {low:.3f} and {high:.3f}")
    0.90, between 0.824 and 0.951
    """
    from scipy import special  # imported here, since the import takes longer than starting a command

    tail = _tail(confidence)  # not by lvmrs.kernel.bounds, which imports torch
    low = special.betaincinv(count, total - count + 1, tail) if count else 0.0
    high = special.betainccinv(count + 1, total - count, tail) if count < total else 1.0
    return Estimate(count / total, float(low), float(high))


def mean_interval(values: NDArray[np.float64], confidence: float = 0.95) -> Estimate:
    """A mean with Student's interval. The interval is infinite for a single value, and if all values are equal."""
    mean, n = float(values.mean()), len(values)
    if n < 2 or not np.ptp(values):  # the std of equal values can be a rounding error
        return Estimate(mean, -np.inf, np.inf)
    from scipy import special  # imported here, since the import takes longer than starting a command

    width = float(special.stdtrit(n - 1, 1 - _tail(confidence)) * values.std(ddof=1) / np.sqrt(n))
    return Estimate(mean, mean - width, mean + width)


def _tail(confidence: float) -> float:
    """The probability outside of an interval of this confidence level, at each end."""
    return (1 - checks.single("confidence", checks.fraction("confidence", confidence))) / 2


class Curve(NamedTuple):
    """A decreasing step function: the value at a radius holds from the previous radius on."""

    radius: NDArray[np.float64]
    share: NDArray[np.float64]
    """Certified accuracy at each radius, from 0 to 1; without labels, the share of certified inputs."""
    low: NDArray[np.float64]
    """Lower end of the pointwise interval for the finite test set."""
    high: NDArray[np.float64]


def largest_radius(results: Results) -> float:
    """The largest finite radius of a counted prediction, at which the curve has its last step; 0 if there is none."""
    return float(_steps(results).max())


def _steps(results: Results) -> NDArray[np.float64]:
    """The radii at which the curve has a step, and 0. Distances that an attack did not find are infinite."""
    radii = results.radius[results.counted]
    return np.unique(np.concatenate([[0.0], radii[np.isfinite(radii)]]))


def curve(results: Results, *, end: float | None = None, confidence: float = 0.95) -> Curve:
    """The curve at each of its steps; if there are too many, at evenly spaced radii.

    Draw it with the share of each radius up to that radius from the one before: so it never exceeds the exact curve.

    Args:
        results: The results of a run.
        end: The radius at which the curve ends, beyond its last step; by default slightly beyond.
        confidence: Confidence level of the interval at each radius.

    Returns:
        The radii of the steps, and at each of them the share and both ends of its interval.

    >>> classes = np.array([0, 1])
    >>> run = Results("a run", np.arange(2), classes, predict=classes, radius=np.array([0.25, 0.5]))
    >>> found = curve(run, end=1.0)
    >>> found.radius.tolist(), found.share.tolist()
    ([0.0, 0.25, 0.5, 1.0], [1.0, 1.0, 0.5, 0.0])
    """
    check_results(results)
    largest = largest_radius(results)
    last = 1.03 * (largest or 1.0) if end is None else checks.nonnegative_number("end", end)
    steps = _steps(results)
    if len(steps) > _MOST_POINTS:
        steps = np.linspace(0, largest, _MOST_POINTS)
    radii = np.append(steps, last)
    shares = np.array(counted_intervals(results, radii.tolist(), confidence))
    return Curve(radii, *shares.T)
