import dataclasses
import math
from collections.abc import Iterable

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from lvmrs import LVM, Choice, Cohen, Duels, Fixed, Lipschitz, Paper, Plan, Planner, Terms, Votes
from lvmrs.errors import InvalidArgumentError, ProofError
from lvmrs.kernel import proof as prove
from lvmrs.kernel import radius
from lvmrs.kernel.bounds import betting, clopper_pearson
from lvmrs.kernel.bounds.betting import Betting
from lvmrs.kernel.bounds.clopper_pearson import ClopperPearson
from lvmrs.kernel.maps import softmax, sparsemax
from lvmrs.kernel.radius import R2
from lvmrs.planners import search as forecast
from lvmrs.planners.duels import calibrated_width
from lvmrs.planners.fixed import calibrated
from lvmrs.planners.search import TEMPERATURES, ScoreMoments
from lvmrs.planners.votes import sign_test
from lvmrs.registry import FORMS
from lvmrs.testing import SELECTION, made_up_scores
from tests.oracles import random_logits

TERMS = Terms(0.5, 0.001, 10_000)


def logits(n: int, c: int = 10, lead: float = 2.0, seed: int = 0) -> torch.Tensor:
    z = random_logits(n, c, scale=1.5, seed=seed, dtype=torch.float32)
    z[:, 3] += lead
    z[:, 7] += lead / 2
    return z


def planned(planner: Planner, scores: torch.Tensor | Iterable[torch.Tensor], terms: Terms = TERMS) -> Plan:
    return planner.plan(made_up_scores(scores, SELECTION), terms)


PLANNERS: list[Planner] = [
    Cohen(),
    Votes(),
    LVM(),
    Paper(),
    Fixed("softmax", 0.5),
    Lipschitz("ramp"),
    Lipschitz("both", mass=3.0),
    Duels(),
    Duels(0.7),
    Duels("chosen"),
]


@pytest.mark.parametrize("planner", PLANNERS, ids=type)
@pytest.mark.parametrize("c", [2, 3, 10, 1000])
def test_every_plan_is_one_that_the_prover_takes(planner: Planner, c: int) -> None:
    z = random_logits(300, c, dtype=torch.float32)
    terms = Terms(0.5, 0.01, 200, lipschitz=3.0)
    plan = planned(planner, torch.split(z[:100], 33), terms)
    assert (plan.origin, plan.n0, plan.planner) == (SELECTION, 100, type(planner).__name__)
    assert plan.scope == planner.scope
    assert plan.risk <= terms.alpha * (1 + 1e-12)
    prove.prove(plan, terms, made_up_scores(z[100:]))
    with pytest.raises(ProofError, match="the plan was made on these very scores"):
        prove.prove(plan, terms, made_up_scores(z[100:], SELECTION))


class Own(Planner):
    """What an author writes."""

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        shown = torch.cat(list(logits))
        return Cohen().choose([shown], terms)


def test_where_a_plan_comes_from_is_stamped_on_it_whoever_wrote_the_planner() -> None:
    z = logits(300)
    plan = planned(Own(), z[:100], Terms(0.5, 0.01, 200))
    assert (plan.origin, plan.n0, plan.planner, plan.scope) == (SELECTION, 100, "Own", "this input")
    with pytest.raises(ProofError, match="the plan was made on these very scores"):
        prove.prove(plan, Terms(0.5, 0.01, 200), made_up_scores(z[100:], SELECTION))
    with pytest.raises(TypeError, match=r"Sly\.plan is final, since it records the stream of a plan"):
        type("Sly", (Cohen,), {"plan": lambda self, scores, terms: None})
    with pytest.raises(InvalidArgumentError, match="scores must be Scores, which know their stream, got list"):
        Own().plan([z], TERMS)  # type: ignore[arg-type]
    mixed = type("Mixed", (), {"plan": lambda self, scores, terms: None})
    with pytest.raises(TypeError, match=r"Heir\.plan is final"):
        type("Heir", (mixed, Cohen), {})
    with pytest.raises(InvalidArgumentError, match="terms must be Terms, got float"):
        Own().plan(made_up_scores(z), 0.001)  # type: ignore[arg-type]
    clumsy = type("Clumsy", (Own,), {"choose": lambda self, logits, terms: vars(terms)["nothing"]})
    with pytest.raises(InvalidArgumentError, match=r"Clumsy\.choose fails \(KeyError: 'nothing'\)"):
        planned(clumsy(), z)
    lazy = type("Lazy", (Own,), {"choose": lambda self, logits, terms: None})
    with pytest.raises(InvalidArgumentError, match=r"Lazy\.choose must return a Choice, got NoneType"):
        planned(lazy(), z)


def test_cohen_picks_the_class_with_most_votes() -> None:
    plan = planned(Cohen(), logits(100))
    assert (plan.top, plan.map.name, plan.bound.name, plan.form.name) == (3, "hardmax", "clopper_pearson", "r3")
    assert plan.risk_top == TERMS.alpha
    assert plan.risk_rival == 0
    assert plan.rivals == ([], [])
    tied = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert planned(Cohen(), tied).top == 1


def test_votes_bound_every_rival_or_none() -> None:
    """R2 where rivals share the rest; R3 where one rival has all of it."""
    plan = planned(Votes(), logits(1000))
    assert (plan.map.name, plan.bound.name, plan.form.name) == ("hardmax", "clopper_pearson", "r2")
    assert plan.risk_top == plan.risk_rival == TERMS.alpha / 2
    assert plan.rivals == ([k for k in range(10) if k != 3], [])
    pair = planned(Votes(), logits(1000)[:, [3, 7]])
    assert (pair.form.name, pair.risk_top, pair.risk_rival) == ("r3", TERMS.alpha, 0.0)


def test_survey_is_one_map_after_another_in_any_batches() -> None:
    z = logits(400)
    moments = ScoreMoments.of(
        torch.split(z, 7), maps=("hardmax", "softmax", "sparsemax"), temperatures=TEMPERATURES, mass=1.0
    )
    assert moments.n0 == 400
    assert [each.name for each in moments.maps] == ["hardmax"] + ["softmax"] * 50 + ["sparsemax"] * 50
    for row, apply in ((11, softmax), (80, sparsemax)):
        p = apply(z, temperature=moments.maps[row].temperature).double()
        np.testing.assert_allclose(moments.mean[row], p.mean(dim=0), atol=1e-6)
        np.testing.assert_allclose(moments.variance[row], p.var(dim=0), atol=1e-6)
    assert moments.mean[0].tolist() == pytest.approx(torch.bincount(z.argmax(dim=1), minlength=10) / 400)


def test_temperatures_are_those_of_the_paper() -> None:
    assert len(TEMPERATURES) == 50
    assert TEMPERATURES[0] == pytest.approx(0.01)
    assert TEMPERATURES[-1] == pytest.approx(50)
    ratios = np.array(TEMPERATURES[1:]) / np.array(TEMPERATURES[:-1])
    np.testing.assert_allclose(ratios, ratios[0])


@pytest.mark.parametrize("classes", [2, 3, 10, 24, 25, 1000])
def test_far_rivals_are_pooled_only_where_that_saves_work(classes: int) -> None:
    order = list(range(classes))[::-1]
    for bound in (Betting(), ClopperPearson()):
        alone = bound.alone(order[1:], others=1)
        duels = bound.alone(order[1:], others=0)
        if bound.cheap_columns is None or classes <= bound.cheap_columns:
            assert alone is None
        else:
            assert alone == tuple(order[1 : bound.cheap_columns - 1])
        if bound.cheap_columns is None or classes - 1 <= bound.cheap_columns:
            assert duels is None
        else:
            assert duels == tuple(order[1 : bound.cheap_columns])


def test_forecasts_come_close_to_what_is_certified() -> None:
    """What n0 = 2000 samples promise for n, and what n fresh samples give."""
    terms = Terms(0.5, 0.001, 20_000)
    moments = ScoreMoments.of([logits(2000)], maps=("hardmax", "softmax"), temperatures=(0.3, 1.0), mass=1.0)
    found = forecast.forecasts(moments, terms, bounds=("betting",), forms=(R2(),))[0]
    for row in range(3):
        choice = found.choice(moments, row, terms)
        fields = {field.name: getattr(choice, field.name) for field in dataclasses.fields(choice)}
        plan = Plan(**fields, planner="test", scope="this input", origin=SELECTION, n0=2000)
        certificate = prove.prove(plan, terms, made_up_scores(logits(20_000, seed=1)))
        assert certificate.radius == pytest.approx(found.expected[row], rel=0.15)


def test_forecast_widths_are_those_of_the_bounds() -> None:
    random = np.random.default_rng(0)
    for samples in (random.beta(60, 2, 10_000), random.random(10_000)):
        low = Betting().forecast(samples.mean(), samples.var(), 10_000, 0.001)
        assert samples.mean() - low == pytest.approx(samples.mean() - betting.lower(samples, 0.001), rel=0.25)
    assert ClopperPearson().forecast(np.array(0.9), np.array(0.09), 100, 0.01) == clopper_pearson.lower(90, 100, 0.01)


def test_lvm_is_never_knowingly_worse_than_cohen() -> None:
    for seed in range(10):
        z = logits(300, lead=0.5 * seed, seed=seed)
        moments = ScoreMoments.of([z], maps=LVM().maps, temperatures=TEMPERATURES, mass=1.0)
        found = forecast.forecasts(moments, TERMS, bounds=LVM().bounds, forms=(R2(),))
        row, top = forecast.best(found)
        votes = int(np.floor(moments.mean[0].max() * TERMS.n))
        cohen = radius.r3(clopper_pearson.lower(votes, TERMS.n, TERMS.alpha), sigma=TERMS.sigma)
        assert max(top.expected[row], 0.0) >= cohen - 1e-12


def test_lvm_uses_the_ramp_when_it_pays_and_a_constant_is_known() -> None:
    z = logits(500, lead=6.0)
    assert planned(LVM(), z, Terms(0.1, 0.001, 10_000)).form.name in ("r2", "r3")
    assert planned(LVM(), z, Terms(0.1, 0.001, 10_000, lipschitz=1.0)).form.name == "ramp"


def test_lvm_leaves_votes_only_for_more_than_noise() -> None:
    """Votes are best here: the luckiest of the soft maps must not be taken. Where it is sure, a soft map is."""
    left = 0
    for seed in range(30):
        plan = planned(LVM(), logits(100, lead=3.0, seed=seed), Terms(0.5, 0.001, 1000))
        left += plan.map.name != "hardmax"
    assert left <= 3
    # With a Lipschitz constant soft maps have a radius that votes have not: the rule does not keep them back.
    known = Terms(0.5, 0.001, 1000, lipschitz=1.0)
    for seed in range(5):
        z = logits(100, lead=3.0, seed=seed)
        assert planned(LVM(), z, known) == dataclasses.replace(planned(LVM(maps=("softmax", "sparsemax")), z, known))
    # Class 0 wins little more than half of the votes, but by much when it wins: there a soft map is sure to pay.
    lopsided = torch.where(torch.arange(1000)[:, None] % 25 < 13, torch.tensor([2.0, 0.0]), torch.tensor([0.0, 0.05]))
    assert planned(LVM(), lopsided).map.name != "hardmax"


def test_where_nothing_is_hoped_for_the_bound_still_suits_the_map() -> None:
    terms = Terms(0.5, 0.001, 20)
    z = random_logits(60, 10, dtype=torch.float32)
    for planner in (Fixed("softmax", 0.01), LVM(maps=("sparsemax",)), Votes(), LVM()):
        plan = planned(planner, z[:40], terms)
        assert prove.prove(plan, terms, made_up_scores(z[40:])).prediction == -1


def test_lvm_takes_what_it_is_given() -> None:
    plan = planned(LVM(maps=("softmax",), temperatures=(0.5,), mass=2.0, bounds=("hoeffding",)), logits(200))
    chosen = (plan.map.name, plan.map.temperature, plan.map.mass, plan.bound.name)
    assert chosen == ("softmax", 0.5, 2.0, "hoeffding")


def paper_by_hand(z: torch.Tensor, sigma: float, risk: float) -> tuple[str, float]:
    """The paper's search written out: one map, temperature and class at a time, each class bounded at this risk."""
    best, chosen = -math.inf, ("", 0.0)
    n, c = z.shape
    for name, apply in (("softmax", softmax), ("sparsemax", sparsemax)):
        for t in TEMPERATURES:
            p = apply(z, temperature=t).double()
            log = math.log(2 / risk)
            shift = (2 * p.var(dim=0) * log / n).sqrt() + 7 * log / (3 * (n - 1))
            top = int(p.mean(dim=0).argmax())
            low = float(p.mean(dim=0)[top] - shift[top])
            high = max(float(p.mean(dim=0)[k] + shift[k]) for k in range(c) if k != top)
            value = float(radius.r2(min(max(low, 0), 1), min(max(high, 0), 1), sigma=sigma))
            if value > best:
                best, chosen = value, (name, t)
    return chosen


@pytest.mark.parametrize(("union", "risk"), [(False, 0.0005), (True, 0.0001)], ids=["two events", "union"])
def test_paper_is_the_search_of_the_paper(union: bool, risk: float) -> None:
    """Two events share the risk, or all ten classes do."""
    z = logits(1000, lead=4.0)
    plan = planned(Paper(maps=("softmax", "sparsemax"), union=union), z)
    assert (plan.map.name, plan.map.temperature) == paper_by_hand(z, 0.5, risk)
    assert plan.bound.name == "bernstein"
    assert plan.form.name == "r2"
    assert len(plan.rivals[0]) == 9
    assert plan.risk_top == plan.risk_rival == pytest.approx(risk)


def test_a_union_over_the_classes_only_makes_radii_of_paper_smaller() -> None:
    z = logits(1500, lead=4.0)
    terms = Terms(0.5, 0.001, 500)
    found = []
    for union in (False, True):
        plan = planned(Paper(maps=("softmax",), temperatures=(0.5,), union=union), z[:1000], terms)
        found.append(prove.prove(plan, terms, made_up_scores(z[1000:])).radius)
    assert found[0] > found[1] > 0
    two = [planned(Paper(union=union), z[:1000, :2], terms) for union in (False, True)]
    assert two[0] == two[1]  # two classes are the two events


def test_fixed_keeps_map_and_temperature_and_says_so() -> None:
    plans = [planned(Fixed("softmax", 0.4, mass=2.0), logits(200, seed=s)) for s in range(4)]
    assert {(plan.map.name, plan.map.temperature, plan.map.mass, plan.scope) for plan in plans} == {
        ("softmax", 0.4, 2.0, "all inputs")
    }


def duels_by_hand(z: torch.Tensor) -> tuple[int, int]:
    """The class with the best worst duel, and how often it wins that, pair by pair."""
    wins = [[sum(row[a] > row[b] for row in z.tolist()) for b in range(z.shape[1])] for a in range(z.shape[1])]
    worst = [min(wins[a][b] for b in range(z.shape[1]) if b != a) for a in range(z.shape[1])]
    return worst.index(max(worst)), max(worst)


@pytest.mark.parametrize("seed", range(5))
def test_duels_pick_the_class_with_the_best_worst_duel(seed: int) -> None:
    z = logits(150, c=8, lead=0.5, seed=seed).round(decimals=1)  # with ties
    plan = planned(Duels(), torch.split(z, 40))
    top, _ = duels_by_hand(z)
    assert plan.top == top
    assert (plan.map.name, plan.bound.name, plan.form.name) == ("duel", "clopper_pearson", "r3")
    assert (plan.risk_top, plan.risk_rival, plan.alone) == (0.0, TERMS.alpha, None)


def test_a_class_without_votes_can_win_all_duels() -> None:
    z = torch.tensor([[2.0, 3.0, 0.0, 0.0], [2.0, 0.0, 3.0, 0.0], [2.0, 0.0, 0.0, 3.0]]).repeat(100, 1)
    assert planned(Cohen(), z).top != 0
    plan = planned(Duels(), z)
    assert plan.top == 0
    assert prove.prove(plan, Terms(0.5, 0.001, 300), made_up_scores(z)).prediction == 0


def test_a_thousand_classes_are_searched_among_the_strongest() -> None:
    z = random_logits(200, 1000, dtype=torch.float32)
    z[:, 500] += 4.0
    assert planned(Duels(), z).top == 500
    soft = planned(Duels(0.5), z)
    assert soft.bound.name == "betting"
    alone, pooled = soft.rivals
    assert (len(alone), len(alone) + len(pooled)) == (23, 999)
    wins = [int((z[:, 500] > z[:, k]).sum()) for k in range(1000) if k != 500]
    worst = sorted(range(999), key=lambda k: wins[k])[:5]
    assert {k if k < 500 else k + 1 for k in worst} <= set(alone)


def test_widths_of_duels() -> None:
    z = logits(500, lead=2.0)
    assert planned(Duels(0.4), z).map.temperature == 0.4
    assert planned(Duels(0.4), z).form.name == "r3"
    known = Terms(0.5, 0.001, 10_000, lipschitz=1.0)
    assert planned(Duels(0.4), z, known).form.name == "ramp"
    assert planned(Duels(), z, known).form.name == "r3"
    chosen = planned(Duels("chosen"), z, known)
    assert (chosen.map.name, chosen.form.name, chosen.scope) == ("soft-duel", "ramp", "this input")
    assert Duels(0.4).scope == Duels().scope == "all inputs"
    assert planned(Duels("chosen"), z).map.name == "duel"
    radii = {
        str(width): prove.prove(planned(Duels(width), z, known), known, made_up_scores(logits(10_000, seed=1))).radius
        for width in (None, 0.05, 1.0, 30.0, "chosen")
    }
    assert radii["chosen"] >= max(radii.values()) * 0.99
    for width, sentence in (
        ("wide", "width must be a number, 'chosen' or None, got 'wide'"),
        (-1.0, r"width must be positive and finite, got -1\.0"),
    ):
        with pytest.raises(InvalidArgumentError, match=sentence):
            Duels(width)  # type: ignore[arg-type]


def test_the_calibrated_width_is_half_the_typical_deviation_of_the_margin() -> None:
    inputs = [logits(400, lead=6.0, seed=seed) for seed in range(5)]
    deviations = []
    for z in inputs:
        margins = z[:, 3:4] - z
        nearest = min((k for k in range(10) if k != 3), key=lambda k: int((margins[:, k] > 0).sum()))
        deviations.append(float(margins[:, nearest].double().numpy().std()))
    assert calibrated_width([z] for z in inputs) == pytest.approx(np.median(deviations) / 2)
    with pytest.raises(InvalidArgumentError, match="no calibration inputs were given"):
        calibrated_width([])
    with pytest.raises(InvalidArgumentError, match="the margins do not vary under noise"):
        calibrated_width([[torch.zeros(10, 3)]])


def test_calibration_finds_the_best_candidate_on_average() -> None:
    inputs = [logits(300, lead=lead, seed=s) for s, lead in enumerate((1.0, 2.0, 3.0))]
    found = calibrated(([z] for z in inputs), TERMS)
    totals = np.zeros(101)
    for z in inputs:
        moments = ScoreMoments.of([z], maps=LVM().maps, temperatures=TEMPERATURES, mass=1.0)
        totals += np.maximum(forecast.forecasts(moments, TERMS, bounds=("betting",), forms=(R2(),))[0].expected, 0)
    row = int(totals.argmax())
    assert (found.map, found.temperature) == (moments.maps[row].name, moments.maps[row].temperature)
    assert found.form == "r2"


def test_calibration_objectives_and_labels() -> None:
    inputs = [logits(300, lead=3.0, seed=s) for s in range(3)]
    accurate = calibrated(([z] for z in inputs), TERMS, objective="accuracy", epsilon=0.2, labels=[3, 3, 3])
    assert isinstance(accurate, Fixed)
    with pytest.raises(InvalidArgumentError, match="objective must be one of average radius, accuracy, got 'fame'"):
        calibrated([[inputs[0]]], TERMS, objective="fame")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="no calibration inputs were given"):
        calibrated([], TERMS)


def test_lipschitz_procedures_are_ordered() -> None:
    """What the table of the paper shows: both effects together beat noise alone, and the ramp beats both."""
    terms = Terms(0.4, 0.001, 5000, lipschitz=1.0)
    radii = []
    for procedure in ("noise", "both", "ramp"):
        plan = planned(Lipschitz(procedure), logits(500, lead=4.0), terms)
        radii.append(prove.prove(plan, terms, made_up_scores(logits(5000, lead=4.0, seed=1), sigma=0.4)).radius)
    assert radii[0] < radii[1] < radii[2]


def test_bad_planners_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="procedure must be one of noise, both, ramp, got 'luck'"):
        Lipschitz("luck")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="map must preserve a Lipschitz constant, and hardmax does not"):
        Lipschitz("both", map="hardmax")
    with pytest.raises(InvalidArgumentError, match=f"form must be one of {FORMS.listed}, got 'r9'"):
        Fixed("softmax", form="r9")
    assert Fixed("softmax", form="r1").needs_constant
    for planner in PLANNERS:
        with pytest.raises(InvalidArgumentError, match="n0 must be at least 1"):
            planned(planner, [])
    with pytest.raises(InvalidArgumentError, match="temperatures is empty"):
        LVM(temperatures=())
    with pytest.raises(InvalidArgumentError, match=r"temperatures must be positive and finite, got -1\.0 at index 1"):
        Paper(temperatures=(1.0, -1.0))
    with pytest.raises(InvalidArgumentError, match=r"maps must be a tuple of at least one name, got \(\)"):
        LVM(maps=())
    with pytest.raises(InvalidArgumentError, match=r"maps must be one of hardmax, .*, got 'maxout'"):
        Fixed("maxout")
    with pytest.raises(InvalidArgumentError, match=r"bounds must be one of .*, got 'hope'"):
        LVM(bounds=("hope",))
    with pytest.raises(InvalidArgumentError, match="maps must be a map to the simplex, got duel; use the method duels"):
        LVM(maps=("hardmax", "duel"))
    with pytest.raises(InvalidArgumentError, match="bounds must include one for soft maps"):
        LVM(bounds=("clopper_pearson",))
    with pytest.raises(InvalidArgumentError, match=r"mass must be positive and finite, got -1\.0"):
        LVM(mass=-1.0)


def test_plans_are_short_to_read() -> None:
    plan = planned(LVM(), logits(300, c=1000))
    assert isinstance(plan, Plan)
    assert len(repr(plan)) < 150


def test_two_counts_are_compared_as_scipy_does_it() -> None:
    for won, lost in ((1, 0), (1, 1), (9, 1), (5, 6), (60, 40), (900, 1100), (50_400, 49_600), (10**7, 10**7 + 9000)):
        expected = stats.binomtest(won, won + lost, 0.5).pvalue
        assert sign_test(won, lost) == pytest.approx(expected, rel=1e-9)
