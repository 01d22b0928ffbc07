"""The classifier that a certificate is about, as an attack meets it: smoothed by a map, or the network itself."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lvmrs.attacks.defeat import rivals_of, scores_against, shown
from lvmrs.attacks.gradient import pull
from lvmrs.attacks.settings import Search
from lvmrs.kernel import special as special
from lvmrs.kernel.checks import Floats
from lvmrs.kernel.maps import Map
from lvmrs.kernel.noise import Stream
from lvmrs.kernel.sampler import Sampler, check_logits

__all__ = ["Lead", "Network", "Opponent", "Smoothed"]

# The search looks at a tenth of the samples that a finding is judged on, but not at fewer than this if there are more.
_LEAST_LOOKED_AT = 500
# The network itself is asked for the gradients of so many rivals first.
_NEAREST = 10


class Lead(NamedTuple):
    """How far the strongest rival is ahead of the certified class at a point, as the search estimates it."""

    value: float
    """Positive where a judgement is likely to show that the certified class does not win."""
    ahead: bool
    """Whether the rival is ahead at all."""
    rival: int


class Opponent(ABC):
    """What an attack may ask of a classifier; it counts the samples that it runs."""

    def __init__(self, sampler: Sampler, top: int) -> None:
        self.sampler, self.top, self.samples = sampler, top, 0

    @abstractmethod
    def lead(self, x: Tensor, risk: float, surplus: float) -> Lead:
        """Estimate who is ahead at a point.

        Args:
            x: the point.
            risk: the risk of the judgement that would follow.
            surplus: by how many standard errors the rival should be ahead beyond what that judgement needs.
        """

    @abstractmethod
    def pull(self, x: Tensor, rival: int | None) -> Tensor:
        """The direction in which a rival comes forward fastest; None for the rival that is nearest to winning."""

    @abstractmethod
    def beaten(self, x: Tensor, rival: int, risk: float) -> bool:
        """Whether the certified class does not win at a point, since this rival is ahead; wrong with this risk."""

    @abstractmethod
    def start(self, x: Tensor) -> list[int]:
        """Get ready for an attack that begins at this point, and give all rivals, the hardest first."""


class Smoothed(Opponent):
    """A classifier smoothed by a map.

    The search looks at all points under the same noise (the first samples of the stream "attack"), so that points can
    be compared. Each gradient has fresh noise of that stream, and each judgement fresh noise of "confirmation".
    """

    def __init__(self, sampler: Sampler, top: int, map_: Map, search: Search, index: int) -> None:
        super().__init__(sampler, top)
        self._map, self._search = map_, search
        self._looking, self._judging = (Stream(search.seed, index, stage) for stage in ("attack", "confirmation"))
        self._looked_at = max(search.n // 10, min(search.n, _LEAST_LOOKED_AT))
        self._next_pull, self._next_judged = self._looked_at, 0
        self._temperature = 1.0

    def _scores(self, x: Tensor, stream: Stream, n: int, first: int, rivals: list[int] | None) -> Floats:
        self.samples += n
        batches = self.sampler.logits(x, stream, n, first=first)
        return np.concatenate(
            [
                scores_against(self._map, batch, self.top, rivals or rivals_of(self.top, batch.shape[1]))
                for batch in batches
            ]
        )

    def lead(self, x: Tensor, risk: float, surplus: float) -> Lead:
        """Compare the mean scores with what a judgement needs, both as normal quantiles.

        Under Gaussian noise the quantile of a mean changes about evenly along a line, so that crossings are found
        quickly.
        """
        scores = self._scores(x, self._looking, self._looked_at, 0, None)
        mean, spread = scores.mean(axis=0), scores.std(axis=0)
        errors = surplus - special.ndtri(min(risk, 0.5))
        needed = 0.5 + errors * np.maximum(spread, 1 / self._looked_at) / math.sqrt(self._search.n)
        half = 0.5 / self._looked_at
        value = special.ndtri(np.clip(mean, half, 1 - half)) - special.ndtri(np.minimum(needed, 1 - 0.9 * half))
        best = int(value.argmax())
        return Lead(float(value[best]), bool(mean[best] > 0.5), best + (best >= self.top))

    def start(self, x: Tensor) -> list[int]:
        """All rivals, by their mean scores, and by their margins where no sample tells them apart.

        The hardest margin says at which temperature gradients are taken.
        """
        self.samples += self._looked_at
        logits = torch.cat(list(self.sampler.logits(x, self._looking, self._looked_at)))
        rivals = rivals_of(self.top, logits.shape[1])
        mean = scores_against(self._map, logits, self.top, rivals).mean(axis=0)
        exact = logits.cpu().double().numpy()
        margins = exact[:, self.top : self.top + 1] - exact[:, rivals]
        spread = margins.std(axis=0)
        ease = margins.mean(axis=0) / np.maximum(spread, np.finfo(np.float64).tiny)
        order = np.lexsort((ease, -mean))
        self._temperature = self._usual_temperature(float(spread[order[0]]))
        return [rivals[k] for k in order]

    def _usual_temperature(self, spread: float) -> float:
        """The temperature of the map; where it has none, half the standard deviation of the hardest margin."""
        if self._map.tempered:
            # The ramp of a soft duel is as steep in the middle as a sigmoid of half its width.
            return self._map.temperature / 2 if self._map.paired else self._map.temperature
        return spread / 2 if spread > 0 else 1.0

    def pull(self, x: Tensor, rival: int | None) -> Tensor:
        """SmoothAdv's gradient over fresh noisy copies."""
        m, first = self._search.samples, self._next_pull
        self.samples, self._next_pull = self.samples + m, first + m
        copies = torch.cat([batch.clone() for batch in self.sampler.copies(x, self._looking, m, first=first)])
        return pull(self.sampler, copies, self.top, rival, self._temperature, paired=self._map.paired)

    def beaten(self, x: Tensor, rival: int, risk: float) -> bool:
        """Judge on fresh samples."""
        n, first = self._search.n, self._next_judged
        self._next_judged += n
        scores = self._scores(x, self._judging, n, first, [rival])
        return shown(self._map, scores[:, 0], risk)


class Network(Opponent):
    """The network itself, which certificates without noise are about; its answers need no samples and have no risk."""

    def _margins(self, x: Tensor) -> Tensor:
        """The lead of each class over the certified one; −∞ for that itself."""
        self.samples += 1
        logits = self.sampler.forward(x[None])
        check_logits(logits, 1, 0)
        margins = logits[0].cpu().double()
        margins = margins - margins[self.top]
        margins[self.top] = -math.inf
        return margins

    def lead(self, x: Tensor, risk: float, surplus: float) -> Lead:
        """The largest logit of a rival, less that of the certified class."""
        margins = self._margins(x)
        rival = int(margins.argmax())
        value = float(margins[rival])
        return Lead(value if value != 0 else -1e-300, value > 0, rival)

    def start(self, x: Tensor) -> list[int]:
        """All rivals; the first of them by how far away they are if the network were linear, the others by logits."""
        margins = self._margins(x)
        rivals: list[int] = margins.argsort(descending=True, stable=True)[:-1].tolist()
        slopes = {k: float(self.pull(x, k).norm()) for k in rivals[:_NEAREST]}
        near = sorted(slopes, key=lambda k: -float(margins[k]) / slopes[k] if slopes[k] > 0 else math.inf)
        return [*near, *rivals[_NEAREST:]]

    def pull(self, x: Tensor, rival: int | None) -> Tensor:
        """The gradient of the margin."""
        self.samples += 1
        return pull(self.sampler, x[None], self.top, rival, 1.0, paired=True)

    def beaten(self, x: Tensor, rival: int, risk: float) -> bool:
        """Whether the logit of the rival is larger."""
        return bool(self._margins(x)[rival] > 0)
