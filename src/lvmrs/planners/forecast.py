"""The radius that n samples should certify, guessed from the moments of n0 samples, for many candidate plans at once.

Nothing here needs to be right: a bad forecast costs radius, never soundness. The widths are those of n, not of n0: a
candidate with more variance loses only what it will really lose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
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
    """Expected radius of every candidate of a survey under one way of proving it."""

    layout: Layout
    bound: BoundName
    radius: RadiusName
    expected: Floats
    """Where no radius is expected, the margin by which it fails: negative."""


def forecasts(
    survey: Survey, terms: Terms, *, bounds: Sequence[BoundName], forms: Sequence[RadiusName]
) -> list[Forecast]:
    """Every combination that makes sense; hardmax is judged by Clopper–Pearson, the other maps by ``bounds``."""
    order = np.argsort(-survey.mean, axis=1, kind="stable")
    ranked = np.take_along_axis(survey.mean, order, axis=1) / survey.mass
    deviation = np.sqrt(np.take_along_axis(survey.variance, order, axis=1)) / survey.mass
    hard = np.array([name == "hardmax" for name in survey.maps])
    slopes = _slopes(survey, terms.lipschitz, "vector"), _slopes(survey, terms.lipschitz, "class")
    found = []
    for layout in layouts(survey.mean.shape[1]):
        means, variances = _grouped(ranked, deviation, layout)
        risk_top, risk_groups = layout.risks(terms.alpha, survey.mean.shape[1])
        risks = np.array([risk_top, *risk_groups])
        for bound in (*bounds, "clopper_pearson") if hard.any() else bounds:
            eligible = hard if bound == "clopper_pearson" else ~hard
            if not eligible.any():
                continue
            low = _lower(means[eligible, 0], variances[eligible, 0], terms.n, risk_top, bound)
            high = 1 - low
            if layout.alone:
                upper = 1 - _lower(1 - means[eligible, 1:], variances[eligible, 1:], terms.n, risks[1:], bound)
                high = np.minimum(high, upper.max(axis=1))
            for form in forms:
                if form == ("r2" if layout.alone == 0 else "r3"):  # these two are one without groups
                    continue
                expected = np.full(len(hard), -np.inf)
                value = _radius(form, terms.sigma, low, np.maximum(high, 0.0), *(slope[eligible] for slope in slopes))
                expected[eligible] = np.where(value > 0, value, np.minimum(low - high, 0.0))
                found.append(Forecast(layout, bound, form, expected))
    return found


def plan_of(
    survey: Survey, row: int, forecast: Forecast, terms: Terms, *, planner: str, origin: Stream | None, scope: Scope
) -> Plan:
    """The plan that a forecast speaks of."""
    order = [int(k) for k in np.argsort(-survey.mean[row], kind="stable")]
    risk_top, risk_groups = forecast.layout.risks(terms.alpha, len(order))
    alone = forecast.layout.alone
    groups: list[tuple[int, ...]] = [(k,) for k in order[1 : 1 + alone]]
    if alone and order[1 + alone :]:
        groups.append(tuple(sorted(order[1 + alone :])))
    return Plan(
        planner=planner,
        top=order[0],
        classes=len(order),
        map=survey.maps[row],
        bound=forecast.bound,
        radius=forecast.radius,
        risk_top=risk_top,
        groups=tuple(groups),
        risk_groups=tuple(risk_groups),
        temperature=float(survey.temperatures[row]),
        mass=survey.mass,
        origin=origin,
        scope=scope,
    )


def _grouped(ranked: Floats, deviation: Floats, layout: Layout) -> tuple[Floats, Floats]:
    """Means and variances of the top class and of each group. Of a sum, the largest variance that it can have."""
    if layout.alone == 0:
        return ranked[:, :1], deviation[:, :1] ** 2
    single = slice(0, 1 + layout.alone)
    means, variances = ranked[:, single], deviation[:, single] ** 2
    rest = slice(1 + layout.alone, None)
    if ranked[:, rest].shape[1]:
        mean = ranked[:, rest].sum(axis=1, keepdims=True)
        variance = np.minimum(deviation[:, rest].sum(axis=1, keepdims=True) ** 2, mean * (1 - mean))
        means, variances = np.hstack([means, mean]), np.hstack([variances, np.maximum(variance, 0.0)])
    return means, variances


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


def _slopes(survey: Survey, lipschitz: float, kind: constants.Kind) -> Floats:
    """Lipschitz constants of the candidates' scores, as shares of the mass."""
    slopes = np.full(len(survey.maps), np.inf)
    for name in set(survey.maps):
        rows = [i for i, candidate in enumerate(survey.maps) if candidate == name]
        at = survey.temperatures[rows]
        slopes[rows] = constants.of_map(name, lipschitz, of=kind, temperature=at, mass=survey.mass) / survey.mass
    return slopes


def _radius(form: RadiusName, sigma: float, low: Floats, high: Floats, vector: Floats, one: Floats) -> Floats:
    if form == "r3":
        value = radii.r3(low, sigma=sigma)
    elif form == "r2":
        value = radii.r2(low, high, sigma=sigma)
    elif form == "ramp":
        value = radii.ramp(low, high, sigma=sigma, lipschitz=vector, class_lipschitz=one)
    else:
        slope = vector if form == "r1" else np.full_like(vector, np.inf)
        value = radii.r1(low, high, lipschitz=constants.smoothed(slope, sigma=sigma, of="vector"))
    return np.atleast_1d(value)


def best(found: list[Forecast]) -> tuple[int, Forecast]:
    """The row and the way with the largest expected radius; the first of equals."""
    top = max(found, key=lambda forecast: float(forecast.expected.max()))
    return int(top.expected.argmax()), top
