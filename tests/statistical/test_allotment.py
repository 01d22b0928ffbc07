"""Numbers of samples that are planned for inputs which share a budget make no certificate false more often than alpha.

The mutant plans them on the very samples of the proof: then each number has its own chance to be false.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lvmrs import Cohen, Duels, Plan, Planner, Terms, Votes, certifying
from lvmrs.certifying import Asked, Planning, certified_within
from lvmrs.goals import Goal
from lvmrs.prove import prove
from lvmrs.sampling import Request, Sampler
from lvmrs.testing import FAMILIES, SIGMA, Family, is_false, too_many
from tests.oracles import Floats
from tests.statistical.test_anytime_certificates import LARGE, NEAR_A_TIE, PLANNERS


def no_network(x: Tensor) -> Tensor:
    raise AssertionError("samples are made up")


def drawn(known: Family, request: Request) -> Tensor:
    """The made-up samples of a stream: always the same."""
    stream = request.stream
    seed = [stream.seed, stream.index, zlib.crc32(stream.stage.encode())]
    return known.draw(np.random.default_rng(seed), request.n)


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
    sampler, terms = Sampler(no_network, SIGMA, 1), Terms(SIGMA, alpha, n, lipschitz)
    inputs = [Asked.of(sampler, torch.zeros(1), seed, index, n0, n) for index in range(len(families))]

    def answers(requests: Iterable[Request]) -> Iterator[Iterator[Tensor]]:
        for request in requests:
            yield iter([drawn(families[request.stream.index], request)])

    budget = each * len(families)
    planning = Planning(planner, lambda x: terms, Goal(budget=budget))
    found = list(certified_within(inputs, answers, planning))
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
    sampler = Sampler(no_network, SIGMA, 1)

    def what_the_proof_will_say(plan: Plan, terms: Terms, logits: Tensor, counts: Sequence[int]) -> Floats:
        index = plan.origin.index
        radii = []
        for n in counts:
            request = Asked.of(sampler, torch.zeros(1), plan.origin.seed, index, 1, n).certification
            samples = drawn(NEAR_A_TIE, request)
            radii.append(prove(plan, Terms(SIGMA, 0.05, n), request.scores(iter([samples]))).radius)
        return np.array(radii)

    settings: dict[str, Any] = {"alpha": 0.05, "n0": 30, "n": 1000, "each": 1030, "lipschitz": np.inf}
    honest = sum(false_within_a_budget(planner, [NEAR_A_TIE] * 50, seed=seed, **settings) for seed in range(6))
    assert not too_many(honest, 300, 0.05)
    monkeypatch.setattr(certifying, "expected_radii", what_the_proof_will_say)
    wrong = sum(false_within_a_budget(planner, [NEAR_A_TIE] * 50, seed=seed, **settings) for seed in range(6))
    assert too_many(wrong, 300, 0.05), f"only {wrong} of 300 are false"
