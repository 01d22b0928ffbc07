"""Composed certificates: what they are from their parts, and what is refused."""

import dataclasses
import math
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from lvmrs import LVM, Cohen, Deterministic, Duels, Terms, prove
from lvmrs.errors import ProofError
from lvmrs.kernel.certificate import Certificate
from lvmrs.kernel.composed import DuelsOutside, RoutedCertificate
from lvmrs.kernel.noise import Stream
from lvmrs.kernel.terms import Plan
from lvmrs.planners.base import Planner
from lvmrs.testing import CERTIFICATION, SELECTION, SIGMA, made_up_scores

N = 200
TERMS = Terms(SIGMA, 0.01, N)
OTHER = Stream(0, 0, "prediction")


def won(top: int, classes: int, times: int, n: int = N) -> torch.Tensor:
    """Logits in which a class wins this many times, is second otherwise, and always beats all but the next class."""
    logits = torch.zeros(n, classes)
    logits[:, top], logits[times:, (top + 1) % classes] = 1.0, 2.0
    return logits


def plan_of(logits: torch.Tensor, inside: Sequence[int] | None = None, origin: Stream = SELECTION) -> Plan:
    plan = Duels().plan(made_up_scores(logits, origin), TERMS)
    return plan if inside is None else dataclasses.replace(plan, map=DuelsOutside(inside=tuple(inside)))


def proof_of(plan: Plan, logits: torch.Tensor, stream: Stream = CERTIFICATION) -> Certificate:
    return prove(plan, TERMS, made_up_scores(logits, stream))


def expert(top: int = 0, times: int = 190, classes: int = 4, **streams: Any) -> Certificate:
    logits = won(top, classes, times)
    return proof_of(plan_of(logits, **streams), logits)


ROUTER = won(1, 3, 180)  # expert 1, then expert 2, and never expert 0
ALONE = plan_of(ROUTER)


def by_hand(times: int) -> float:
    return float(SIGMA * stats.norm.ppf(stats.beta.ppf(TERMS.alpha, times, N - times + 1)))


def test_it_is_the_smallest_radius_of_the_parts() -> None:
    for times, plan in ((195, ALONE), (160, ALONE), (160, plan_of(ROUTER, [1])), (195, plan_of(ROUTER, []))):
        made = RoutedCertificate(plan, proof_of(plan, ROUTER), (expert(times=times),), fallback=0)
        assert made.router_radius == pytest.approx(by_hand(180))
        assert made.expert_radius == pytest.approx(by_hand(times))
        assert made.radius == pytest.approx(by_hand(min(times, 180)))
        assert (made.prediction, made.answering, made.alpha, made.n) == (0, (1,), TERMS.alpha, 2 * N)
        assert "Router: With probability" in made.guarantee
        assert "Expert 1: With probability" in made.guarantee
        assert "experts [1]" in repr(made)
        assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301 (our own bytes)


def test_more_experts_widen_the_radius_of_the_router_and_all_need_none() -> None:
    both = plan_of(ROUTER, [1, 2])
    made = RoutedCertificate(both, proof_of(both, ROUTER), (expert(times=170), expert(times=175)), fallback=2)
    assert made.router_radius == pytest.approx(by_hand(N))  # it never lost a duel with expert 0
    assert made.radius == pytest.approx(by_hand(170))
    assert "except those with [1, 2]" in made.guarantee
    every = plan_of(ROUTER, [0, 1, 2])
    made = RoutedCertificate(every, None, (expert(times=170), expert(times=199), expert()), fallback=0)
    assert made.router_radius == math.inf
    assert made.radius == pytest.approx(by_hand(170))
    assert (made.n, "router not needed" in repr(made)) == (3 * N, True)


def test_a_part_that_abstains_certifies_nothing() -> None:
    made = RoutedCertificate(ALONE, proof_of(ALONE, ROUTER), (expert(times=100),), fallback=0)
    assert (made.prediction, made.radius) == (-1, 0.0)
    assert made.guarantee.startswith("Nothing is certified: class 0 could not")
    tied = won(1, 3, 100)
    made = RoutedCertificate(ALONE, proof_of(ALONE, tied), (expert(),), fallback=0)
    assert (made.prediction, made.radius) == (-1, 0.0)


def test_the_risk_is_the_largest_of_the_parts_and_not_their_sum() -> None:
    easy, terms = won(0, 4, 190), Terms(SIGMA, 0.05, N)
    bold = prove(Duels().plan(made_up_scores(easy, SELECTION), terms), terms, made_up_scores(easy))
    made = RoutedCertificate(ALONE, proof_of(ALONE, ROUTER), (bold,), fallback=0)
    assert made.alpha == 0.05
    assert made.guarantee.startswith("With probability at least 1 − 0.05 over the sampling")


def test_duels_with_the_set_count_as_won_and_no_others() -> None:
    generator = np.random.default_rng(0)
    logits = torch.from_numpy(generator.integers(0, 3, (500, 6))).float()
    none = torch.tensor([], dtype=torch.long)
    for top, inside in ((0, (0, 3)), (4, (1, 2, 4)), (2, ())):
        alone = [k for k in (5, 3, 1, 0, 2, 4) if k != top]
        columns = DuelsOutside(inside=inside).columns(logits, top, torch.tensor(alone), none)
        slow = [[k in inside or row[top] > row[k] for k in alone] for row in logits.tolist()]
        assert columns.tolist() == slow
    pooled = DuelsOutside(inside=(1, 2)).columns(logits, 0, torch.tensor([3]), torch.tensor([1, 2, 4, 5]))
    assert pooled.tolist() == [[row[0] > row[3], row[0] > max(row[k] for k in (1, 2, 4, 5))] for row in logits.tolist()]


def planned_by(planner: Planner) -> Certificate:
    scores = made_up_scores(won(0, 4, 190), SELECTION)
    return prove(planner.plan(scores, TERMS), TERMS, made_up_scores(won(0, 4, 190)))


def test_what_is_no_certificate_of_a_routed_classifier_is_refused() -> None:
    router, both = proof_of(ALONE, ROUTER), plan_of(ROUTER, [1, 2])
    wide, every = proof_of(both, ROUTER), plan_of(ROUTER, [0, 1, 2])
    other_noise = prove(plan_of(won(0, 4, 190)), Terms(SIGMA, 0.01, N), made_up_scores(won(0, 4, 190)))
    object.__setattr__(other_noise, "noise", "other")
    easy = won(0, 4, 190)
    spared = proof_of(plan_of(easy, [0, 1, 2, 3]), easy)
    votes = Cohen().plan(made_up_scores(ROUTER, SELECTION), TERMS)
    wrong: list[tuple[str, Any, Any, Any, int]] = [
        ("must be a Plan of Duel or DuelsOutside", votes, router, (expert(),), 0),
        ("must be a Plan of Duel or DuelsOutside", "plan", router, (expert(),), 0),
        # Experts 1 and 2 agree and 0 is outside; but where none wins all duels, expert 0 answers.
        (r"\(1, 2\) of 3 must contain the fallback 0", both, wide, (expert(), expert()), 0),
        (r"\(1,\) of 3 must contain the fallback 3", ALONE, router, (expert(),), 3),
        (r"\(1, 7\) of 3 must contain", plan_of(ROUTER, [1, 7]), router, (expert(), expert()), 1),
        (r"give certificates of the experts \(1, 2\)", both, wide, (expert(),), 1),
        ("and of the router if these are not all 3", ALONE, None, (expert(),), 0),
        ("and of the router if these are not all 3", every, wide, (expert(), expert(), expert()), 0),
        ("give certificates of the experts, and", ALONE, router, ("certificate",), 0),
        ("that of the router for its plan", ALONE, wide, (expert(),), 0),
        ("that of the router for its plan", both, router, (expert(), expert()), 1),
        ("about one class", both, wide, (expert(0), expert(1)), 1),
        ("about one class", both, wide, (expert(), expert(classes=5)), 1),
        ("and all its duels", ALONE, router, (spared,), 0),
        ("one map for all inputs", ALONE, router, (planned_by(LVM(temperatures=(1.0,))),), 0),
        ("the same kind of noise", ALONE, router, (other_noise,), 0),
        ("planned on one stream", ALONE, router, (Deterministic().certify(easy[0], 1.0),), 0),
    ]
    for sentence, plan, part, experts, fallback in wrong:
        with pytest.raises(ProofError, match=sentence):
            RoutedCertificate(plan, part, experts, fallback)


def test_the_stream_of_the_proofs_cannot_be_one_of_planning() -> None:
    """Another part's proof on the stream on which S was chosen, which the proof of that part alone accepts."""
    easy, late = won(0, 4, 190), Stream(0, 0, "attack")
    on_certification = proof_of(plan_of(easy, origin=CERTIFICATION), easy, OTHER)
    elsewhere = proof_of(plan_of(easy, origin=late), easy)
    crossed = plan_of(ROUTER, None, CERTIFICATION)
    for plan, part, one in (
        (ALONE, proof_of(ALONE, ROUTER), on_certification),
        (ALONE, proof_of(ALONE, ROUTER, OTHER), on_certification),
        (ALONE, proof_of(ALONE, ROUTER), elsewhere),
        (ALONE, proof_of(ALONE, ROUTER, OTHER), expert()),
        (crossed, proof_of(crossed, ROUTER, OTHER), expert()),
    ):
        with pytest.raises(ProofError, match="planned on one stream of noise, and all be proved on another one"):
            RoutedCertificate(plan, part, (one,), 0)
    every = plan_of(ROUTER, [0, 1, 2], CERTIFICATION)
    with pytest.raises(ProofError, match="planned on one stream of noise"):
        RoutedCertificate(every, None, (expert(), expert(), expert()), 0)
