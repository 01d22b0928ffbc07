"""The radius that n samples should certify, guessed from the moments of n0 samples, for many candidate plans at once.

Nothing here needs to be right: a bad forecast costs radius, never soundness. The widths are those of n, not of n0: a
candidate with more variance loses only what it will really lose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from lvmrs import lipschitz as constants
from lvmrs import radius as radii
from lvmrs._checks import Floats
from lvmrs.confidence import clopper_pearson
from lvmrs.plan import BoundName, Plan, RadiusName, Scope, Terms
from lvmrs.planners.survey import Survey
from lvmrs.sampling import Stream

__all__ = ["Forecast", "Layout", "best", "forecasts", "layouts", "plan_of"]


@dataclass(frozen=True)
class Layout:
    """How rivals are grouped and the risk is split.

    The ``alone`` strongest rivals are bounded each alone and the rest together; 0 stands for no groups. The shares are
    those of the top class and of the strongest rival in the risk; the other groups have what is left.
    """

    alone: int
    share_top: float
    share_first: float

    def risks(self, alpha: float, classes: int) -> tuple[float, list[float]]:
        """The risk of the top class, and that of each group."""
        if self.alone == 0:
            return alpha, []
        others = min(self.alone, classes - 1) - 1 + (classes - 1 > self.alone)
        if others == 0:
            return alpha / 2, [alpha / 2]
        rest = (1 - self.share_top - self.share_first) / others
        return alpha * self.share_top, [alpha * self.share_first] + [alpha * rest] * others


def layouts(classes: int) -> list[Layout]:
    """The ways that are tried: no groups, or 1, 2, 3, 5 or 9 rivals alone, with the risk split evenly or unevenly."""
    found = [Layout(0, 1.0, 0.0)]
    for alone in (1, 2, 3, 5, 9):
        if alone <= classes - 1:
            groups = alone + (classes - 1 > alone)
            found += [Layout(alone, 1 / (1 + groups), 1 / (1 + groups)), Layout(alone, 0.45, 0.45)]
    return found


@dataclass(frozen=True)
class Forecast:
    """What one form of the radius should give each candidate of a survey, proved in the way that suits it best."""

    form: RadiusName
    expected: Floats
    """The radius; where none is expected, the margin by which it fails, which is negative."""
    layouts: list[Layout]
    bounds: list[BoundName]


def forecasts(
    survey: Survey, terms: Terms, *, bounds: Sequence[BoundName], forms: Sequence[RadiusName]
) -> list[Forecast]:
    """For each form, the best way of each candidate. Hardmax is bounded by Clopper–Pearson, other maps by ``bounds``.

    The ways are compared by R2, which is quick; other forms are then computed for the winner and for no groups.
    """
    ways = [(layout, bound) for layout in layouts(survey.mean.shape[1]) for bound in ("clopper_pearson", *bounds)]
    ranked = _ranked(survey)
    low, high = (np.stack(side) for side in zip(*(_bounds(*ranked, terms, *way) for way in ways), strict=True))
    simple = np.where(low >= 0, _expected("r2", survey, terms, low, high), -np.inf)
    winner = simple.argmax(axis=0)
    lone = simple[: 1 + len(bounds)].argmax(axis=0)  # the first layout has no groups
    found = []
    for form in forms:
        choice, expected = winner, simple.max(axis=0)
        if form != "r2":
            columns = np.arange(low.shape[1])
            tried = np.stack([winner, lone])
            each = _expected(form, survey, terms, low[tried, columns], high[tried, columns])
            choice, expected = tried[each.argmax(axis=0), columns], each.max(axis=0)
        picked = [ways[way] for way in choice]
        found.append(Forecast(form, expected, [layout for layout, _ in picked], [bound for _, bound in picked]))
    return found


def best(found: list[Forecast]) -> tuple[int, Forecast]:
    """The candidate and the form with the largest expected radius; the first of equals."""
    top = max(found, key=lambda forecast: float(forecast.expected.max()))
    return int(top.expected.argmax()), top


def plan_of(
    survey: Survey, row: int, forecast: Forecast, terms: Terms, *, planner: str, origin: Stream | None, scope: Scope
) -> Plan:
    """The plan that a forecast speaks of."""
    order = [int(k) for k in np.argsort(-survey.mean[row], kind="stable")]
    layout = forecast.layouts[row]
    risk_top, risk_groups = layout.risks(terms.alpha, len(order))
    alone = layout.alone
    groups: list[tuple[int, ...]] = [(k,) for k in order[1 : 1 + alone]]
    if alone and order[1 + alone :]:
        groups.append(tuple(sorted(order[1 + alone :])))
    return Plan(
        planner=planner,
        top=order[0],
        classes=len(order),
        map=survey.maps[row],
        bound=forecast.bounds[row],
        radius="r3" if forecast.form == "r2" and not groups else forecast.form,
        risk_top=risk_top,
        groups=tuple(groups),
        risk_groups=tuple(risk_groups),
        temperature=float(survey.temperatures[row]),
        mass=survey.mass,
        origin=origin,
        scope=scope,
    )


def _ranked(survey: Survey) -> tuple[NDArray[np.bool_], Floats, Floats]:
    """Which candidates are hardmax; their means and variances, largest mean first, as shares of the mass."""
    hard = np.array([name == "hardmax" for name in survey.maps])
    order = np.argsort(-survey.mean, axis=1, kind="stable")
    means = np.take_along_axis(survey.mean, order, axis=1) / survey.mass
    return hard, means, np.take_along_axis(survey.variance, order, axis=1) / survey.mass**2


def _bounds(
    hard: NDArray[np.bool_], means: Floats, variances: Floats, terms: Terms, layout: Layout, bound: BoundName
) -> tuple[Floats, Floats]:
    """Bounds on the top class and its rivals that n samples should give; −1 for candidates that it is not meant for."""
    meant = hard == (bound == "clopper_pearson")
    low, high = np.full((2, len(hard)), -1.0)
    if meant.any():
        risk_top, risk_groups = layout.risks(terms.alpha, means.shape[1])
        mean, variance = _grouped(means[meant], variances[meant], layout)
        low[meant] = _lower(mean[:, 0], variance[:, 0], terms.n, risk_top, bound)
        high[meant] = 1 - low[meant]
        if layout.alone:
            upper = 1 - _lower(1 - mean[:, 1:], variance[:, 1:], terms.n, np.array(risk_groups), bound)
            high[meant] = np.minimum(high[meant], upper.max(axis=1))
    return low, high


def _grouped(means: Floats, variances: Floats, layout: Layout) -> tuple[Floats, Floats]:
    """Means and variances of the top class and of each group. Of a sum, the largest variance that it can have."""
    apart = 1 + layout.alone
    if layout.alone == 0 or means.shape[1] == apart:
        return means[:, :apart], variances[:, :apart]
    mean = np.clip(means[:, apart:].sum(axis=1, keepdims=True), 0.0, 1.0)
    variance = np.minimum(np.sqrt(variances[:, apart:]).sum(axis=1, keepdims=True) ** 2, mean * (1 - mean))
    return np.hstack([means[:, :apart], mean]), np.hstack([variances[:, :apart], variance])


def _lower(mean: Floats, variance: Floats, n: int, risk: Floats | float, bound: BoundName) -> Floats:
    """The lower bound that n samples of this mean and variance would give, about."""
    mean = np.clip(mean, 0.0, 1.0)
    log = np.log(1 / np.asarray(risk))
    if bound == "clopper_pearson":
        return clopper_pearson.lower(np.floor(mean * n), n, risk)
    if bound == "hoeffding":
        width = np.sqrt(log / (2 * n))
    elif bound == "bernstein":
        width = np.sqrt(2 * variance * np.log(2 / np.asarray(risk)) / n) + 7 * np.log(2 / np.asarray(risk)) / (3 * n)
    else:  # betting: the normal width, and for next to no variance that of a sample without any
        width = np.hypot(-special.ndtri(risk) * np.sqrt(variance / n), mean * log / n)
    lower: Floats = np.maximum(mean - width, 0.0)
    return lower


def _expected(form: RadiusName, survey: Survey, terms: Terms, low: Floats, high: Floats) -> Floats:
    """Radii of (ways, candidates), or how much is missing where there is none."""
    p_a, p_b = np.maximum(low, 0.0), np.maximum(high, 0.0)
    if form == "r2":
        value = radii.r2(p_a, p_b, sigma=terms.sigma)
    elif form == "ramp":
        vector, one = _slopes(survey, terms.lipschitz, "vector"), _slopes(survey, terms.lipschitz, "class")
        value = radii.ramp(p_a, p_b, sigma=terms.sigma, lipschitz=vector, class_lipschitz=one)
    else:
        slope = _slopes(survey, terms.lipschitz if form == "r1" else math.inf, "vector")
        value = radii.r1(p_a, p_b, lipschitz=constants.smoothed(slope, sigma=terms.sigma, of="vector"))
    expected: Floats = np.where(value > 0, value, np.minimum(low - high, 0.0))
    return expected


def _slopes(survey: Survey, lipschitz: float, kind: constants.Kind) -> Floats:
    """Lipschitz constants of the candidates' scores, as shares of the mass."""
    slopes = np.full(len(survey.maps), np.inf)
    for name in set(survey.maps):
        rows = [i for i, candidate in enumerate(survey.maps) if candidate == name]
        at = survey.temperatures[rows]
        slopes[rows] = constants.of_map(name, lipschitz, of=kind, temperature=at, mass=survey.mass) / survey.mass
    return slopes
