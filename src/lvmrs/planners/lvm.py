"""LVM-RS (Delattre et al. 2024), choosing by the radius that n samples should certify.

The paper searches maps and temperatures by the radius that n0 samples would certify, with empirical Bernstein bounds
and R2. Here the search goes over more (bounds, one or two sides, forms of the radius) and is judged by the widths of n,
which does not over-penalise variance.

**When soft maps pay.** With a Lipschitz constant of the network, nearly always: hardmax has none. Without one, rarely:
on the networks of docs/planners.md the best map for infinitely many samples was hardmax or within .0001 of it, and soft
maps help inputs that are close to a tie, where their smaller variance certifies a little more. The best of a hundred
forecasts is then mostly the luckiest one. So without a constant votes are left only where the gain exceeds what the
selection sample can tell from noise: four standard errors of the difference, measured on the same samples (the best
of a hundred candidates is often two or three ahead by chance).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lvmrs._checks import Floats
from lvmrs.plan import Choice, Terms
from lvmrs.planners.base import Planner, check_search
from lvmrs.planners.forecast import Forecast, best, bounds_of, forecasts, forms_for, signed_radius
from lvmrs.planners.survey import TEMPERATURES, Survey

__all__ = ["LVM"]

# Standard errors by which a soft map must promise more than votes.
_BEYOND_NOISE = 4.0
# Radii beyond so many σ are not told apart: no number of samples certifies them without a Lipschitz constant.
_FAR = 40.0
# Selection samples on which two candidates are compared.
_COMPARED = 4096


@dataclass(frozen=True)
class LVM(Planner):
    """The map, temperature, bound and form of the radius with the largest forecast for this input.

    With hardmax among the maps and no Lipschitz constant, votes are left only for a gain beyond the noise of the
    forecast. Votes are bounded by Clopper–Pearson, which is exact, soft maps by the best of the ``bounds``.
    """

    maps: tuple[str, ...] = ("hardmax", "softmax", "sparsemax")
    temperatures: tuple[float, ...] = TEMPERATURES
    mass: float = 1.0
    bounds: tuple[str, ...] = ("betting", "bernstein", "hoeffding")

    def __post_init__(self) -> None:
        check_search(self.maps, self.temperatures, self.mass, self.bounds)

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """The candidate with the largest forecast, or votes where that is not sure to be more."""
        compared: list[Tensor] = []
        survey = Survey.of(
            _remembered(logits, compared), maps=self.maps, temperatures=self.temperatures, mass=self.mass
        )
        found = forecasts(survey, terms, bounds=self.bounds, forms=forms_for(terms))
        row, forecast = best(found)
        votes = next((k for k, each in enumerate(survey.maps) if each.binary), None)
        uses_constant = forecast.form.uses_constant and not math.isinf(survey.maps[row].slopes(terms.lipschitz).vector)
        if votes is not None and row != votes and not uses_constant:
            plain = max(found, key=lambda each: float(each.expected[votes]))
            gain = forecast.expected[row] - plain.expected[votes]
            effects = (_effects(survey, at, each, terms, compared) for at, each in ((row, forecast), (votes, plain)))
            noise = np.subtract(*effects).std(ddof=1) / np.sqrt(survey.n0) if survey.n0 > 1 else np.inf
            if gain <= _BEYOND_NOISE * noise:
                row, forecast = votes, plain
        return forecast.choice(survey, row, terms)


def _remembered(batches: Iterable[Tensor], into: list[Tensor]) -> Iterator[Tensor]:
    """The batches as they pass; the first samples are kept."""
    for batch in batches:
        room = _COMPARED - sum(map(len, into))
        if room > 0:
            into.append(batch[:room].clone())
        yield batch


def _effects(survey: Survey, row: int, forecast: Forecast, terms: Terms, compared: list[Tensor]) -> Floats:
    """What each selection sample adds to the forecast of a candidate, to first order (the delta method)."""
    top, rival = survey.order[row][:2]
    way, at = forecast.ways[row], [[top, rival]]
    mean, variance = np.repeat(survey.mean[row][at], 5, axis=0), np.repeat(survey.variance[row][at], 5, axis=0)
    step = np.maximum(np.sqrt(variance[0] / survey.n0), 2 / terms.n)  # counts come in steps of 1/n
    mean += np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]]) * step
    low, high = bounds_of(way, np.clip(mean, 0.0, 1.0), variance, terms)
    slopes = survey.maps[row].slopes(terms.lipschitz)
    low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    radius = signed_radius(forecast.form, low, high, sigma=terms.sigma, slopes=slopes)
    radius = np.clip(radius, -_FAR * terms.sigma, _FAR * terms.sigma)
    gradient = (radius[[1, 3]] - radius[[2, 4]]) / (2 * step)
    scores = survey.maps[row].columns(torch.cat(compared), int(top), torch.tensor([rival]), torch.tensor([]).long())
    effects: Floats = scores.cpu().double().numpy() @ gradient
    return effects
