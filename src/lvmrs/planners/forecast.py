"""Forecasts of the radius that n samples should certify, from the moments of n0 samples, for many candidates at once.

Nothing here needs to be right: a bad forecast makes a radius smaller, never false. Bounds are forecast with their
widths at n samples, not at n0, so that a candidate with more variance is judged by what this will really cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lvmrs._checks import Floats
from lvmrs.confidence.base import Bound
from lvmrs.forms import R2, Form, Ramp
from lvmrs.maps import SimplexMap, Slopes
from lvmrs.plan import Choice, Terms
from lvmrs.planners.survey import Survey
from lvmrs.registry import BOUNDS

__all__ = ["Forecast", "Way", "best", "bounds_of", "forecasts", "forms_for", "signed_radius"]


# It is less than any radius, and more than the −∞ of a bound that cannot be used for a candidate.
_HOPELESS = -1e300


@dataclass(frozen=True)
class Way:
    """A way of bounding: which bound, and whether rivals have bounds too, for which half of the risk is spent."""

    bound: Bound
    two_sided: bool

    @property
    def share(self) -> float:
        """The share of the risk that the top class gets."""
        return 0.5 if self.two_sided else 1.0


@dataclass(frozen=True)
class Forecast:
    """The radius that one form should give for each candidate of a survey, with the best way of bounding."""

    form: Form
    expected: Floats
    """The radius of each candidate; if p_a < p_b, minus the radius that the two would give in the other order."""
    ways: list[Way]
    """The best way of bounding for each candidate."""

    def choice(self, survey: Survey, row: int, terms: Terms) -> Choice:
        """The choice of one candidate, with the way of bounding that was forecast for it."""
        way, order = self.ways[row], survey.ranked(row)
        return Choice(
            top=order[0],
            classes=survey.classes,
            map=survey.maps[row],
            bound=way.bound,
            form=self.form if way.two_sided else self.form.one_sided,
            risk_top=terms.alpha * way.share,
            risk_rival=terms.alpha * (1 - way.share),
            alone=way.bound.alone(order[1:], others=1) if way.two_sided else None,
        )


def forms_for(terms: Terms) -> tuple[Form, ...]:
    """The forms that are worth trying: R2, and the ramp radius if a Lipschitz constant is known."""
    return (R2(),) if math.isinf(terms.lipschitz) else (R2(), Ramp())


def forecasts(survey: Survey, terms: Terms, *, bounds: Sequence[str], forms: Sequence[Form]) -> list[Forecast]:
    """Forecast the radius of each candidate, for each form, with the best way of bounding.

    Args:
        survey: the candidates and their moments.
        terms: the terms of the certificate.
        bounds: names of the bounds. Those for 0/1 scores only are tried for votes only; if there are any, votes are
            not tried with the others.
        forms: the forms of the radius.
    """
    kinds = [BOUNDS.find(name) for name in bounds]
    votes = np.array([each.binary for each in survey.maps])
    counted = votes & any(kind.votes_only for kind in kinds)
    ways = [Way(kind(), two) for kind in kinds for two in (False, True)]
    means = np.take_along_axis(survey.mean, survey.order, axis=1)
    variances = np.take_along_axis(survey.variance, survey.order, axis=1)
    low, high = np.zeros((2, len(ways), len(votes)))
    for i, way in enumerate(ways):
        meant = counted if way.bound.votes_only else ~counted
        low[i], high[i] = -1.0, 1.0
        if meant.any():
            low[i, meant], high[i, meant] = bounds_of(way, means[meant], variances[meant], terms, survey.rest[meant])
    slopes, columns = _slopes(survey.maps, terms.lipschitz), np.arange(len(votes))

    def expected(form: Form, rows: NDArray[np.intp]) -> Floats:
        p_a, p_b = low[rows, columns], high[rows, columns]
        rounded = np.array([terms.allowance(each, form) if terms.rounding else 0.0 for each in survey.maps])
        less, more = np.maximum(p_a - rounded, 0.0), np.minimum(p_b + rounded, 1.0)
        radius = signed_radius(form, less, more, sigma=terms.sigma, slopes=slopes)
        return np.where(p_a < 0, -np.inf, np.maximum(radius, _HOPELESS))

    # The ways are compared by R2, which is quick; other forms are tried in the best way and in the best one-sided one.
    simple = expected(R2(), np.arange(len(ways))[:, None])
    one_sided = np.array([not way.two_sided for way in ways])
    tried = np.stack([simple.argmax(axis=0), np.where(one_sided[:, None], simple, -np.inf).argmax(axis=0)])
    found = []
    for form in forms:
        each = np.stack([expected(form, rows) for rows in tried])
        chosen = tried[each.argmax(axis=0), columns]
        found.append(Forecast(form, each.max(axis=0), [ways[i] for i in chosen]))
    return found


def signed_radius(form: Form, low: Floats, high: Floats, *, sigma: float, slopes: Slopes) -> Floats:
    """The radius where low ≥ high; else minus the radius of the two swapped, which says how far low is behind."""
    size = form.radius(np.maximum(low, high), np.minimum(low, high), sigma=sigma, slopes=slopes)
    signed: Floats = np.where(low >= high, size, -size)
    return signed


def best(found: list[Forecast]) -> tuple[int, Forecast]:
    """The row of the candidate with the largest expected radius, and the forecast of its form; the first of equals."""
    top = max(found, key=lambda forecast: float(forecast.expected.max()))
    return int(top.expected.argmax()), top


def bounds_of(
    way: Way, means: Floats, variances: Floats, terms: Terms, rest: Floats | None = None
) -> tuple[Floats, Floats]:
    """Forecast the bounds that n samples give on the top class and on its strongest rival.

    Args:
        way: the way of bounding.
        means: mean score of each class for each candidate (candidates, classes), the largest first.
        variances: the variances of these scores.
        terms: the terms of the certificate.
        rest: for each candidate, the mean of all scores together that are not among the means.
    """
    risk_top = terms.alpha * way.share
    low = way.bound.forecast(means[:, 0], variances[:, 0], terms.n, risk_top)
    if not way.two_sided:
        return low, 1 - low
    alone = way.bound.alone(range(1, means.shape[1]), others=1)
    mean, variance = _pooled(means[:, 1:], variances[:, 1:], None if alone is None else len(alone), rest)
    upper = 1 - way.bound.forecast(1 - mean, variance, terms.n, terms.alpha - risk_top)
    return low, np.minimum(upper.max(axis=1), 1 - low)


def _pooled(means: Floats, variances: Floats, alone: int | None, rest: Floats | None) -> tuple[Floats, Floats]:
    """Moments of the first ``alone`` rivals and of the sum of the others, which gets its largest possible variance."""
    if alone is None:
        return means, variances
    more = np.zeros(len(means)) if rest is None else rest
    mean = np.clip(means[:, alone:].sum(axis=1, keepdims=True) + more[:, None], 0.0, 1.0)
    spread = np.sqrt(variances[:, alone:]).sum(axis=1, keepdims=True) + np.sqrt(more * (1 - more))[:, None]
    variance = np.minimum(spread**2, mean * (1 - mean))
    return np.hstack([means[:, :alone], mean]), np.hstack([variances[:, :alone], variance])


@lru_cache(maxsize=8)  # the candidates are mostly the same for all inputs
def _slopes(maps: tuple[SimplexMap, ...], lipschitz: float) -> Slopes:
    """The Lipschitz constants of all candidates, as arrays."""
    each = [one.slopes(lipschitz) for one in maps]
    return Slopes(np.array([slopes.vector for slopes in each]), np.array([slopes.one for slopes in each]))
