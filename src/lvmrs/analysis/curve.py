"""The curve of certified accuracy over the radius, with a band of intervals, for figures and reports."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvmrs.analysis.metrics import certified_accuracy_intervals
from lvmrs.analysis.results import Results, check_results
from lvmrs.kernel import checks

__all__ = ["Curve", "curve", "largest_radius"]

# Maximum number of steps that a figure shows.
_MOST_POINTS = 500


class Curve(NamedTuple):
    """A decreasing step function: the value at a radius holds from the previous radius on."""

    radius: NDArray[np.float64]
    share: NDArray[np.float64]
    """Certified accuracy at each radius, from 0 to 1."""
    low: NDArray[np.float64]
    """Lower end of the pointwise interval for the finite test set."""
    high: NDArray[np.float64]


def largest_radius(results: Results) -> float:
    """The largest finite radius of a correct prediction, at which the curve has its last step; 0 if there is none."""
    return float(_steps(results).max())


def _steps(results: Results) -> NDArray[np.float64]:
    """The radii at which the curve has a step, and 0. Distances that an attack did not find are infinite."""
    radii = results.radius[results.correct]
    return np.unique(np.concatenate([[0.0], radii[np.isfinite(radii)]]))


def curve(results: Results, *, end: float | None = None, confidence: float = 0.95) -> Curve:
    """The curve at each of its steps; if there are too many, at evenly spaced radii, where it is never too high.

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
    last = 1.03 * (largest or 1.0) if end is None else checks.single("end", checks.at_least_zero("end", end))
    steps = _steps(results)
    if len(steps) > _MOST_POINTS:
        steps = np.linspace(0, largest, _MOST_POINTS)
    radii = np.append(steps, last)
    shares = np.array(certified_accuracy_intervals(results, radii.tolist(), confidence=confidence))
    return Curve(radii, *shares.T)
