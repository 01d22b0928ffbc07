"""LVM-RS (Delattre et al. 2024): chooses a map and temperature for each input.

The paper compares maps and temperatures by the radius that n0 samples would certify, with empirical Bernstein bounds
and R2. Here they are compared by the radius that n samples should certify, which does not over-penalise variance, and
the search also goes over bounds, one or two sides, and forms of the radius.

**When soft maps help.** If a Lipschitz constant of the network is known, they help nearly always, since hardmax has no
constant. Otherwise they rarely help: on the networks of docs/planners.md the best map for infinitely many samples was
hardmax or within .0001 of it, and soft maps help only inputs close to a tie, where their smaller variance certifies a
little more. The best of a hundred forecasts is then mostly due to chance. So without a constant, a soft map is chosen
only if its forecast exceeds that of votes by more than four standard errors of the difference, measured on the same
samples (the best of a hundred candidates often exceeds it by two or three by chance).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from lvmrs.kernel.checks import Floats
from lvmrs.kernel.terms import Choice, Terms
from lvmrs.planners.base import Planner, check_search, keeps_constant
from lvmrs.planners.search import (
    MANY_CLASSES,
    TEMPERATURES,
    Forecast,
    ScoreMoments,
    best,
    bounds_of,
    forecasts,
    forms_for,
    signed_radius,
)

# The forecast of a soft map must exceed that of votes by this many standard errors.
_BEYOND_NOISE = 4.0
# Radii beyond this many σ count as equal: no number of samples certifies them without a Lipschitz constant.
_FAR = 40.0
# Two candidates are compared on at most this many selection samples.
_COMPARED = 4096


@dataclass(frozen=True)
class LVM(Planner):
    """Chooses the map, temperature, bound and form of the radius with the largest forecast for this input.

    If hardmax is among the maps and no Lipschitz constant is known, a soft map is chosen only if it is better by more
    than the standard error of the forecast allows.
    """

    maps: tuple[str, ...] = ("hardmax", "softmax", "sparsemax")
    """Names of the simplex maps to try."""
    temperatures: tuple[float, ...] = TEMPERATURES
    """Temperatures to try for each soft map."""
    mass: float = 1.0
    """The sum of the scores of a map."""
    bounds: tuple[str, ...] = ("clopper_pearson", "betting", "bernstein", "hoeffding")
    """Names of the bounds to try; if one is for 0/1 scores only, votes use that one."""

    settled: ClassVar[Mapping[str, str]] = {
        "form": "the one with the largest forecast is taken for each input (method fixed takes one)",
        "width": "a width is for duels",
    }

    def __post_init__(self) -> None:
        check_search(self.maps, self.temperatures, self.mass, self.bounds, usual=TEMPERATURES)

    @property
    def uses_constant(self) -> bool:
        """Whether one of the maps preserves a Lipschitz constant."""
        return any(map(keeps_constant, self.maps))

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """Choose the candidate with the largest forecast, or votes if the difference may be chance."""
        compared: list[Tensor] = []
        moments = ScoreMoments.of(
            _remembered(logits, compared),
            maps=self.maps,
            temperatures=self.temperatures,
            mass=self.mass,
            most=MANY_CLASSES,
        )
        found = forecasts(moments, terms, bounds=self.bounds, forms=forms_for(terms))
        row, forecast = best(found)
        votes = next((k for k, each in enumerate(moments.maps) if each.binary), None)
        uses_constant = forecast.form.uses_constant and not math.isinf(moments.maps[row].slopes(terms.lipschitz).vector)
        if votes is not None and row != votes and not uses_constant:
            plain = max(found, key=lambda each: float(each.expected[votes]))
            gain = forecast.expected[row] - plain.expected[votes]
            effects = (_effects(moments, at, each, terms, compared) for at, each in ((row, forecast), (votes, plain)))
            noise = np.subtract(*effects).std(ddof=1) / np.sqrt(moments.n0) if moments.n0 > 1 else np.inf
            if gain <= _BEYOND_NOISE * noise:
                row, forecast = votes, plain
        return forecast.choice(moments, row, terms)


def _remembered(batches: Iterable[Tensor], into: list[Tensor]) -> Iterator[Tensor]:
    """Yield the batches, and copy the first samples to ``into``."""
    for batch in batches:
        room = _COMPARED - sum(map(len, into))
        if room > 0:
            into.append(batch[:room].clone())
        yield batch


def _effects(moments: ScoreMoments, row: int, forecast: Forecast, terms: Terms, compared: list[Tensor]) -> Floats:
    """The effect of each selection sample on the forecast of a candidate, to first order (the delta method)."""
    bounding = forecast.boundings[row]
    at = [[column for column in moments.order[row][:3] if column < len(moments.kept)][:2]]
    top, rival = moments.ranked(row)[:2]
    mean, variance = np.repeat(moments.mean[row][at], 5, axis=0), np.repeat(moments.variance[row][at], 5, axis=0)
    step = np.maximum(np.sqrt(variance[0] / moments.n0), 2 / terms.n)  # counts come in steps of 1/n
    mean += np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]]) * step
    low, high = bounds_of(bounding, np.clip(mean, 0.0, 1.0), variance, terms)
    slopes = moments.maps[row].slopes(terms.lipschitz)
    low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    radius = signed_radius(forecast.form, low, high, sigma=terms.sigma, slopes=slopes)
    radius = np.clip(radius, -_FAR * terms.sigma, _FAR * terms.sigma)
    gradient = (radius[[1, 3]] - radius[[2, 4]]) / (2 * step)
    scores = moments.maps[row].columns(torch.cat(compared), top, torch.tensor([rival]), torch.tensor([]).long())
    effects: Floats = scores.cpu().double().numpy() @ gradient
    return effects
