"""The search for the nearest point at which a certified class does not win.

At each distance ε, projected gradient ascent in the Euclidean ball (Madry et al. 2018; for smoothed classifiers Salman
et al. 2019) looks for the point where a rival is furthest ahead. It is tried at the certified radius, then further out
until a rival is ahead, then along the line to the point that was found, then again in the smaller ball.

**The risk.** What is said about an input is wrong with probability at most β. Each judgement is made on fresh samples,
the j-th at the risk β/2ʲ, so that all of them together have at most β, however the points were found.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from types import NoneType

import numpy as np
import torch
from torch import Tensor

from lvmrs.attacks.opponents import Lead, Network, Opponent, Smoothed
from lvmrs.attacks.settings import Search
from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks
from lvmrs.kernel.maps import Map
from lvmrs.kernel.noise import GAUSSIAN
from lvmrs.smoothed import SmoothedClassifier

__all__ = ["Finding", "attack"]

# How far inside the ball a point is put, so that rounding does not take it out.
_WITHIN = 1 - 1e-6
# How often the ball is made smaller, how near to each other two distances are the same, and how many looks that takes.
_ROUNDS, _SAME, _LOOKS = 3, 0.01, 8
# How often a finding is judged, each time further out, where the rival seems to be further ahead than a judgement
# needs: by so many standard errors at first, and by twice as many each time.
_JUDGEMENTS, _SURPLUS = 5, 2.5


@dataclass(frozen=True, eq=False)
class Finding:
    """What an attack found for one input."""

    distance: float | None
    """The distance of the nearest point at which it was shown that the class does not win; None if there is none."""
    rival: int | None
    """The rival that is ahead there."""
    point: Tensor | None
    """The point itself."""
    samples: int
    """Forward passes that this took, with and without gradients."""


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
    """Look for the nearest point at which a certified class does not win.

    Args:
        smoothed: the smoothed classifier that was certified.
        x: the input, without a batch dimension.
        top: the class that was certified.
        radius: its certified radius.
        map_: what is smoothed: the map that was chosen at x, if there was a choice. None for the network itself.
        search: the settings; by default those of ``Search()``.
        index: place of the input in its data set; the noise depends on it and on the seed.

    Returns:
        The nearest point that was shown. If its distance is below the radius, the certificate is broken.

    >>> from lvmrs.kernel.duels import Duel
    >>> smoothed = SmoothedClassifier(torch.nn.Identity(), sigma=0.5, batch=1000)  # two logits: the input itself
    >>> found = attack(smoothed, torch.tensor([1.0, 0.0]), 0, 0.6, Duel())
    >>> found.rival, 0.70 < found.distance < 0.78  # the decision boundary is 1/√2 away
    (1, True)
    """
    checks.instance("smoothed", smoothed, SmoothedClassifier, "a SmoothedClassifier")
    checks.instance("map_", map_, (Map, NoneType), "what is smoothed, such as Duel(), or None")
    search = Search() if search is None else search
    checks.instance("search", search, Search, "a Search")
    radius, index = checks.positive_number("radius", radius), checks.seed("index", index)
    top = checks.count("top", top, least=0, most=smoothed.classes(x) - 1)
    sampler, x = smoothed.sampler(x)
    if map_ is None:
        opponent: Opponent = Network(sampler, top)
        scale, levels = radius, None
    else:
        if smoothed.noise.distance != GAUSSIAN.distance:
            raise InvalidArgumentError(
                f"attacks search in {GAUSSIAN.distance}, and radii of {smoothed.noise.name} noise are measured in "
                f"{smoothed.noise.distance}"
            )
        opponent = Smoothed(sampler, top, map_, search, index)
        scale, levels = smoothed.sigma, getattr(smoothed.noise, "levels", None)
        x = x if levels is None else torch.round(x * levels) / levels  # the point that was certified
    hunt = _Hunt(x, opponent, search, np.random.default_rng((search.seed, index)), scale / 4, levels)
    far = 16 * max(radius, scale) if search.farthest is None else search.farthest
    return hunt.nearest(radius, first=max(radius, scale / 4), farthest=far)


@dataclass(frozen=True, eq=False)
class _Candidate:
    point: Tensor
    offset: Tensor
    """From the input towards the point, before it was rounded."""
    distance: float
    lead: Lead


class _Hunt:
    """The search for one input."""

    def __init__(
        self,
        x: Tensor,
        opponent: Opponent,
        search: Search,
        random: np.random.Generator,
        scale: float,
        levels: int | None,
    ) -> None:
        self.x, self.opponent, self.search, self.random = x, opponent, search, random
        self.scale, self.levels = scale, levels
        self.rivals = opponent.start(x)
        self.judged, self.surplus = 0, _SURPLUS
        self.value_at_x = opponent.lead(x, self._next_risk(), self.surplus).value
        self.best: _Candidate | None = None

    def nearest(self, radius: float, *, first: float, farthest: float) -> Finding:
        """Search inside the radius, then outside of it."""
        found = self._inside(radius)
        reach = first
        while found.lead.value < 0 and reach < farthest:
            reach = min(2 * reach, farthest)
            found = self._strongest(reach)
        if found.lead.value >= 0:
            self._shown_near(self._closest(found), farthest)
        best = self.best
        if best is None:
            return Finding(None, None, None, self.opponent.samples)
        return Finding(best.distance, best.lead.rival, best.point, self.opponent.samples)

    def _inside(self, radius: float) -> _Candidate:
        """The strongest point inside the radius; it is judged if a rival is ahead there at all."""
        epsilon = radius * _WITHIN
        found = self._strongest(epsilon)
        while found.distance >= radius and epsilon > radius / 2:  # rounded to a grid, it lies outside
            epsilon *= 0.98
            found = self._at(found.offset * (epsilon / float(found.offset.norm())))
        if found.lead.ahead and found.distance < radius:
            self._judge(found)
        return found

    def _closest(self, found: _Candidate) -> _Candidate:
        """Go along the line, and search again in the ball that is left, while that brings the point nearer."""
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

    def _shown_near(self, found: _Candidate, farthest: float) -> None:
        """Judge the point, and if the samples do not show it, points a little further out on the line."""
        for _ in range(_JUDGEMENTS):
            if self.best is not None and found.distance >= self.best.distance:
                return
            if self._judge(found):
                return
            self.surplus *= 2
            beyond = found
            while beyond.lead.value < 0 or beyond is found:
                beyond = self._at(beyond.offset * 1.2)
                if beyond.distance > farthest:
                    return
            found = self._along(beyond)

    def _judge(self, found: _Candidate) -> bool:
        risk = self._next_risk()
        self.judged += 1
        if not self.opponent.beaten(found.point, found.lead.rival, risk):
            return False
        self.best = found
        return True

    def _next_risk(self) -> float:
        return self.search.beta / 2.0 ** (self.judged + 1)

    def _strongest(self, epsilon: float, goal: int | None = None) -> _Candidate:
        """The best end of all ascents within this distance.

        The first begins at the input and goes for a rival that was ahead before; where there was none, for the one that
        is nearest to winning at each step. The others begin at random points, and each goes for one rival, the hardest
        first.
        """
        still = torch.zeros_like(self.x)
        ends = [self._ascend(epsilon, still, goal)]
        for _, rival in zip(range(self.search.restarts - 1), itertools.cycle(self.rivals), strict=False):
            ends.append(self._ascend(epsilon, self._direction() * (epsilon / 4), rival))
        return max((self._at(end) for end in ends), key=lambda candidate: candidate.lead.value)

    def _ascend(self, epsilon: float, offset: Tensor, rival: int | None) -> Tensor:
        """Where normalised steps along the gradient lead, which become shorter and stay in the ball."""
        steps = self.search.steps
        for step in range(steps):
            pulled = self.opponent.pull(self._point(offset), rival).to(offset.dtype)
            size = float(pulled.norm())
            towards = pulled / size if size > 0 else self._direction()
            offset = offset + towards * (4 * epsilon * (steps - step) / (steps * (steps + 1)))
            offset = self._allowed(offset)
            offset = offset * min(1.0, epsilon / max(float(offset.norm()), torch.finfo(offset.dtype).tiny))
        return offset

    def _direction(self) -> Tensor:
        """A random direction of length 1."""
        drawn: Tensor = torch.from_numpy(self.random.standard_normal(tuple(self.x.shape))).to(self.x)
        length: Tensor = drawn.norm()
        return drawn / length

    def _along(self, found: _Candidate) -> _Candidate:
        """The nearest point on the line to this one at which a rival is ahead by as much as a judgement needs."""
        low, at_low = 0.0, self.value_at_x
        high, best = 1.0, found
        for _ in range(_LOOKS):
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
        return _Candidate(point, offset, distance, self.opponent.lead(point, self._next_risk(), self.surplus))

    def _allowed(self, offset: Tensor) -> Tensor:
        return (self.x + offset).clamp(0, 1) - self.x if self.search.clip else offset

    def _point(self, offset: Tensor) -> Tensor:
        """The point that is run and judged: on the grid if the noise has one, in [0, 1] if that was asked for."""
        point = self.x + self._allowed(offset)
        return point if self.levels is None else torch.round(point * self.levels) / self.levels
