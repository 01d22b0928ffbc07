"""Certificates of anytime proofs are false no more often than alpha, and their limits than beta, whoever stops them.

The adversary knows the truth. It stops a proof at the first look at which the certificate or the limit is false, and
otherwise never; so a proof counts as false if it is false at any look.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from lvmrs import Choice, Cohen, Duels, Fixed, Lipschitz, Planner, Terms, Votes
from lvmrs.kernel import anytime
from lvmrs.kernel.anytime import AnytimeProof
from lvmrs.kernel.bounds import clopper_pearson
from lvmrs.kernel.bounds.base import Bound, Sides, Tally
from lvmrs.kernel.bounds.clopper_pearson import _Stages
from lvmrs.kernel.method import InterimResult
from lvmrs.kernel.proof import ProofInput, conclusion
from lvmrs.kernel.terms import Plan
from lvmrs.planners import Anytime
from lvmrs.testing import FAMILIES, SELECTION, SIGMA, Family, family, is_false, made_up_scores, too_many
from tests.oracles import Floats

LARGE = ("c = 1000", "999 runners-up", "99 runners-up")
PLANNERS: dict[str, Planner] = {
    "Cohen": Cohen(),
    "Votes": Votes(),
    "Duels": Duels(),
    "Duels, soft": Duels(0.3),
    "Fixed, softmax": Fixed("softmax", 0.5),
    "Fixed, hardmax": Fixed("hardmax"),
    "Lipschitz, ramp": Lipschitz("ramp", map="softmax", temperature=0.3),
    "Lipschitz, both": Lipschitz("both", mass=3.0),
}


def true_limit(known: Family, plan: Plan, terms: Terms) -> float:
    """The radius of the exact means of the columns of the plan: what infinitely many samples certify."""
    alone, pooled = (torch.tensor(rivals, dtype=torch.long) for rivals in plan.rivals)
    columns = plan.map.columns(known.atoms.double(), plan.top, alone, pooled).double().numpy()
    return conclusion(plan, terms, np.clip(known.weights @ columns, 0.0, 1.0))[2]


def ever_false(
    planner: Planner,
    known: Family,
    *,
    risk: float,
    repeats: int,
    n0: int,
    n: int,
    lipschitz: float = 1.0,
    seed: int = 0,
) -> tuple[int, int]:
    """How many of so many proofs have a false certificate, and how many a false limit, when an adversary stops them."""
    terms, random = Terms(SIGMA, risk, n, lipschitz), np.random.default_rng([n0, n, repeats, seed])
    certificates = limits = 0
    for _ in range(repeats):
        selection, certification = known.draw(random, n0), known.draw(random, n)
        plan = planner.plan(made_up_scores(selection, SELECTION), terms)
        truth = true_limit(known, plan, terms)

        def adversary(now: InterimResult, truth: float = truth) -> bool:
            return now.radius > truth + 1e-9 or now.limit < truth - 1e-9

        proof = AnytimeProof(plan, terms, beta=risk, stop=adversary)
        for portion in made_up_scores(certification):
            proof.add(portion)
        certificates += is_false(proof.certificate(), known)
        limits += proof.now.limit < truth - 1e-9
    return certificates, limits


@pytest.mark.parametrize("name", PLANNERS)
def test_no_stop_makes_certificates_or_limits_false_more_often_than_their_risk(name: str) -> None:
    binary = name in ("Cohen", "Votes", "Duels", "Fixed, hardmax")
    wrong, total = np.zeros(2, dtype=int), 0
    for seed, (kind, known) in enumerate(FAMILIES.items()):
        repeats = 2 if kind in LARGE else 25 if binary else 6
        found = ever_false(Anytime(PLANNERS[name]), known, risk=0.05, repeats=repeats, n0=40, n=300, seed=seed)
        assert not any(too_many(each, repeats, 0.05) for each in found), f"{found} of {repeats} are false on {kind}"
        wrong, total = wrong + found, total + repeats
    assert not any(too_many(int(each), total, 0.05) for each in wrong), f"{wrong} of {total} are ever false"


# One family of each kind on which a mistake would show: at and near a tie, and many rivals that are equally strong.
EQUAL_DUELS = family(
    [(1.0, [0.0] + [1.0 if k in (j, j % 19 + 1) else -1.0 for k in range(1, 20)]) for j in range(1, 20)]
)
NEAR_A_TIE = family([(0.52, [1.0, 0.0]), (0.48, [0.0, 1.0])])


@pytest.mark.parametrize(
    "planner", [Anytime(Duels()), Anytime(Votes()), Anytime(Cohen()), Anytime(Duels(), staged=True)], ids=repr
)
def test_over_many_repeats_near_a_tie(planner: Planner) -> None:
    found = ever_false(planner, NEAR_A_TIE, risk=0.05, repeats=300, n0=30, n=500, lipschitz=np.inf)
    assert not any(too_many(each, 300, 0.05) for each in found), f"{found} of 300 are ever false"


# Mutants: what must not be done, done on purpose.


@dataclass(frozen=True)
class Peeking(Bound):
    """Clopper–Pearson for the samples so far, looked at again and again: each look has its own chance to be false."""

    name: ClassVar[str] = "peeking"
    votes_only: ClassVar[bool] = True
    anytime: ClassVar[bool] = True

    def tally(self, n: int, risks: Floats, upper: Sides) -> Tally:
        return PeekingTally(risks, upper)

    def forecast(self, mean: Floats, variance: Floats, n: int, risk: float) -> Floats:
        return mean


class PeekingTally(Tally):
    def __init__(self, risks: Floats, upper: Sides) -> None:
        self.risks, self.upper, self.n, self.counts = risks, upper, 0, np.zeros(len(risks))

    def add(self, columns: Tensor) -> None:
        self.n += len(columns)
        self.counts += columns.sum(dim=0).numpy()

    def bounds(self) -> Floats:
        low = clopper_pearson.lower(self.counts, self.n, self.risks)
        high = clopper_pearson.upper(self.counts, self.n, self.risks)
        return np.where(self.upper, high, low)


@dataclass(frozen=True)
class WithPeeking(Planner):
    planner: Planner

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        return replace(self.planner.choose(logits, terms), bound=Peeking())


@pytest.mark.parametrize("planner", [Duels(), Cohen()], ids=repr)
def test_the_adversary_catches_a_bound_for_one_n_that_is_peeked_at(planner: Planner) -> None:
    certificates, limits = ever_false(
        WithPeeking(planner), NEAR_A_TIE, risk=0.05, repeats=300, n0=30, n=500, lipschitz=np.inf
    )
    assert too_many(certificates, 300, 0.05)
    assert too_many(limits, 300, 0.05)


def test_the_adversary_catches_a_limit_without_a_union_over_the_rivals(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many rivals that are equally strong, one of them will look stronger than it is."""
    settings = {"repeats": 150, "n0": 30, "n": 1500, "lipschitz": np.inf}
    _, honest = ever_false(Anytime(Duels()), EQUAL_DUELS, risk=0.2, **settings)  # type: ignore[arg-type]
    assert not too_many(honest, 150, 0.2)

    def the_full_risk_for_each(taken: ProofInput, beta: float) -> Floats:
        return np.full(len(taken.risks), beta)

    monkeypatch.setattr(anytime, "_limit_risks", the_full_risk_for_each)
    _, wrong = ever_false(Anytime(Duels()), EQUAL_DUELS, risk=0.2, **settings)  # type: ignore[arg-type]
    assert too_many(wrong, 150, 0.2)


def test_the_adversary_catches_stages_that_each_have_the_full_risk(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"repeats": 600, "n0": 30, "n": 2000, "lipschitz": np.inf}
    staged = Anytime(Duels(), staged=True)
    honest = ever_false(staged, NEAR_A_TIE, risk=0.05, **settings)  # type: ignore[arg-type]
    assert not any(too_many(each, 600, 0.05) for each in honest)

    def the_full_risk_for_each(self: _Stages, ends: list[int], risks: Floats, upper: Sides) -> None:
        made(self, ends, risks * len(ends), upper)

    made = _Stages.__init__
    monkeypatch.setattr(_Stages, "__init__", the_full_risk_for_each)
    wrong = ever_false(staged, NEAR_A_TIE, risk=0.05, **settings)  # type: ignore[arg-type]
    assert any(too_many(each, 600, 0.05) for each in wrong)


def test_the_adversary_catches_samples_that_count_again_when_a_proof_is_taken_up() -> None:
    """Who goes on after a look must not add the samples before it again, as often as a run is resumed."""
    terms, random, risk = Terms(SIGMA, 0.05, 600, np.inf), np.random.default_rng(7), 0.05
    wrong = {"honest": 0, "again": 0}
    for _ in range(300):
        selection, certification = NEAR_A_TIE.draw(random, 30), NEAR_A_TIE.draw(random, 600)
        plan = Anytime(Duels()).plan(made_up_scores(selection, SELECTION), terms)
        truth = true_limit(NEAR_A_TIE, plan, terms)
        for kind in wrong:
            proof = AnytimeProof(plan, terms, beta=risk)
            false = False
            for portion in made_up_scores(torch.split(certification, 32)):
                proof.add(portion)
                for _ in range(8 if kind == "again" else 0):  # what a wrong state would do to the counts
                    proof._proving.add(proof._input.columns(portion.logits))
                false = false or proof.now.radius > truth + 1e-9
            wrong[kind] += false
    assert not too_many(wrong["honest"], 300, risk)
    assert too_many(wrong["again"], 300, risk)
