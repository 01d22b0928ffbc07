"""Proofs of certificates that hold at every number of samples at once, so that sampling may stop at any time.

The guarantee of ``AnytimeProof``: with probability at least 1 − alpha over the noise, *all* certificates that it gives
from the first sample to the last are right, each in the sense of ``lvmrs.kernel.proof``. So sampling may stop for any
reason that depends on them: a radius is reached, time is up, other inputs need the samples more.

The argument is that of ``lvmrs.kernel.proof``, with three differences.

1. The bounds are anytime bounds (``Bound.anytime``): the probability that a bound is wrong at any number of samples is
   at most its risk. The two events of the argument, on the bound for A and on the bound for the strongest rival k*, are
   now "the bound is wrong at any number of samples", and have the same probabilities. No union over time is needed.
2. Since a bound holds at all numbers of samples together, the best bound of a column so far holds, too. So the radius
   never falls.
3. The noise takes its share of the risk, and of beta below, for the n samples of the terms, which are the largest
   possible number.

**The limit** is a bound on the other side: the radius of the exact means, which this plan would certify with infinitely
many samples, is at most the limit, with probability at least 1 − beta, at all numbers of samples together. Here a union
over the rivals *is* needed: the limit is too small if the bound on A fails, or the bound on *any* rival, since
overestimating one rival makes the limit too small. So beta is divided among the columns. Half of the share of the
rivals goes to the first rival of the plan, for which a planner chooses the strongest, and the others share the rest.

Bounds are computed at fixed numbers of samples (``sample_sizes``), for any portions in which samples come. So where a
proof stops depends on its stream alone, and not on the batch size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from torch import Tensor

from lvmrs.errors import ProofError
from lvmrs.kernel import checks
from lvmrs.kernel.bounds.base import Sides
from lvmrs.kernel.certificate import Certificate
from lvmrs.kernel.checks import Floats
from lvmrs.kernel.method import InterimResult
from lvmrs.kernel.proof import PORTION, ProofInput, concluded, conclusion
from lvmrs.kernel.scores import Portion, Regrouping
from lvmrs.kernel.terms import Plan, Terms

Stop = Callable[[InterimResult], bool]
"""Decides whenever bounds are computed whether to stop. No certificate relies on it."""


def _never(now: InterimResult) -> bool:
    return False


def sample_sizes(n: int) -> Iterator[int]:
    """The numbers of samples at which bounds are computed, up to n.

    >>> list(sample_sizes(200))
    [32, 64, 96, 128, 160, 192, 200]
    """
    seen = 0
    while seen < n:
        seen = _after(seen, n)
        yield seen


def _after(seen: int, n: int) -> int:
    """The next size after this number of samples."""
    return min(n, seen + 32 * (1 + seen // 320))


class AnytimeProof:
    """A proof that takes scores in portions of any size and gives a certificate at any time.

    A proof can be pickled at any time if ``stop`` can (a lambda cannot; ``Goal.reached`` can), and continues with the
    next sample of its stream. Samples after it has stopped are ignored.

    Args:
        plan: a plan by a planner; its bound must be an anytime bound (``lvmrs.planners.Anytime``).
        terms: the terms of the certificate; n is the largest number of samples.
        beta: the risk of the limit.
        stop: decides whenever bounds are computed whether to stop; by default only at n.

    >>> import torch, lvmrs
    >>> smoothed = lvmrs.SmoothedClassifier(torch.nn.Identity(), sigma=0.5, batch=100)
    >>> x, terms = torch.tensor([1.0, 0.0]), Terms(sigma=0.5, alpha=0.001, n=10_000)
    >>> planner = lvmrs.planners.Anytime(lvmrs.Duels())
    >>> plan = planner.plan(smoothed.scores(x, 64, stage="selection"), terms)
    >>> proof = AnytimeProof(plan, terms, stop=lambda now: now.radius >= 0.25)
    >>> for portion in smoothed.scores(x, 10_000):
    ...     proof.add(portion)
    ...     if proof.stopped:
    ...         break
    >>> proof.certificate().radius >= 0.25, proof.certificate().n < 200
    (True, True)
    """

    def __init__(self, plan: Plan, terms: Terms, *, beta: float = 0.001, stop: Stop = _never) -> None:
        given = self._input = ProofInput(plan, terms)
        if not plan.bound.anytime:
            raise ProofError(
                f"{plan.bound.name} holds for one fixed number of samples only; for sampling that may stop "
                "at any time, plan with lvmrs.planners.Anytime"
            )
        self._stop, self.stopped = stop, False
        self._beta = checks.single("beta", checks.fraction("beta", beta))
        if not self._beta > terms.noise_risk:
            raise ProofError(
                f"beta = {self._beta:g} is not above the risk that the noise takes, {terms.noise_risk:.3g}"
            )
        self._limit_risks = _limit_risks(given, self._beta - terms.noise_risk)
        self._proving = plan.bound.tally(terms.n, given.risks, given.upper)
        self._limit_tally = plan.bound.tally(terms.n, self._limit_risks, ~given.upper)
        self._best = np.where(given.upper, 1.0, 0.0)
        self._worst = np.where(given.upper, 0.0, 1.0)
        self._waiting = Regrouping(PORTION)
        self._looked, self._look = 0, _after(0, terms.n)
        self._broken = False

    def add(self, portion: Portion) -> None:
        """Take the next samples of the stream: each once, in order, with the noise and σ of the terms."""
        if self._broken:
            raise ProofError("an earlier portion of these scores failed; begin the proof again")
        before = self._input.seen
        logits = self._input.take(portion)
        self._broken = True  # until all are tallied: bounds from a part of them would not be valid
        while len(logits) and not self.stopped:
            rows = logits[: min(self._look - before, PORTION)]
            before, logits = before + len(rows), logits[len(rows) :]
            for part in self._waiting.add(self._input.columns(rows)):
                self._tally(part)
            if before == self._look:
                self._look_at_bounds()
        self._broken = False

    @property
    def wanted(self) -> int:
        """The number of samples up to the next look; 0 if the proof has stopped."""
        return 0 if self.stopped else self._look - self._input.seen

    @property
    def used(self) -> int:
        """The number of samples behind the certificate: those up to the last look."""
        return self._looked

    @property
    def now(self) -> InterimResult:
        """Radius and limit at the last look."""
        plan, terms = self._input.plan, self._input.terms
        radius, limit = (conclusion(plan, terms, bounds)[2] for bounds in (self._best, self._worst))
        return InterimResult(self._looked, radius, limit)

    def certificate(self) -> Certificate:
        """The certificate at the last look."""
        if not self._looked:
            raise ProofError(f"{self._input.seen} scores are too few for a first look; add more")
        return concluded(self._input, self._best, self._looked, limit=self.now.limit, beta=self._beta)

    def _tally(self, columns: Tensor) -> None:
        for tally in (self._proving, self._limit_tally):
            tally.add(columns)

    def _look_at_bounds(self) -> None:
        for part in self._waiting.rest():
            self._tally(part)
        self._looked, n = self._look, self._input.terms.n
        self._look = _after(self._looked, n)
        upper = self._input.upper
        self._best = _nearer(self._best, self._proving.bounds(), upper)
        self._worst = _nearer(self._worst, self._limit_tally.bounds(), ~upper)
        self.stopped = self._looked == n or bool(self._stop(self.now))


def _nearer(old: Floats, new: Floats, upper: Sides) -> Floats:
    """The better of two bounds that both hold: the smaller of upper bounds, the larger of lower bounds."""
    return np.where(upper, np.minimum(old, new), np.maximum(old, new))


def _limit_risks(given: ProofInput, beta: float) -> Floats:
    """The risk of the limit for each column; the risks sum to beta."""
    tops, rivals = given.tops, given.rivals
    of_rivals = beta / (1 + tops) if rivals else 0.0
    shares = [of_rivals] if rivals == 1 else [of_rivals / 2] + [of_rivals / 2 / (rivals - 1)] * (rivals - 1)
    return np.array([beta - of_rivals] * tops + (shares if rivals else []))
