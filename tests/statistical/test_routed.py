"""Routed classifiers: no more false certificates than alpha, and the harness notices those of unsound rules."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from lvmrs import Duels, RoutedClassifier, SmoothedClassifier, Terms, prove
from lvmrs.kernel.checks import Floats
from lvmrs.kernel.composed import DuelsOutside, RoutedCertificate
from lvmrs.kernel.terms import Plan
from lvmrs.testing import SELECTION, SIGMA, Family, family, made_up_scores, too_many

# ---------------------------------------------------------------------------------------------------------------------
# Real classifiers, whose boundaries are known. Each expert is certified at (0, 0), where the answer is class 0.


def linear(*rows: Sequence[float]) -> nn.Linear:
    """Each row has the weights of a class, and its bias last; the duel classifier has the same boundaries."""
    net, given = nn.Linear(len(rows[0]) - 1, len(rows)), torch.tensor(rows).float()
    net.weight.data, net.bias.data = given[:, :-1].clone(), given[:, -1].clone()
    return net


ALWAYS_0, ALWAYS_1 = linear((0, 0, 1), (0, 0, 0)), linear((0, 0, 0), (0, 0, 1))


def until(distance: float, *, down: bool = False) -> nn.Linear:
    """Class 0 up to this distance in the second direction."""
    return linear((0, 1 if down else -1, distance), (0, 0, 0))


class Cycle(nn.Module):
    """Three experts in turns, so that just beyond .3 in the first direction none wins all duels under noise.

    Up to .3 the order is 0 > 2 > 1, up to .4 it is 1 > 0 > 2, and beyond it is 2 > 1 > 0.
    """

    def forward(self, x: Tensor) -> Tensor:
        orders = torch.tensor([[2.0, 0.0, 1.0], [1.0, 2.0, 0.0], [0.0, 1.0, 2.0]])
        return orders[torch.bucketize(x[:, 0].contiguous(), torch.tensor([0.3, 0.4]))]


def routed(router: nn.Module, *experts: nn.Module, fallback: int = 0, sigmas: Sequence[float] = ()) -> RoutedClassifier:
    scales = sigmas or [0.5, *(0.25 for _ in experts)]
    parts = [SmoothedClassifier(net, s, batch=100) for net, s in zip([router, *experts], scales, strict=True)]
    return RoutedClassifier(parts[1:], parts[0], fallback=fallback)


@dataclass(frozen=True)
class Case:
    routed: RoutedClassifier
    truth: float
    """The distance of the nearest point with another answer than class 0; 0 if (0, 0) is on a boundary."""


BOTH_TURN = (until(0.3), ALWAYS_0, until(0.3))
CASES = {
    "the router is right here and wrong nearby": Case(routed(until(0.1), ALWAYS_0, ALWAYS_1), 0.1),
    "the router is at a tie": Case(routed(until(0.0), ALWAYS_0, ALWAYS_1), 0.0),
    "the experts agree nearby alone": Case(routed(until(0.05), ALWAYS_0, until(0.3)), 0.3),
    "the experts agree nowhere but here": Case(routed(until(0.0), until(0.0, down=True), until(0.0)), 0.0),
    "the router and an expert turn at one place": Case(routed(*BOTH_TURN), 0.3),
    "one σ for all, and the same noise": Case(routed(*BOTH_TURN, sigmas=(0.5, 0.5, 0.5)), 0.3),
    "several experts err, at several distances": Case(
        routed(
            linear((0, 0, 1.2), (0, 1, 0.8), (0, -1, 1.0), (0, 0, 1.1), (1, 0, 0.8)),
            *(until(0.4), ALWAYS_0, until(0.2, down=True), until(0.44), ALWAYS_1),
            fallback=3,
        ),
        0.2,
    ),
    "the fallback errs where the router has no winner": Case(
        routed(Cycle(), ALWAYS_0, ALWAYS_0, ALWAYS_1, fallback=2), 0.3
    ),
}
REPEATS = 80


def is_false(certificate: RoutedCertificate, truth: float, radius: float) -> bool:
    return radius > 0 and (certificate.experts[0].top == 1 or radius > truth + 1e-6)


def made(case: Case, alpha: float) -> list[RoutedCertificate]:
    x = torch.zeros(2)
    return [case.routed.certify(x, n0=30, n=150, alpha=alpha, seed=seed) for seed in range(REPEATS)]


@pytest.mark.parametrize("alpha", [0.05, 0.01])
@pytest.mark.parametrize("name", CASES)
def test_false_certificates_are_no_more_frequent_than_alpha(name: str, alpha: float) -> None:
    wrong = sum(is_false(each, CASES[name].truth, each.radius) for each in made(CASES[name], alpha))
    assert not too_many(wrong, REPEATS, alpha), f"{wrong} of {REPEATS} certificates are false"


def test_predictions_are_wrong_no_more_often_than_alpha() -> None:
    tied, x = CASES["the experts agree nowhere but here"].routed, torch.tensor([0.0, 0.01])  # the answer is 1
    answers = [tied.predict(x, n0=20, n=100, alpha=0.05, seed=seed) for seed in range(REPEATS)]
    assert not too_many(answers.count(0), REPEATS, 0.05)


def test_harness_catches_the_radius_of_the_router_ignored() -> None:
    case = CASES["the router is right here and wrong nearby"]
    certificates = [each for each in made(case, 0.05) if each.prediction == 0]
    wrong = sum(is_false(each, case.truth, each.expert_radius) for each in certificates)
    assert too_many(wrong, len(certificates), 0.05)


# ---------------------------------------------------------------------------------------------------------------------
# Simulated counts with known means: thousands of certificates. A certificate is false if its radius is above the radius
# of the exact means with the best S. The radius of a part depends on one count for each rival outside of S, so the
# proofs of all counts are made once.

SIMULATED: dict[str, tuple[Family, tuple[float, ...]]] = {  # a router, and how often each expert is right
    "the expert errs as often as it is chosen": (family([(6, [1.0, 0.0]), (4, [0.0, 1.0])]), (0.95, 0.6)),
    "the expert errs at once": (family([(9, [1.0, 0.0]), (1, [0.0, 1.0])]), (0.9, 0.5)),
    "the router is at a tie": (family([(1, [1.0, 0.0]), (1, [0.0, 1.0])]), (0.9, 0.7)),
    "the router is the weakest": (family([(6, [1.0, 0.0]), (4, [0.0, 1.0])]), (0.9, 0.55)),
    "three experts": (family([(13, [1.0, 0.5, 0.0]), (4, [0.0, 1.0, 0.5]), (3, [0.5, 0.0, 1.0])]), (0.95, 0.8, 0.8)),
}
N, DRAWS = 400, 20_000
HARD, WEAK = "the expert errs as often as it is chosen", "the router is the weakest"


def sets(experts: int) -> list[tuple[int, ...]]:
    """All sets S that contain expert 0, which is the fallback, and which the router chooses."""
    return [(0, *more) for size in range(experts) for more in combinations(range(1, experts), size)]


def plan_of(known: Family, terms: Terms) -> Plan:
    return replace(Duels().plan(made_up_scores(known.atoms, SELECTION), terms), top=0, alone=None)


@functools.cache
def radii_of_counts(alpha: float) -> Floats:
    """The proved radius of a duel for each number of wins."""
    known, terms = family([(1, [1.0, 0.0]), (1, [0.0, 1.0])]), Terms(SIGMA, alpha, N)
    plan, lost = plan_of(known, terms), torch.arange(N)
    return np.array(
        [prove(plan, terms, made_up_scores(known.atoms[(lost >= won).long()])).radius for won in range(N + 1)]
    )


@dataclass(frozen=True)
class Radii:
    """Radii of simulated certificates (draws, sets S)."""

    routed: Floats
    experts: Floats
    """The same without the router."""

    @classmethod
    def drawn(cls, name: str, alpha: float, seed: int, draws: int = DRAWS) -> "Radii":
        """Radii of all sets from the same samples, as ``RoutedCertificate`` composes them (a test compares)."""
        (router, right), random, table = SIMULATED[name], np.random.default_rng(seed), radii_of_counts(alpha)
        of_experts = [table[random.binomial(N, mean, draws)] for mean in right]
        beats = (router.atoms[:, :1] > router.atoms).numpy()
        of_rivals = table[random.multinomial(N, router.weights, draws) @ beats]
        inner = [np.min([of_experts[i] for i in s], axis=0) for s in sets(len(right))]
        outer = [
            np.min([of_rivals[:, k] for k in range(len(right)) if k not in s] or [np.full(draws, np.inf)], axis=0)
            for s in sets(len(right))
        ]
        return cls(np.minimum(inner, outer).T, np.array(inner).T)


Rule = Callable[[Radii, Radii], Floats]
"""Takes radii of selection samples and of certification samples, and returns the radii to certify."""


def by_selection(selection: Radii, fresh: Radii) -> Floats:
    return chosen(selection.routed, fresh.routed)


def by_certification(selection: Radii, fresh: Radii) -> Floats:
    best: Floats = fresh.routed.max(axis=1)
    return best


def router_ignored(selection: Radii, fresh: Radii) -> Floats:
    return chosen(selection.routed, fresh.experts)


def chosen(by: Floats, radii: Floats) -> Floats:
    made: Floats = radii[np.arange(len(radii)), by.argmax(axis=1)]
    return made


def true_radius(name: str) -> float:
    """The largest radius over all S of the exact means."""
    router, right = SIMULATED[name]
    beats = router.weights @ (router.atoms[:, :1] > router.atoms).double().numpy()
    best = 0.0
    for s in sets(len(right)):
        means = [right[i] for i in s] + [beats[k] for k in range(len(right)) if k not in s]
        best = max(best, SIGMA * float(stats.norm.ppf(min(means))))
    return best


def false_ones(name: str, alpha: float, rule: Rule) -> int:
    """False certificates among ``DRAWS`` whose parts are certified at ``alpha``."""
    made = rule(Radii.drawn(name, alpha, seed=1), Radii.drawn(name, alpha, seed=2))
    return int((made > true_radius(name) + 1e-9).sum())


def test_simulated_radii_are_those_of_composed_certificates() -> None:
    """Counts in the same order of random numbers give the same radii by ``prove`` and ``RoutedCertificate``."""
    terms = Terms(SIGMA, 0.05, N)
    for name, (router, right) in SIMULATED.items():
        random, seed, two = np.random.default_rng(3), 3, SIMULATED[HARD][0].atoms
        counts = [int(random.binomial(N, mean, 1)[0]) for mean in right]
        drawn = torch.from_numpy(random.multinomial(N, router.weights, 1)[0])
        plan = plan_of(family([(1, [1.0, 0.0]), (1, [0.0, 1.0])]), terms)
        logits = [two[(torch.arange(N) >= count).long()] for count in counts]
        experts = [prove(plan, terms, made_up_scores(each)) for each in logits]
        for s, radius in zip(sets(len(right)), Radii.drawn(name, 0.05, seed, draws=1).routed[0], strict=True):
            of_router = replace(plan_of(router, terms), map=DuelsOutside(inside=s))
            scores = made_up_scores(router.atoms.repeat_interleave(drawn, dim=0))
            outer = None if len(s) == len(right) else prove(of_router, terms, scores)
            whole = RoutedCertificate(of_router, outer, tuple(experts[i] for i in s), fallback=0)
            assert whole.radius == radius


@pytest.mark.parametrize("alpha", [0.05, 0.01])
@pytest.mark.parametrize("name", SIMULATED)
def test_no_risk_is_split_with_sets_chosen_on_selection_samples(name: str, alpha: float) -> None:
    wrong = false_ones(name, alpha, by_selection)
    assert not too_many(wrong, DRAWS, alpha), f"{wrong} of {DRAWS} certificates are false"


@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_harness_catches_unsound_rules(alpha: float) -> None:
    """S chosen on the certification sample has an event for each S: two of nearly alpha each."""
    assert too_many(false_ones(HARD, alpha, by_certification), DRAWS, alpha)
    assert too_many(false_ones(WEAK, alpha, router_ignored), DRAWS, alpha)
    assert too_many(false_ones(HARD, 2 * alpha, by_selection), DRAWS, alpha)
