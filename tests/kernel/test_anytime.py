"""The anytime proof: what it gives at each moment, what it refuses, and that batches and pickles leave no trace."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from lvmrs import Cohen, Duels, Fixed, Lipschitz, Plan, Planner, Terms, Votes
from lvmrs.errors import InvalidArgumentError, ProofError
from lvmrs.kernel.anytime import AnytimeProof, sample_sizes
from lvmrs.kernel.bounds import beta_mixture, clopper_pearson
from lvmrs.kernel.bounds.beta_mixture import BetaMixture
from lvmrs.kernel.bounds.clopper_pearson import ClopperPearson, stages
from lvmrs.kernel.method import Goal, InterimResult
from lvmrs.kernel.proof import prove
from lvmrs.planners import Anytime
from lvmrs.testing import FAMILIES, SELECTION, check_planner, family, made_up_scores

TERMS = Terms(0.5, 0.01, 700, 1.0)
KNOWN = FAMILIES["c = 10, random"]
LOGITS = KNOWN.draw(np.random.default_rng(0), 700)
PLANNERS = [Duels(), Votes(), Cohen(), Duels(0.3), Fixed("softmax", 0.5), Lipschitz("ramp", map="softmax")]


def planned(planner: Planner, terms: Terms = TERMS) -> Plan:
    return Anytime(planner).plan(made_up_scores(KNOWN.draw(np.random.default_rng(1), 64), SELECTION), terms)


def proved(plan: Plan, batch: int, stop: int = 10_000, terms: Terms = TERMS) -> AnytimeProof:
    proof = AnytimeProof(plan, terms, beta=0.01, stop=lambda now: now.n >= stop)
    for portion in made_up_scores(torch.split(LOGITS, batch)):
        proof.add(portion)
    return proof


@pytest.mark.parametrize("planner", PLANNERS, ids=repr)
def test_where_it_stops_and_what_it_gives_do_not_depend_on_batches(planner: Planner) -> None:
    plan = planned(planner)
    for stop in (32, 100, 700):
        whole, one = proved(plan, 700, stop), proved(plan, 37, stop)
        assert whole.certificate() == one.certificate()
        assert whole.now == one.now
        assert whole.used == next(n for n in sample_sizes(700) if n >= stop) == whole.certificate().n
        assert whole.stopped


@pytest.mark.parametrize("planner", PLANNERS, ids=repr)
def test_it_goes_on_from_a_pickle_in_the_middle(planner: Planner) -> None:
    plan = planned(planner)
    proof = AnytimeProof(plan, TERMS, beta=0.01)
    for portion in made_up_scores(torch.split(LOGITS, 90)):
        proof = pickle.loads(pickle.dumps(proof))  # noqa: S301 (our own bytes)
        proof.add(portion)
    assert proof.certificate() == proved(plan, 700).certificate()
    assert len(pickle.dumps(proof)) < 20_000


@pytest.mark.parametrize("planner", PLANNERS, ids=repr)
def test_radii_grow_and_limits_fall_and_both_end_around_the_truth(planner: Planner) -> None:
    history: list[InterimResult] = []

    def remember(now: InterimResult) -> bool:
        history.append(now)
        return False

    proof = AnytimeProof(planned(planner), TERMS, stop=remember)
    for portion in made_up_scores(LOGITS):
        proof.add(portion)
    assert [now.n for now in history] == list(sample_sizes(700))[:-1]  # at the last look it stops anyway
    radii, limits = [now.radius for now in history], [now.limit for now in history]
    assert radii == sorted(radii)
    assert limits == sorted(limits, reverse=True)
    p_a, p_b = KNOWN.truth(plan := planned(planner))
    truth = float(plan.form.radius(p_a, p_b, sigma=0.5, slopes=plan.map.slopes(1.0)))
    assert proof.now.radius <= truth <= proof.now.limit
    assert limits[0] > limits[-1]


def test_for_duels_it_is_the_beta_mixture_of_the_hardest_duel() -> None:
    plan = planned(Duels())
    assert plan.alone is not None
    assert len(plan.alone) == 9
    best = np.zeros(9)
    for n in sample_sizes(700):
        shown = LOGITS[:n]
        wins = (shown[:, [plan.top]] > shown[:, list(plan.alone)]).sum(dim=0).numpy()
        prior = plan.bound.wins, plan.bound.losses  # type: ignore[attr-defined]
        best = np.maximum(best, beta_mixture.lower(wins, n, 0.01, prior=prior))
    found = proved(plan, 700).certificate()
    assert found.p_lower == pytest.approx(best.min(), abs=1e-12)
    selected = KNOWN.draw(np.random.default_rng(1), 64)
    first = (selected[:, [plan.top]] > selected[:, list(plan.alone)]).sum(dim=0)
    assert first.tolist() == sorted(first.tolist())  # the rival that won most comes first
    assert plan.bound.wins == tuple((first.double() + 0.1).tolist())  # type: ignore[attr-defined]


def test_easy_inputs_need_few_samples_and_hopeless_ones_are_given_up() -> None:
    sure, tied = family([(1.0, [3.0, 0.0, 0.0])]), family([(1.0, [1.0, 0.0]), (1.0, [0.0, 1.0])])
    spent, goal = [], Goal(targets=(0.25,))
    for known, answer in ((sure, "certified"), (tied, "cannot be certified")):
        random, terms = np.random.default_rng(3), Terms(0.5, 0.001, 100_000)
        plan = Anytime(Duels()).plan(made_up_scores(known.draw(random, 64), SELECTION), terms)
        proof = AnytimeProof(plan, terms, stop=goal.reached)
        for portion in made_up_scores(torch.split(known.draw(random, 2000), 100)):
            proof.add(portion)
        spent.append(proof.used)
        assert proof.certificate().verdict(0.25) == answer
    assert max(spent) < 400


def test_the_proof_for_one_n_takes_the_same_plans_and_gives_less_than_with_its_own_bound() -> None:
    plan = planned(Duels())
    anytime, fixed = (
        prove(plan, TERMS, made_up_scores(LOGITS)),
        prove(replace(plan, bound=ClopperPearson()), TERMS, made_up_scores(LOGITS)),
    )
    assert 0 < anytime.radius < fixed.radius
    assert proved(plan, 700).certificate().radius >= anytime.radius  # the best of all looks


def test_rounding_is_allowed_for() -> None:
    terms = replace(TERMS, rounding=0.01)
    plan = planned(Duels(0.3), terms)
    assert proved(plan, 700, terms=terms).now < proved(plan, 700).now  # radius and limit
    assert proved(plan, 700, terms=terms).certificate().rounding == 0.01


def test_what_is_refused() -> None:
    plan = planned(Duels())
    with pytest.raises(ProofError, match="clopper_pearson holds for one fixed number of samples only"):
        AnytimeProof(replace(plan, bound=ClopperPearson()), TERMS)
    with pytest.raises(ProofError, match="0 scores are too few for a first look"):
        AnytimeProof(plan, TERMS).certificate()
    with pytest.raises(ProofError, match="the plan was made on these very scores"):
        AnytimeProof(plan, TERMS).add(next(iter(made_up_scores(LOGITS, SELECTION))))
    proof = AnytimeProof(plan, TERMS)
    (portion,) = made_up_scores(LOGITS[:50])
    proof.add(portion)
    with pytest.raises(ProofError, match="sample 0 was given and sample 50 is next"):
        proof.add(portion)
    with pytest.raises(InvalidArgumentError, match="beta must"):
        AnytimeProof(plan, TERMS, beta=0.0)
    with pytest.raises(ProofError, match="more scores were given than the n = 700"):
        AnytimeProof(plan, TERMS).add(next(iter(made_up_scores(torch.cat([LOGITS, LOGITS])))))
    with pytest.raises(ProofError, match=r"spends a risk of 0\.01, more than alpha = 0\.001"):
        AnytimeProof(plan, replace(TERMS, alpha=0.001))
    with pytest.raises(InvalidArgumentError, match="already"):
        Anytime(Anytime(Duels()))
    with pytest.raises(InvalidArgumentError, match="planner must be a planner such as"):
        Anytime("duels")  # type: ignore[arg-type]


def test_a_proof_that_failed_is_broken() -> None:
    calls: list[int] = []

    def failing(now: InterimResult) -> bool:
        calls.append(now.n)
        raise RuntimeError("no")

    proof = AnytimeProof(planned(Duels()), TERMS, stop=failing)
    first, second = made_up_scores(torch.split(LOGITS, 350))
    with pytest.raises(RuntimeError, match="no"):
        proof.add(first)
    with pytest.raises(ProofError, match="begin the proof again"):
        proof.add(second)


def test_the_planner_keeps_its_promises() -> None:
    check_planner(Anytime(Duels()), repeats=5, families=["close pair"])
    wrapped = Anytime(Duels("chosen"))
    inner = Duels("chosen")
    assert (wrapped.scope, wrapped.uses_constant, wrapped.needs_constant) == (
        inner.scope, inner.uses_constant, inner.needs_constant
    )  # fmt: skip
    assert wrapped.classifier("noise") == inner.classifier("noise")


def test_stages_are_bounds_of_clopper_and_pearson_that_share_the_risk() -> None:
    plan = Anytime(Duels(), staged=True).plan(
        made_up_scores(KNOWN.draw(np.random.default_rng(1), 64), SELECTION), TERMS
    )
    assert plan.bound.name == "staged"
    assert stages(700) == [7, 70, 700]
    best = np.zeros(9)
    for n in stages(700):
        wins = (LOGITS[:n, [plan.top]] > LOGITS[:n, list(plan.alone or ())]).sum(dim=0).numpy()
        best = np.maximum(best, clopper_pearson.lower(wins, n, 0.01 / 3))
    for batch in (37, 700):
        assert proved(plan, batch).certificate().p_lower == pytest.approx(best.min(), abs=1e-12)


def test_many_rivals_of_soft_scores_are_pooled() -> None:
    known = FAMILIES["99 runners-up"]
    plan = Anytime(Fixed("softmax", 0.5, bounds=("bernstein",))).plan(
        made_up_scores(known.draw(np.random.default_rng(0), 40), SELECTION), TERMS
    )
    alone, pooled = plan.rivals
    assert len(alone) + 2 == 24
    assert len(pooled) == 99 - len(alone)
    assert isinstance(planned(Votes()).bound, BetaMixture)
