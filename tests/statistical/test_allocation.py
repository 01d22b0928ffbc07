"""Numbers of samples that are planned for inputs which share a budget make no certificate false more often than alpha.

The mutant plans them on the very samples of the proof: then each number has its own chance to be false.
"""

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from lvmrs import Cohen, Duels, Plan, Planner, Terms, Votes
from lvmrs.engine import pipeline
from lvmrs.engine.pipeline import Item, Need, Procedure
from lvmrs.engine.sources import GivenScores
from lvmrs.kernel.method import Goal
from lvmrs.kernel.noise import Stream
from lvmrs.kernel.proof import prove
from lvmrs.kernel.scores import Scores
from lvmrs.testing import FAMILIES, SIGMA, Family, is_false, made_up_scores, too_many
from tests.oracles import Floats
from tests.statistical.test_anytime_certificates import LARGE, NEAR_A_TIE, PLANNERS


def drawn(known: Family, stream: Stream, n: int) -> Scores:
    """The made-up samples of a stream: always the same."""
    seed = [stream.seed, stream.index, zlib.crc32(stream.stage.encode())]
    return made_up_scores(known.draw(np.random.default_rng(seed), n), stream)


def false_within_a_budget(
    planner: Planner,
    families: Sequence[Family],
    *,
    alpha: float,
    n0: int,
    n: int,
    each: int,
    lipschitz: float = 1.0,
    seed: int = 0,
) -> int:
    """How many certificates are false of inputs that share a budget, one of each family."""
    terms, budget = Terms(SIGMA, alpha, n, lipschitz), each * len(families)
    items = [Item(index, None, lambda: terms) for index in range(len(families))]

    def scores(item: Item, need: Need) -> Scores:
        return drawn(families[item.index], Stream(seed, item.index, need.stage), need.n)

    procedure = Procedure(planner, n0, Goal(budget=budget))
    found = [certificate for _, certificate in pipeline.certify(items, GivenScores(scores), procedure, n)]
    assert sum(certificate.n + n0 for certificate in found) <= budget
    return sum(is_false(certificate, known) for certificate, known in zip(found, families, strict=True))


@pytest.mark.parametrize("name", PLANNERS)
def test_planned_numbers_make_no_certificate_false_more_often_than_alpha(name: str) -> None:
    small = [known for kind, known in FAMILIES.items() if kind not in LARGE]
    repeats = 20 if name in ("Cohen", "Votes", "Duels") else 4
    wrong = sum(
        false_within_a_budget(PLANNERS[name], small, alpha=0.05, n0=40, n=600, each=240, seed=seed)
        for seed in range(repeats)
    )
    assert not too_many(wrong, repeats * len(small), 0.05), f"{wrong} of {repeats * len(small)} are false"


@pytest.mark.parametrize("planner", [Duels(), Votes(), Cohen()], ids=repr)
def test_near_a_tie_where_numbers_differ_most(planner: Planner) -> None:
    wrong = sum(
        false_within_a_budget(
            planner, [NEAR_A_TIE] * 50, alpha=0.05, n0=30, n=1000, each=200, lipschitz=np.inf, seed=seed
        )
        for seed in range(10)
    )
    assert not too_many(wrong, 500, 0.05), f"{wrong} of 500 are false"


@pytest.mark.parametrize("planner", [Duels(), Cohen()], ids=repr)
def test_numbers_that_are_chosen_on_the_samples_of_the_proof_are_caught(
    planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def what_the_proof_will_say(plan: Plan, terms: Terms, logits: Tensor, counts: Sequence[int]) -> Floats:
        stream = replace(plan.origin, stage="certification")
        return np.array([prove(plan, Terms(SIGMA, 0.05, n), drawn(NEAR_A_TIE, stream, n)).radius for n in counts])

    settings: dict[str, Any] = {"alpha": 0.05, "n0": 30, "n": 1000, "each": 1030, "lipschitz": np.inf}
    honest = sum(false_within_a_budget(planner, [NEAR_A_TIE] * 50, seed=seed, **settings) for seed in range(6))
    assert not too_many(honest, 300, 0.05)
    monkeypatch.setattr(pipeline, "expected_radii", what_the_proof_will_say)
    wrong = sum(false_within_a_budget(planner, [NEAR_A_TIE] * 50, seed=seed, **settings) for seed in range(6))
    assert too_many(wrong, 300, 0.05), f"only {wrong} of 300 are false"
