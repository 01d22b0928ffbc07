"""The target of an attack: leads of rivals, their gradients, and the test that a class does not win at a point.

**The gradient** is that of the averaged softmax, as in SmoothAdv (Salman et al. 2019). Let p_k be the mean over noisy
copies of the softmax score of class k. The search increases log p_k − log p_A for a rival k of the certified class A.
This is the cross-entropy of the averaged scores with label A, minus that with label k; the mean is inside the
logarithm. For duels the softmax is over the two classes k and A only. The search uses the softmax also for hardmax and
hard duels, because these have no useful gradient.

**The test.** A certificate is about a map (``lvmrs.kernel.maps``) and a class A. For duels, A wins if it wins more than
half of its duels with each rival; for a map to the simplex, A wins if its mean score is the largest. So A does not win
if for *some* rival k the mean of a score in [0, 1] is above ½: the share of duels that A does not win, or
(1 + h_k − h_A)/2. The search chooses the rival on other samples. The test then bounds the mean from below on fresh
samples, at the given risk.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
import torch
from torch import Tensor
from torch.nn import functional

from lvmrs.errors import InvalidArgumentError, ModelError, shown
from lvmrs.kernel import checks
from lvmrs.kernel.bounds import betting, clopper_pearson
from lvmrs.kernel.checks import Floats
from lvmrs.kernel.maps import Map
from lvmrs.kernel.noise import Stream
from lvmrs.kernel.sampler import Sampler, check_logits


def leads(logits: Tensor, top: int, temperature: float, *, paired: bool) -> Tensor:
    """The lead log p_k − log p_A of every class k over A = ``top``, from logits (copies, classes); −∞ for A itself.

    If ``paired``, the softmax is over each rival and A, and otherwise over all classes.

    >>> leads(torch.tensor([[2.0, 0.0, 1.0]]), 0, 1.0, paired=True).tolist()
    [-inf, -2.0, -1.0]
    """
    scaled = (logits.float() if logits.dtype.itemsize < 4 else logits) / temperature
    if paired:
        margins = scaled - scaled[:, top : top + 1]
        found = _log_mean(functional.logsigmoid(margins)) - _log_mean(functional.logsigmoid(-margins))
    else:
        shares = _log_mean(functional.log_softmax(scaled, dim=1))
        found = shares - shares[top]
    return found.index_fill(0, torch.tensor([top], device=found.device), -math.inf)


def _log_mean(logarithms: Tensor) -> Tensor:
    return logarithms.logsumexp(dim=0) - math.log(len(logarithms))


def lead_gradient(
    sampler: Sampler, copies: Tensor, top: int, rival: int | None, temperature: float, *, paired: bool
) -> Tensor:
    """The gradient of a rival's lead with respect to the input of the noisy copies: the sum over all copies.

    Without a rival, the gradient is that of the rival with the largest lead on these copies.
    """
    with torch.inference_mode(False):
        inputs = copies.detach().clone().requires_grad_(True)
        logits = sampler.forward(inputs, gradients=True)
        check_logits(logits, len(inputs), 0)
        if not logits.requires_grad:
            raise ModelError("the model has no gradients, which an attack needs; give the network itself")
        with torch.enable_grad():
            found = leads(logits, top, temperature, paired=paired)
            lead = found[int(found.argmax()) if rival is None else rival]
        try:
            (gradient,) = torch.autograd.grad(lead, inputs, allow_unused=True)
        except RuntimeError as error:
            raise ModelError(f"the model has no gradients, which an attack needs ({str(error)[:200]})") from error
    if gradient is None:
        raise ModelError("the logits have no gradient with respect to the input, which an attack needs")
    whole = gradient.sum(dim=0)
    if not torch.isfinite(whole).all():
        raise ModelError("the gradients of the model are NaN or infinite, and an attack cannot use them")
    return whole


def scores_against(map_: Map, logits: Tensor, top: int, rivals: list[int]) -> Floats:
    """Scores in [0, 1] of shape (copies, rivals), whose means are at most ½ if the top class wins.

    >>> from lvmrs.kernel.maps import Hardmax
    >>> from lvmrs.kernel.maps import Duel
    >>> logits = torch.tensor([[2.0, 0.0, 1.0], [0.5, 0.0, 1.0]])
    >>> scores_against(Duel(), logits, 0, [1, 2]).tolist(), scores_against(Hardmax(), logits, 0, [1, 2]).tolist()
    ([[0.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.5, 1.0]])
    """
    none = torch.tensor([], dtype=torch.long)
    columns = map_.columns(logits, top, torch.tensor(rivals), none).cpu().double().numpy()
    return 1 - columns if map_.paired else (1 + columns[:, 1:] - columns[:, :1]) / 2


def rejects(map_: Map, scores: Floats, risk: float) -> bool:
    """Test whether one rival shows that the top class does not win; wrong with probability at most ``risk``.

    Votes for other classes carry no information about which of the two classes has more votes. So votes are compared by
    a binomial test among the votes for either of the two, as Cohen et al. (2019) do for predictions. ``scores`` is the
    column of ``scores_against`` for the rival, from fresh samples in the order of their drawing.
    """
    if not map_.binary:
        return bool(betting.lower(np.clip(scores, 0.0, 1.0), risk) > 0.5)
    won, decided = int((scores == 1).sum()), int((scores != 0.5).sum())
    return decided > 0 and bool(clopper_pearson.lower(won, decided, risk) > 0.5)


# Leads are estimated on a tenth of the samples of a test, but on at least this number (or all, if a test has fewer).
_LEAST_SEARCH_SAMPLES = 500
# Number of rivals that ``Network.start`` orders by gradients.
_NEAREST = 10


class Lead(NamedTuple):
    """An estimate of the lead of the strongest rival over the certified class at a point."""

    value: float
    """Positive if a test is likely to show that the certified class does not win."""
    ahead: bool
    """Whether the rival is ahead of the certified class."""
    rival: int


class AttackTarget(ABC):
    """The classifier under attack. ``samples`` counts the forward passes."""

    def __init__(self, sampler: Sampler, top: int) -> None:
        self.sampler, self.top, self.samples = sampler, top, 0

    @abstractmethod
    def lead(self, x: Tensor, risk: float, surplus: float) -> Lead:
        """Estimate the lead of the strongest rival at a point, for a test at this risk.

        The lead should exceed the threshold of the test by ``surplus`` standard errors.
        """

    @abstractmethod
    def gradient(self, x: Tensor, rival: int | None) -> Tensor:
        """The gradient of a rival's lead at a point; None: of the rival with the largest lead."""

    @abstractmethod
    def misclassified(self, x: Tensor, rival: int, risk: float) -> bool:
        """Test whether the rival wins at a point; wrong with probability at most ``risk``."""

    @abstractmethod
    def start(self, x: Tensor) -> list[int]:
        """Prepare an attack on the input ``x``, and return all rivals, the strongest first."""


class Smoothed(AttackTarget):
    """A classifier smoothed by a map.

    Leads of all points use the same noise (the first samples of the stream "attack"), so that points can be compared.
    Each gradient uses fresh noise of that stream, and each test fresh noise of the stream "confirmation".
    """

    def __init__(self, sampler: Sampler, top: int, map_: Map, search: Search, index: int) -> None:
        super().__init__(sampler, top)
        self._map, self._search = map_, search
        self._search_stream, self._test_stream = (
            Stream(search.seed, index, stage) for stage in ("attack", "confirmation")
        )
        self._search_samples = max(search.n // 10, min(search.n, _LEAST_SEARCH_SAMPLES))
        self._next_copy, self._next_test = self._search_samples, 0
        self._temperature, self._rivals = 1.0, list[int]()  # ``start`` sets them

    def _scores(self, x: Tensor, stream: Stream, n: int, first: int, rivals: list[int]) -> Floats:
        self.samples += n
        batches = self.sampler.logits(x, stream, n, first=first)
        return np.concatenate([scores_against(self._map, batch, self.top, rivals) for batch in batches])

    def lead(self, x: Tensor, risk: float, surplus: float) -> Lead:
        """Compare the mean scores with the threshold of the test, both as normal quantiles.

        Under Gaussian noise the quantile of a mean is about linear along a line, so that the search along a line needs
        few evaluations.
        """
        scores = self._scores(x, self._search_stream, self._search_samples, 0, self._rivals)
        mean, spread = scores.mean(axis=0), scores.std(axis=0)
        errors = surplus - scipy.special.ndtri(min(risk, 0.5))
        needed = 0.5 + errors * np.maximum(spread, 1 / self._search_samples) / math.sqrt(self._search.n)
        half = 0.5 / self._search_samples
        ndtri = scipy.special.ndtri
        value = ndtri(np.clip(mean, half, 1 - half)) - ndtri(np.minimum(needed, 1 - 0.9 * half))
        best = int(value.argmax())
        return Lead(float(value[best]), bool(mean[best] > 0.5), self._rivals[best])

    def start(self, x: Tensor) -> list[int]:
        """All rivals, ordered by their mean scores, and by their margins if the mean scores are equal.

        The temperature of the gradients is that of the map, or half the standard deviation of the strongest rival's
        margin.
        """
        self.samples += self._search_samples
        logits = torch.cat(list(self.sampler.logits(x, self._search_stream, self._search_samples)))
        self._rivals = rivals = [k for k in range(logits.shape[1]) if k != self.top]
        mean = scores_against(self._map, logits, self.top, rivals).mean(axis=0)
        exact = logits.cpu().double().numpy()
        margins = exact[:, self.top : self.top + 1] - exact[:, rivals]
        spread = margins.std(axis=0)
        ease = margins.mean(axis=0) / np.maximum(spread, np.finfo(np.float64).tiny)
        order = np.lexsort((ease, -mean))
        if self._map.tempered:
            # The slope of a soft duel's ramp equals the largest slope of a sigmoid at half its temperature.
            self._temperature = self._map.temperature / 2 if self._map.paired else self._map.temperature
        else:
            half = float(spread[order[0]]) / 2
            self._temperature = half if half > 0 else 1.0
        return [rivals[k] for k in order]

    def gradient(self, x: Tensor, rival: int | None) -> Tensor:
        """The gradient of SmoothAdv over fresh noisy copies."""
        m, first = self._search.samples, self._next_copy
        self.samples, self._next_copy = self.samples + m, first + m
        copies = torch.cat([batch.clone() for batch in self.sampler.copies(x, self._search_stream, m, first=first)])
        return lead_gradient(self.sampler, copies, self.top, rival, self._temperature, paired=self._map.paired)

    def misclassified(self, x: Tensor, rival: int, risk: float) -> bool:
        """Test on fresh samples."""
        n, first = self._search.n, self._next_test
        self._next_test += n
        scores = self._scores(x, self._test_stream, n, first, [rival])
        return rejects(self._map, scores[:, 0], risk)


class Network(AttackTarget):
    """The network itself, for certificates without noise; its logits are exact, so that tests have no risk."""

    def _margins(self, x: Tensor) -> Tensor:
        """The lead of each class over the certified class; −∞ for the certified class itself."""
        self.samples += 1
        logits = self.sampler.forward(x[None])
        check_logits(logits, 1, 0)
        margins = logits[0].cpu().double()
        margins = margins - margins[self.top]
        margins[self.top] = -math.inf
        return margins

    def lead(self, x: Tensor, risk: float, surplus: float) -> Lead:
        """The largest logit of a rival, minus the logit of the certified class."""
        margins = self._margins(x)
        rival = int(margins.argmax())
        value = float(margins[rival])
        return Lead(value if value != 0 else -1e-300, value > 0, rival)

    def start(self, x: Tensor) -> list[int]:
        """All rivals: the first by the distance to their boundary in the linearised network, the others by logits."""
        margins = self._margins(x)
        rivals: list[int] = margins.argsort(descending=True, stable=True)[:-1].tolist()
        slopes = {k: float(self.gradient(x, k).norm()) for k in rivals[:_NEAREST]}
        near = sorted(slopes, key=lambda k: -float(margins[k]) / slopes[k] if slopes[k] > 0 else math.inf)
        return [*near, *rivals[_NEAREST:]]

    def gradient(self, x: Tensor, rival: int | None) -> Tensor:
        """The gradient of the margin."""
        self.samples += 1
        return lead_gradient(self.sampler, x[None], self.top, rival, 1.0, paired=True)

    def misclassified(self, x: Tensor, rival: int, risk: float) -> bool:
        """Whether the logit of the rival is larger than that of the certified class."""
        return bool(self._margins(x)[rival] > 0)


@dataclass(frozen=True)
class Search:
    """The effort of an attack, and the number of samples and the risk of its tests.

    >>> Search(steps=20).restarts
    2
    """

    steps: int = 10
    """Steps of gradient ascent from each start; at least 1."""
    restarts: int = 2
    """The number of ascents at each distance: the first from the input, the others from random points near it."""
    samples: int = 32
    """Noisy copies for each gradient; at least 1."""
    n: int = 10_000
    """Fresh samples for each test of a point; at least 2."""
    beta: float = 0.001
    """The probability that the finding for an input is wrong: that the class does win at the point."""
    seed: int = 0
    """The seed of the noise and of the random starting points, from 0 to 2⁶³ − 1."""
    farthest: float | None = None
    """The largest distance of the search; by default 16 times the larger of σ and the radius."""
    clip: bool = False
    """Whether the search is limited to points in [0, 1]; certificates are about all points."""

    def __post_init__(self) -> None:
        least = {"steps": 1, "restarts": 1, "samples": 1, "n": 2}
        plain: dict[str, float] = {name: checks.count(name, getattr(self, name), least=k) for name, k in least.items()}
        plain["beta"] = checks.single("beta", checks.fraction("beta", self.beta))
        plain["seed"] = checks.seed("seed", self.seed)
        if self.farthest is not None:
            plain["farthest"] = checks.positive_number("farthest", self.farthest)
        if not isinstance(self.clip, bool):
            raise InvalidArgumentError(f"clip must be True or False, got {shown(self.clip)}")
        for name, value in plain.items():
            object.__setattr__(self, name, value)
