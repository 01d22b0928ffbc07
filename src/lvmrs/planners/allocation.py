"""Allocation: how many samples of a budget each input gets, planned on the samples that its certificate is planned on.

The objective is the average certified radius. For each input, the radius that it should reach is forecast for some
numbers of samples; then samples go to the inputs, and as far, as they are expected to gain most. The numbers are
settled before the first sample of a proof is drawn. So each certificate has the bound of a number of samples that is
known beforehand, at its full risk: that is narrower than any bound that holds at every moment.

Nothing here needs to be right: a bad forecast makes radii smaller, never false.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from lvmrs.kernel import special as special
from lvmrs.kernel.checks import Floats
from lvmrs.kernel.terms import Plan, Terms

__all__ = ["LEAST", "allocated", "expected_radii", "numbers", "steps"]

LEAST = 32
"""Every input gets so many samples at least."""
# Numbers of samples that are tried in each power of ten.
_STEPS = 8
# The mean of a score is taken to be one of so many values, which are equally probable after the selection sample.
_LEVELS = (np.arange(16) + 0.5) / 16
# What is added to the ones and zeros of the selection sample: a mean may be beyond all that was seen.
_BESIDE = 0.3
# So many of the strongest rivals are looked at: the others do not come nearer.
_RIVALS = 3


def numbers(most: int) -> list[int]:
    """Numbers of samples from the least to the most that an input may get, in geometric progression.

    >>> numbers(100)
    [32, 42, 56, 75, 100]
    """
    found = {round(most * 10 ** (-step / _STEPS)) for step in range(_STEPS * 10)}
    return sorted({min(LEAST, most)} | {each for each in found if each > LEAST})


def expected_radii(plan: Plan, terms: Terms, logits: Tensor, counts: Sequence[int]) -> Floats:
    """Forecast the radius that a plan certifies with each of some numbers of samples.

    Where few samples were seen, a mean may be far from their average, and radii grow fast towards a mean of 1. So the
    forecast is an average over means that are plausible, after Jeffreys: those of a Beta distribution.

    Args:
        plan: the plan.
        terms: its terms.
        logits: the selection logits that it was made on, of shape (samples, classes).
        counts: the numbers of samples.

    Returns:
        The expected radius for each number.

    >>> from lvmrs import Duels, SmoothedClassifier
    >>> smoothed, x = SmoothedClassifier(torch.nn.Identity(), 0.5, batch=100), torch.tensor([1.0, 0.0])
    >>> terms = Terms(0.5, 0.001, 1000)
    >>> plan = Duels().plan(smoothed.scores(x, 100, stage="selection"), terms)
    >>> few, many = expected_radii(plan, terms, torch.tensor([[1.0, 0.0]] * 9 + [[0.0, 1.0]]), [100, 1000])
    >>> bool(0 < few < many < 1.0)
    True
    """
    alone, pooled = (torch.tensor(rivals, dtype=torch.long) for rivals in plan.rivals)
    columns = plan.map.columns(logits, plan.top, alone, pooled).double().cpu().numpy()

    def lowest(scores: Floats, risk: float) -> Floats:
        """The smallest lower bound among columns, of shape (counts, levels)."""
        means, variances = _plausible(scores)
        return np.stack([plan.bound.forecast(means, variances, n, risk).min(axis=1) for n in counts])

    if plan.map.paired:
        p_a = lowest(_nearest(columns), plan.risk_rival)
        p_b = 1 - p_a
    else:
        p_a = lowest(columns[:, :1], plan.risk_top)
        p_b = 1 - p_a
        if columns.shape[1] > 1:  # where the top class is better than it seemed, its rivals are worse
            p_b = np.minimum(p_b, 1 - lowest(_nearest(1 - columns[:, 1:]), plan.risk_rival))
    allowance = terms.allowance(plan.map, plan.form)
    less, more = np.clip(p_a - allowance, 0.0, 1.0), np.clip(p_b + allowance, 0.0, 1.0)
    radii = plan.form.radius(less, more, sigma=terms.sigma, slopes=plan.map.slopes(terms.lipschitz))
    expected: Floats = np.where((less > more) & np.isfinite(radii), radii, 0.0).mean(axis=1)  # a user's part may be odd
    return expected


def _nearest(columns: Floats) -> Floats:
    """The columns of the rivals that come nearest: those with the smallest means of what is for the top class."""
    return columns[:, np.argsort(columns.mean(axis=0), kind="stable")[:_RIVALS]]


def _plausible(columns: Floats) -> tuple[Floats, Floats]:
    """Means that each column may have, of shape (levels, columns), and the variances that go with them."""
    mean, variance = columns.mean(axis=0), columns.var(axis=0)
    # Scores that are not 0 or 1 vary less, and tell as much about their mean as more scores that are.
    spread = mean * (1 - mean)
    worth = len(columns) * np.where(variance > 0, spread / np.maximum(variance, 1e-12), 1.0)
    ones, zeros = worth * mean + _BESIDE, worth * (1 - mean) + _BESIDE
    means = special.betaincinv(ones, zeros, _LEVELS[:, None])
    less = np.where(spread > 0, variance / np.maximum(spread, 1e-12), 1.0)
    return means, means * (1 - means) * less


def allocated(counts: Sequence[int], expected: Sequence[Floats] | Floats, budget: int) -> list[int]:
    """Allocate a budget, so that the sum of the expected radii is as large as possible.

    What each input gains is bounded by a concave curve, along whose corners samples go where they gain most. The last
    input that gets some may get fewer than its next corner has. What gains nothing is not spent.

    Args:
        counts: numbers of samples, in ascending order; each input gets the first of them at least.
        expected: for each input, the radius that is expected with each of these numbers.
        budget: samples for all inputs together.

    Returns:
        The number of samples of each input.

    >>> allocated([10, 100, 1000], [np.array([0.1, 0.3, 0.4]), np.array([0.0, 0.0, 0.0])], 600)
    [590, 10]
    """
    given = [counts[0]] * len(expected)
    left = budget - sum(given)
    gains, sizes, places = array("d"), array("q"), array("q")  # a data set has many steps
    for place, curve in enumerate(expected):
        for gain, samples in steps(counts, curve.tolist()):
            gains.append(gain)
            sizes.append(samples)
            places.append(place)
    for step in np.argsort(-np.array(gains), kind="stable"):  # stable: equal ones keep their order
        if gains[step] <= 0 or left <= 0:
            break
        more = min(sizes[step], left)
        given[places[step]] += more
        left -= more
    return given


def steps(counts: Sequence[int], curve: Sequence[float]) -> list[tuple[float, int]]:
    """The steps from corner to corner of the smallest concave curve above some points.

    Args:
        counts: numbers of samples, in ascending order.
        curve: the radius with each of them.

    Returns:
        For each step, the gain for each sample, which falls from step to step, and how many samples it has.

    >>> steps([0, 10, 20, 40], [0.0, 0.25, 1.0, 1.5])
    [(0.05, 20), (0.025, 20)]
    """
    corners: list[tuple[int, float]] = []
    for point in zip(counts, curve, strict=True):
        while len(corners) > 1 and _slope(corners[-2], point) >= _slope(corners[-2], corners[-1]):
            corners.pop()
        corners.append(point)
    return [(_slope(one, two), two[0] - one[0]) for one, two in itertools.pairwise(corners)]


def _slope(one: tuple[int, float], two: tuple[int, float]) -> float:
    return (two[1] - one[1]) / (two[0] - one[0])
