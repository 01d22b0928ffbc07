"""Routed classifiers: a smoothed router chooses which smoothed expert answers; each has its own network and σ.

Dual randomized smoothing (arXiv 2512.01782) and ACES (arXiv 2204.00487) choose in this way.
``lvmrs.kernel.composed`` has the certificate and its proof. This module plans and samples the parts, which are all duel
classifiers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lvmrs.engine.pipeline import planned_on
from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks
from lvmrs.kernel.composed import DuelsOutside, RoutedCertificate
from lvmrs.kernel.noise import Stream
from lvmrs.kernel.terms import Plan, Terms
from lvmrs.planners.allocation import expected_radii
from lvmrs.planners.duels import Duels
from lvmrs.smoothed import N0, Numeric, SmoothedClassifier

_DUELS = Duels()


@dataclass(frozen=True, eq=False)
class _Planned:
    """A part, planned on its selection sample."""

    part: SmoothedClassifier
    x: Tensor
    terms: Terms
    plan: Plan
    logits: Tensor

    def forecast(self, plan: Plan) -> float:
        """The radius that a plan is expected to certify."""
        return float(expected_radii(plan, self.terms, self.logits, [self.terms.n])[0])


class RoutedClassifier:
    """A classifier in which a smoothed router chooses the smoothed expert that answers.

    Args:
        experts: at least two smoothed classifiers of the same classes, usually with different σ.
        router: a smoothed classifier whose classes are the experts, in their order.
        fallback: the expert that answers where no expert wins all duels of the router.

    All parts must have the same kind of noise.

    >>> flip = torch.nn.Linear(2, 2, bias=False)
    >>> flip.weight.data = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    >>> experts = [SmoothedClassifier(torch.nn.Identity(), 0.25), SmoothedClassifier(flip, 0.5)]
    >>> routed = RoutedClassifier(experts, SmoothedClassifier(torch.nn.Identity(), 0.5))
    >>> certificate = routed.certify(torch.tensor([0.4, 0.0]), n0=100, n=1000)
    >>> certificate.prediction, certificate.answering, 0.15 < certificate.radius < 0.2829
    (0, (0,), True)
    """

    def __init__(self, experts: Sequence[SmoothedClassifier], router: SmoothedClassifier, *, fallback: int = 0) -> None:
        self.experts = checks.instances("experts", experts, SmoothedClassifier, "SmoothedClassifiers")
        if len(self.experts) < 2:
            raise InvalidArgumentError(f"experts must be at least 2 smoothed classifiers, got {len(self.experts)}")
        checks.instance("router", router, SmoothedClassifier, "a SmoothedClassifier whose classes are the experts")
        self.router = router
        self.fallback = checks.count("fallback", fallback, least=0, most=len(self.experts) - 1)
        for part in [router, *self.experts]:
            part.check_method(_DUELS)
            if part.noise != router.noise:
                names = f"{router.noise.spelling} and {part.noise.spelling}"
                raise InvalidArgumentError(f"noise must be the same for the router and all experts, got {names}")

    def __repr__(self) -> str:
        """One-line summary for people."""
        return f"RoutedClassifier({self.experts}, router={self.router}, fallback={self.fallback})"

    def certify(
        self,
        x: Numeric,
        *,
        n0: int = 1_000,
        n: int = 100_000,
        alpha: float = 0.001,
        seed: int = 0,
        index: int = 0,
    ) -> RoutedCertificate:
        """Certify one input. The certificate is right with probability at least 1 − ``alpha``.

        Args:
            x: the input, as in ``SmoothedClassifier.certify``.
            n0: samples to plan on, for the router and for each expert.
            n: samples to prove on, for the router and for each expert among which it may choose near x.
            alpha: the risk.
            seed: as in ``SmoothedClassifier.certify``.
            index: as in ``SmoothedClassifier.certify``.

        Returns:
            The certificate, with the certificates of the router and of the experts that it rests on.
        """
        return self._certified(x, n0, n, alpha, Stream(seed, index, "certification"))

    def predict(
        self, x: Numeric, *, n: int = 1_000, n0: int = N0, alpha: float = 0.001, seed: int = 0, index: int = 0
    ) -> int:
        """Predict the answer of the routed classifier, or −1 if the samples do not decide.

        The answer is wrong with probability at most ``alpha``. The arguments are those of ``certify``.
        """
        return self._certified(x, n0, n, alpha, Stream(seed, index, "prediction")).prediction

    def answer(self, x: Numeric) -> int:
        """The prediction of router and expert without noise and without a guarantee."""
        return self.experts[self.router.answer(x)].answer(x)

    def _certified(self, x: Numeric, n0: int, n: int, alpha: float, stream: Stream) -> RoutedCertificate:
        n0 = checks.count("n0", n0, least=1)
        router, *experts = (self._planned(part, x, n0, n, alpha, stream) for part in [self.router, *self.experts])
        if router.plan.classes != len(experts):
            raise InvalidArgumentError(
                f"router must have one class for each of the {len(experts)} experts, got {router.plan.classes} classes"
            )
        if len(counts := {each.plan.classes for each in experts}) > 1:
            raise InvalidArgumentError(f"experts must have the same number of classes, got {sorted(counts)}")
        if any(not torch.equal(each.x.cpu().double(), router.x.cpu().double()) for each in experts):
            raise InvalidArgumentError("x is rounded to float32 by some of the networks and not by all; give float32")
        plan = _best_plan(router, experts, self.fallback)
        answering = plan.map.inside if isinstance(plan.map, DuelsOutside) else (plan.top,)
        proved = [e.part.proved(e.plan, e.terms, e.x, stream) for e in (experts[i] for i in answering)]
        beaten = None if len(proved) == len(experts) else router.part.proved(plan, router.terms, router.x, stream)
        return RoutedCertificate(plan, beaten, tuple(proved), self.fallback)

    def _planned(self, part: SmoothedClassifier, x: Numeric, n0: int, n: int, alpha: float, stream: Stream) -> _Planned:
        _, given = part.sampler(x)
        terms = part.terms(alpha, n, given, method=_DUELS)
        scores = part.scores(given, n0, seed=stream.seed, index=stream.index, stage="selection")
        return _Planned(part, given, terms, *planned_on(scores, _DUELS, terms))


def _best_plan(router: _Planned, experts: Sequence[_Planned], fallback: int) -> Plan:
    """The plan of the router whose set S of experts is expected to certify the largest radius."""
    best, largest = router.plan, -math.inf
    for inside in _sets(router.plan, [each.plan.top for each in experts], fallback):
        plan = router.plan if len(inside) == 1 else replace(router.plan, map=DuelsOutside(inside=inside))
        within = [experts[i].forecast(experts[i].plan) for i in inside]
        expected = min(within if len(inside) == len(experts) else [*within, router.forecast(plan)])
        if expected > largest:
            best, largest = plan, expected
    return best


def _sets(plan: Plan, tops: Sequence[int], fallback: int) -> Iterator[tuple[int, ...]]:
    """The sets S to try: the expected expert alone, then with the fallback and the hardest rivals that agree."""
    yield (plan.top,)
    agreeing = [k for rivals in plan.rivals for k in rivals if tops[k] == tops[plan.top]]
    if fallback not in (plan.top, *agreeing):
        return
    rest = [k for k in agreeing if k != fallback]
    start = {plan.top, fallback}
    for more in range(0 if len(start) > 1 else 1, len(rest) + 1):
        yield tuple(sorted(start | set(rest[:more])))
