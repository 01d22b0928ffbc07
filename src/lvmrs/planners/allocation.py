"""Allocation of a budget of samples among inputs, planned on their selection samples.

The objective is the average certified radius. The radius of each input is forecast for several numbers of samples, and
samples go to the inputs with the largest expected gain. The allocation is fixed before the first certification sample
is drawn. So each certificate uses a bound for a fixed number of samples at the full risk, which is narrower than any
anytime bound.

No certificate relies on this module: a bad forecast makes radii smaller, never false.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence

import numpy as np
import scipy
import torch
from torch import Tensor

from lvmrs.kernel.checks import Floats
from lvmrs.kernel.terms import Plan, Terms

LEAST = 32
"""The smallest number of samples of an input."""
# How many numbers of samples are tried per power of ten.
_STEPS = 8
# The mean of a score takes these quantiles of its posterior after the selection sample, with equal probability.
_LEVELS = (np.arange(16) + 0.5) / 16
# Pseudo-counts added to the ones and zeros of the selection sample.
_BESIDE = 0.3
# The number of strongest rivals that a forecast takes into account.
_RIVALS = 3


def numbers(most: int) -> list[int]:
    """Numbers of samples from ``LEAST`` to ``most``, in geometric progression.

    >>> numbers(100)
    [32, 42, 56, 75, 100]
    """
    found = {round(most * 10 ** (-step / _STEPS)) for step in range(_STEPS * 10)}
    return sorted({min(LEAST, most)} | {each for each in found if each > LEAST})


def expected_radii(plan: Plan, terms: Terms, logits: Tensor, counts: Sequence[int]) -> Floats:
    """Forecast the radius that a plan certifies, for each number of samples in ``counts``.

    After few samples, a mean may be far from their average, and radii grow fast towards a mean of 1. So the forecast is
    an average over a Beta posterior of the mean. ``logits`` are the selection logits of the plan (samples, classes).

    >>> from lvmrs import Duels, SmoothedClassifier
    >>> smoothed, x = SmoothedClassifier(torch.nn.Identity(), 0.5, batch=100), torch.tensor([1.0, 0.0])
    >>> terms = Terms(0.5, 0.001, 1000)
    >>> plan = Duels().plan(smoothed.scores(x, 100, stage="selection"), terms)
    >>> few, many = expected_radii(plan, terms, torch.tensor([[1.0, 0.0]] * 9 + [[0.0, 1.0]]), [100, 1000])
    >>> bool(0 < few < many < 1.0)
    True
    """
    expected: Floats = plausible_radii(plan, terms, logits, counts).mean(axis=1)
    return expected


def plausible_radii(plan: Plan, terms: Terms, logits: Tensor, counts: Sequence[int]) -> Floats:
    """Radii that a plan may certify, of shape (counts, levels): one for each of several equally likely means.

    The arguments are those of ``expected_radii``. The levels ascend; 0 means that nothing is certified.
    """
    alone, pooled = (torch.tensor(rivals, dtype=torch.long) for rivals in plan.rivals)
    columns = plan.map.columns(logits, plan.top, alone, pooled).double().cpu().numpy()

    def lowest(scores: Floats, risk: float) -> Floats:
        """The smallest lower bound among columns, of shape (counts, levels)."""
        means, variances = _plausible(scores)
        return np.stack([plan.bound.forecast(means, variances, n, risk).min(axis=1) for n in counts])

    paired = plan.map.paired
    p_a = lowest(_nearest(columns), plan.risk_rival) if paired else lowest(columns[:, :1], plan.risk_top)
    p_b = 1 - p_a
    if not paired and columns.shape[1] > 1:  # a larger mean of the top class means smaller means of its rivals
        p_b = np.minimum(p_b, 1 - lowest(_nearest(1 - columns[:, 1:]), plan.risk_rival))
    return _radii(plan, terms, p_a, p_b)


def largest_radius(plan: Plan, terms: Terms, n: int) -> float:
    """The largest radius that a plan can certify: that of n samples that all agree; 0 if it can certify none.

    >>> from lvmrs import Duels, SmoothedClassifier
    >>> smoothed, x = SmoothedClassifier(torch.nn.Identity(), 0.5, batch=100), torch.tensor([1.0, 0.0])
    >>> terms = Terms(0.5, 0.001, 1000)
    >>> plan = Duels().plan(smoothed.scores(x, 100, stage="selection"), terms)
    >>> print(f"{largest_radius(plan, terms, 1000):.4f}")  # σ Φ⁻¹(α^(1/n))
    1.2316
    """
    one, none = np.ones((1, 1)), np.zeros((1, 1))
    risk = plan.risk_rival if plan.map.paired else plan.risk_top

    def highest(risk: float) -> Floats:
        found: Floats = plan.bound.forecast(one, none, n, risk).min(axis=1)
        # The forecast of an anytime bound is cautious; no bound at this risk exceeds the other number.
        return np.maximum(found, risk ** (1 / n)) if plan.bound.anytime else found

    p_a = highest(risk)
    p_b = 1 - p_a
    if not plan.map.paired and plan.risk_rival > 0:
        p_b = np.minimum(p_b, 1 - highest(plan.risk_rival))
    return float(_radii(plan, terms, p_a, p_b)[0])


def _radii(plan: Plan, terms: Terms, p_a: Floats, p_b: Floats) -> Floats:
    """The radii of these bounds; 0 where nothing is certified."""
    allowance = terms.allowance(plan.map, plan.form)
    less, more = np.clip(p_a - allowance, 0.0, 1.0), np.clip(p_b + allowance, 0.0, 1.0)
    radii = plan.form.radius(less, more, sigma=terms.sigma, slopes=plan.map.slopes(terms.lipschitz))
    return np.where((less > more) & np.isfinite(radii), radii, 0.0)  # a user's form may fail


def _nearest(columns: Floats) -> Floats:
    """The columns of the strongest rivals: those with the smallest mean in favour of the top class."""
    return columns[:, np.argsort(columns.mean(axis=0), kind="stable")[:_RIVALS]]


def _plausible(columns: Floats) -> tuple[Floats, Floats]:
    """Plausible means of each column, of shape (levels, columns), and their variances."""
    mean, variance = columns.mean(axis=0), columns.var(axis=0)
    # Scores between 0 and 1 vary less than 0/1 scores, so they count as a larger number of those.
    spread = mean * (1 - mean)
    worth = len(columns) * np.where(variance > 0, spread / np.maximum(variance, 1e-12), 1.0)
    ones, zeros = worth * mean + _BESIDE, worth * (1 - mean) + _BESIDE
    means = scipy.special.betaincinv(ones, zeros, _LEVELS[:, None])
    less = np.where(spread > 0, variance / np.maximum(spread, 1e-12), 1.0)
    return means, means * (1 - means) * less


def allocated(counts: Sequence[int], expected: Sequence[Floats] | Floats, budget: int) -> list[int]:
    """Allocate a budget, so that the sum of the expected radii is as large as possible.

    The radius of each input is replaced by its concave envelope. Samples go to the step of an envelope with the largest
    gain per sample; the last step may be cut short. Samples without gain are not spent.

    Args:
        counts: numbers of samples, in ascending order; each input gets at least the first.
        expected: for each input, the expected radius for each number.
        budget: samples for all inputs together.

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
    """The steps between the corners of the smallest concave curve above (numbers of samples, radii).

    Each step is a gain per sample, which falls from step to step, and a number of samples.

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
