"""The search for the nearest point at which a certified class does not win.

At each distance ε, projected gradient ascent in the Euclidean ball (Madry et al. 2018; for smoothed classifiers Salman
et al. 2019) searches for the point with the largest lead of a rival. The search begins at the certified radius, and
doubles the distance until a rival is ahead. Then it searches along the line from the input to that point, and again in
the smaller ball.

**The risk.** The finding for an input is wrong with probability at most β. Each test uses fresh samples, and the j-th
test has the risk β/2ʲ, so that the risk of all tests together is at most β, however the search chose the points.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from types import NoneType

import numpy as np
import torch
from torch import Tensor

from lvmrs.attacks.targets import AttackTarget, Lead, Network, Search, Smoothed
from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks
from lvmrs.kernel.maps import Map
from lvmrs.kernel.noise import GAUSSIAN
from lvmrs.smoothed import SmoothedClassifier

# Points lie inside the ball by this factor, so that rounding does not move them outside.
_WITHIN = 1 - 1e-6
# The number of searches in smaller balls, the relative difference below which two distances count as equal, and the
# number of evaluations along a line.
_ROUNDS, _SAME, _EVALUATIONS = 3, 0.01, 8
# The number of tests for one input, each at a larger distance, and the number of standard errors by which the estimated
# lead must exceed the threshold of the first test. That number doubles with each further test.
_TESTS, _SURPLUS = 5, 2.5


@dataclass(frozen=True, eq=False)
class Finding:
    """The result of an attack on one input."""

    distance: float | None
    """The distance of the nearest point at which a test showed that the class does not win; None if there is none."""
    rival: int | None
    """The rival that is ahead at that point."""
    point: Tensor | None
    """The point itself."""
    samples: int
    """The number of forward passes of the attack, with and without gradients."""


def attack(
    smoothed: SmoothedClassifier,
    x: Tensor,
    top: int,
    radius: float,
    map_: Map | None,
    search: Search | None = None,
    *,
    index: int = 0,
) -> Finding:
    """Search for the nearest point at which a certified class does not win.

    Args:
        smoothed: the smoothed classifier that was certified.
        x: the input, without a batch dimension.
        top: the class that was certified.
        radius: its certified radius.
        map_: the map of the certificate. None: the certificate is about the network itself, without noise.
        search: the settings; by default ``Search()``.
        index: the index of the input in its data set; the noise depends on the index and the seed.

    Returns:
        The nearest point that passed the test. If its distance is below the radius, the certificate is wrong.

    >>> from lvmrs.kernel.maps import Duel
    >>> smoothed = SmoothedClassifier(torch.nn.Identity(), sigma=0.5, batch=1000)  # the input is the pair of logits
    >>> found = attack(smoothed, torch.tensor([1.0, 0.0]), 0, 0.6, Duel())
    >>> found.rival, 0.70 < found.distance < 0.78  # the decision boundary is 1/√2 away
    (1, True)
    """
    checks.instance("smoothed", smoothed, SmoothedClassifier, "a SmoothedClassifier")
    checks.instance("map_", map_, (Map, NoneType), "a map such as Duel(), or None")
    search = Search() if search is None else search
    checks.instance("search", search, Search, "a Search")
    radius, index = checks.positive_number("radius", radius), checks.seed("index", index)
    top = checks.count("top", top, least=0, most=smoothed.classes(x) - 1)
    sampler, x = smoothed.sampler(x)
    if map_ is None:
        target: AttackTarget = Network(sampler, top)
        scale, levels = radius, None
    else:
        if smoothed.noise.distance != GAUSSIAN.distance:
            raise InvalidArgumentError(
                f"attacks search in {GAUSSIAN.distance}, and radii of {smoothed.noise.name} noise are measured in "
                f"{smoothed.noise.distance}"
            )
        target = Smoothed(sampler, top, map_, search, index)
        scale, levels = smoothed.sigma, getattr(smoothed.noise, "levels", None)
        x = x if levels is None else torch.round(x * levels) / levels  # the point that was certified
    input_search = _InputSearch(x, target, search, np.random.default_rng((search.seed, index)), scale / 4, levels)
    far = 16 * max(radius, scale) if search.farthest is None else search.farthest
    return input_search.nearest(radius, first=max(radius, scale / 4), farthest=far)


@dataclass(frozen=True, eq=False)
class _Candidate:
    point: Tensor
    offset: Tensor
    """The difference of point and input before the point was rounded to a grid."""
    distance: float
    lead: Lead


class _InputSearch:
    """The search for one input."""

    def __init__(
        self,
        x: Tensor,
        target: AttackTarget,
        search: Search,
        random: np.random.Generator,
        scale: float,
        levels: int | None,
    ) -> None:
        self.x, self.target, self.search, self.random = x, target, search, random
        self.scale, self.levels = scale, levels
        self.rivals = target.start(x)
        self.tests, self.surplus = 0, _SURPLUS
        self.value_at_x = target.lead(x, self._next_risk(), self.surplus).value
        self.best: _Candidate | None = None

    def nearest(self, radius: float, *, first: float, farthest: float) -> Finding:
        """Search inside the radius, then outside."""
        found = self._inside(radius)
        reach = first
        while found.lead.value < 0 and reach < farthest:
            reach = min(2 * reach, farthest)
            found = self._strongest(reach)
        if found.lead.value >= 0:
            self._confirm_near(self._closest(found), farthest)
        best = self.best
        if best is None:
            return Finding(None, None, None, self.target.samples)
        return Finding(best.distance, best.lead.rival, best.point, self.target.samples)

    def _inside(self, radius: float) -> _Candidate:
        """The point with the largest lead inside the radius; tests the point if a rival is ahead."""
        epsilon = radius * _WITHIN
        found = self._strongest(epsilon)
        while found.distance >= radius and epsilon > radius / 2:  # rounding to a grid moved it outside
            epsilon *= 0.98
            found = self._at(found.offset * (epsilon / float(found.offset.norm())))
        if found.lead.ahead and found.distance < radius:
            self._confirm(found)
        return found

    def _closest(self, found: _Candidate) -> _Candidate:
        """Alternate searches along the line and in the smaller ball, while the distance decreases."""
        found = self._along(found)
        for _ in range(_ROUNDS):
            again = self._strongest(found.distance * _WITHIN, found.lead.rival)
            if again.lead.value < 0:
                return found
            nearer = self._along(again)
            if nearer.distance > found.distance * (1 - _SAME):
                return min(found, nearer, key=lambda candidate: candidate.distance)
            found = nearer
        return found

    def _confirm_near(self, found: _Candidate, farthest: float) -> None:
        """Test the point, and if the test fails, points at slightly larger distances on the same line."""
        for _ in range(_TESTS):
            if self.best is not None and found.distance >= self.best.distance:
                return
            if self._confirm(found):
                return
            self.surplus *= 2
            beyond = found
            while beyond.lead.value < 0 or beyond is found:
                beyond = self._at(beyond.offset * 1.2)
                if beyond.distance > farthest:
                    return
            found = self._along(beyond)

    def _confirm(self, found: _Candidate) -> bool:
        risk = self._next_risk()
        self.tests += 1
        if not self.target.misclassified(found.point, found.lead.rival, risk):
            return False
        self.best = found
        return True

    def _next_risk(self) -> float:
        return self.search.beta / 2.0 ** (self.tests + 1)

    def _strongest(self, epsilon: float, goal: int | None = None) -> _Candidate:
        """The end point with the largest lead, over all ascents within the distance ``epsilon``.

        The first ascent begins at the input and increases the lead of the rival ``goal``; without a goal, that of the
        rival with the largest lead at each step. The others begin at random points, and each increases the lead of one
        rival, the strongest first.
        """
        still = torch.zeros_like(self.x)
        ends = [self._ascend(epsilon, still, goal)]
        for _, rival in zip(range(self.search.restarts - 1), itertools.cycle(self.rivals), strict=False):
            ends.append(self._ascend(epsilon, self._direction() * (epsilon / 4), rival))
        return max((self._at(end) for end in ends), key=lambda candidate: candidate.lead.value)

    def _ascend(self, epsilon: float, offset: Tensor, rival: int | None) -> Tensor:
        """The end point of normalised gradient steps, which become shorter and stay in the ball."""
        steps = self.search.steps
        for step in range(steps):
            slope = self.target.gradient(self._point(offset), rival).to(offset.dtype)
            size = float(slope.norm())
            towards = slope / size if size > 0 else self._direction()
            offset = offset + towards * (4 * epsilon * (steps - step) / (steps * (steps + 1)))
            offset = self._allowed(offset)
            offset = offset * min(1.0, epsilon / max(float(offset.norm()), torch.finfo(offset.dtype).tiny))
        return offset

    def _direction(self) -> Tensor:
        drawn: Tensor = torch.from_numpy(self.random.standard_normal(tuple(self.x.shape))).to(self.x)
        length: Tensor = drawn.norm()
        return drawn / length

    def _along(self, found: _Candidate) -> _Candidate:
        """The nearest point on the line to ``found`` at which the estimated lead is enough for a test."""
        low, at_low = 0.0, self.value_at_x
        high, best = 1.0, found
        for _ in range(_EVALUATIONS):
            if (high - low) * found.distance <= _SAME * max(high * found.distance, self.scale):
                break
            guess = high - (high - low) * best.lead.value / max(best.lead.value - at_low, 1e-300)
            share = min(max(guess, low + 0.1 * (high - low)), high - 0.1 * (high - low))
            middle = self._at(found.offset * share)
            if middle.lead.value >= 0:
                high, best = share, middle
            else:
                low, at_low = share, middle.lead.value
        return best

    def _at(self, offset: Tensor) -> _Candidate:
        point = self._point(offset)
        distance = float((point.cpu().double() - self.x.cpu().double()).norm())
        return _Candidate(point, offset, distance, self.target.lead(point, self._next_risk(), self.surplus))

    def _allowed(self, offset: Tensor) -> Tensor:
        return (self.x + offset).clamp(0, 1) - self.x if self.search.clip else offset

    def _point(self, offset: Tensor) -> Tensor:
        """The point for an offset: rounded to the grid if the noise has one, and in [0, 1] if the settings say so."""
        point = self.x + self._allowed(offset)
        return point if self.levels is None else torch.round(point * self.levels) / self.levels
