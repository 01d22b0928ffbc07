import math

import numpy as np
import pytest
import torch

from lvmrs import LVM, Cohen, Fixed, Lipschitz, Paper, Plan, Planner, Terms, prove, radius
from lvmrs.confidence import betting, clopper_pearson
from lvmrs.errors import InvalidArgumentError
from lvmrs.planners import forecast
from lvmrs.planners.fixed import calibrated
from lvmrs.planners.survey import TEMPERATURES, Survey
from lvmrs.sampling import Stream
from lvmrs.simplex import softmax, sparsemax
from tests.oracles import random_logits

ORIGIN, STREAM = Stream(0, 0, "selection"), Stream(0, 0, "certification")
TERMS = Terms(0.5, 0.001, 10_000)


def logits(n: int, c: int = 10, lead: float = 2.0, seed: int = 0) -> torch.Tensor:
    z = random_logits(n, c, scale=1.5, seed=seed, dtype=torch.float32)
    z[:, 3] += lead
    z[:, 7] += lead / 2
    return z


PLANNERS: list[Planner] = [
    Cohen(),
    LVM(),
    Paper(),
    Fixed("softmax", 0.5),
    Lipschitz("ramp"),
    Lipschitz("both", mass=3.0),
]


@pytest.mark.parametrize("planner", PLANNERS, ids=type)
@pytest.mark.parametrize("c", [2, 3, 10, 1000])
def test_every_plan_is_one_that_the_prover_takes(planner: Planner, c: int) -> None:
    z = random_logits(300, c, dtype=torch.float32)
    terms = Terms(0.5, 0.01, 200, lipschitz=3.0)
    plan = planner.plan(torch.split(z[:100], 33), terms, ORIGIN)
    assert plan.origin == ORIGIN
    assert plan.risk <= terms.alpha * (1 + 1e-12)
    prove.prove(plan, terms, [z[100:]], STREAM, n0=100)


def test_cohen_picks_the_class_with_most_votes() -> None:
    plan = Cohen().plan([logits(100)], TERMS, ORIGIN)
    assert (plan.top, plan.map, plan.bound, plan.radius) == (3, "hardmax", "clopper_pearson", "r3")
    assert plan.risk_top == TERMS.alpha
    assert plan.groups == ()
    tied = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert Cohen().plan([tied], TERMS, ORIGIN).top == 1


def test_survey_is_one_map_after_another_in_any_batches() -> None:
    z = logits(400)
    survey = Survey.of(torch.split(z, 7), maps=("hardmax", "softmax", "sparsemax"), temperatures=TEMPERATURES, mass=1.0)
    assert survey.n0 == 400
    assert survey.maps == ("hardmax",) + ("softmax",) * 50 + ("sparsemax",) * 50
    for row, apply in ((11, softmax), (80, sparsemax)):
        p = apply(z, temperature=float(survey.temperatures[row])).double()
        np.testing.assert_allclose(survey.mean[row], p.mean(dim=0), atol=1e-6)
        np.testing.assert_allclose(survey.variance[row], p.var(dim=0), atol=1e-6)
    assert survey.mean[0].tolist() == pytest.approx(torch.bincount(z.argmax(dim=1), minlength=10) / 400)


def test_temperatures_are_those_of_the_paper() -> None:
    assert len(TEMPERATURES) == 50
    assert TEMPERATURES[0] == pytest.approx(0.01)
    assert TEMPERATURES[-1] == pytest.approx(50)
    ratios = np.array(TEMPERATURES[1:]) / np.array(TEMPERATURES[:-1])
    np.testing.assert_allclose(ratios, ratios[0])


@pytest.mark.parametrize("classes", [2, 3, 10, 1000])
def test_layouts_spend_no_more_than_the_risk(classes: int) -> None:
    for layout in forecast.layouts(classes):
        top, groups = layout.risks(0.001, classes)
        assert math.fsum([top, *groups]) <= 0.001 * (1 + 1e-12)
        assert all(risk > 0 for risk in (top, *groups))
        assert len(groups) == (0 if layout.alone == 0 else layout.alone + (classes - 1 > layout.alone))


def test_forecasts_come_close_to_what_is_certified() -> None:
    """What n0 = 2000 samples promise for n, and what n fresh samples give."""
    terms = Terms(0.5, 0.001, 20_000)
    survey = Survey.of([logits(2000)], maps=("hardmax", "softmax"), temperatures=(0.3, 1.0), mass=1.0)
    found = forecast.forecasts(survey, terms, bounds=("betting",), forms=("r2",))[0]
    for row in range(3):
        plan = forecast.plan_of(survey, row, found, terms, planner="test", origin=ORIGIN, scope="this input")
        certificate = prove.prove(plan, terms, [logits(20_000, seed=1)], STREAM, n0=2000)
        assert certificate.radius == pytest.approx(found.expected[row], rel=0.15)


def test_forecast_widths_are_those_of_the_bounds() -> None:
    random = np.random.default_rng(0)
    for samples in (random.beta(60, 2, 10_000), random.random(10_000)):
        low = forecast._lower(samples.mean(), samples.var(), 10_000, 0.001, "betting")
        assert samples.mean() - low == pytest.approx(samples.mean() - betting.lower(samples, 0.001), rel=0.25)
    assert forecast._lower(np.array(0.9), np.array(0.09), 100, 0.01, "clopper_pearson") == clopper_pearson.lower(
        90, 100, 0.01
    )


def test_lvm_is_never_knowingly_worse_than_cohen() -> None:
    for seed in range(10):
        z = logits(300, lead=0.5 * seed, seed=seed)
        survey = Survey.of([z], maps=LVM().maps, temperatures=TEMPERATURES, mass=1.0)
        found = forecast.forecasts(survey, TERMS, bounds=LVM().bounds, forms=("r2",))
        row, top = forecast.best(found)
        votes = int(np.floor(survey.mean[0].max() * TERMS.n))
        cohen = radius.r3(clopper_pearson.lower(votes, TERMS.n, TERMS.alpha), sigma=TERMS.sigma)
        assert max(top.expected[row], 0.0) >= cohen - 1e-12


def test_lvm_uses_the_ramp_when_it_pays_and_a_constant_is_known() -> None:
    z = logits(500, lead=6.0)
    assert LVM().plan([z], Terms(0.1, 0.001, 10_000), ORIGIN).radius in ("r2", "r3")
    assert LVM().plan([z], Terms(0.1, 0.001, 10_000, lipschitz=1.0), ORIGIN).radius == "ramp"


def test_lvm_takes_what_it_is_given() -> None:
    plan = LVM(maps=("softmax",), temperatures=(0.5,), mass=2.0, bounds=("hoeffding",)).plan(
        [logits(200)], TERMS, ORIGIN
    )
    assert (plan.map, plan.temperature, plan.mass, plan.bound) == ("softmax", 0.5, 2.0, "hoeffding")


def paper_by_hand(z: torch.Tensor, sigma: float, alpha: float) -> tuple[str, float]:
    """The paper's search written out: one map, temperature and class at a time."""
    best, chosen = -math.inf, ("", 0.0)
    n, c = z.shape
    for name, apply in (("softmax", softmax), ("sparsemax", sparsemax)):
        for t in TEMPERATURES:
            p = apply(z, temperature=t).double()
            log = math.log(2 * c / alpha)
            shift = (2 * p.var(dim=0) * log / n).sqrt() + 7 * log / (3 * (n - 1))
            top = int(p.mean(dim=0).argmax())
            low = float(p.mean(dim=0)[top] - shift[top])
            high = max(float(p.mean(dim=0)[k] + shift[k]) for k in range(c) if k != top)
            value = float(radius.r2(min(max(low, 0), 1), min(max(high, 0), 1), sigma=sigma))
            if value > best:
                best, chosen = value, (name, t)
    return chosen


def test_paper_is_the_search_of_the_paper() -> None:
    z = logits(1000, lead=4.0)
    plan = Paper(maps=("softmax", "sparsemax")).plan([z], TERMS, ORIGIN)
    assert (plan.map, plan.temperature) == paper_by_hand(z, 0.5, 0.001)
    assert plan.bound == "bernstein"
    assert plan.radius == "r2"
    assert len(plan.groups) == 9
    assert plan.risk == pytest.approx(0.001)


def test_fixed_keeps_map_and_temperature_and_says_so() -> None:
    plans = [Fixed("softmax", 0.4, mass=2.0).plan([logits(200, seed=s)], TERMS, ORIGIN) for s in range(4)]
    assert {(plan.map, plan.temperature, plan.mass, plan.scope) for plan in plans} == {
        ("softmax", 0.4, 2.0, "all inputs")
    }


def test_calibration_finds_the_best_candidate_on_average() -> None:
    inputs = [logits(300, lead=lead, seed=s) for s, lead in enumerate((1.0, 2.0, 3.0))]
    found = calibrated(([z] for z in inputs), TERMS)
    totals = np.zeros(101)
    for z in inputs:
        survey = Survey.of([z], maps=LVM().maps, temperatures=TEMPERATURES, mass=1.0)
        totals += np.maximum(forecast.forecasts(survey, TERMS, bounds=("betting",), forms=("r2",))[0].expected, 0)
    row = int(totals.argmax())
    assert (found.map, found.temperature) == (survey.maps[row], survey.temperatures[row])
    assert found.radius == "r2"


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
        plan = Lipschitz(procedure).plan([logits(500, lead=4.0)], terms, ORIGIN)
        radii.append(prove.prove(plan, terms, [logits(5000, lead=4.0, seed=1)], STREAM, n0=500).radius)
    assert radii[0] < radii[1] < radii[2]


def test_bad_planners_are_refused() -> None:
    with pytest.raises(
        InvalidArgumentError, match="procedure must be one of deterministic, noise, both, ramp, got 'luck'"
    ):
        Lipschitz("luck")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="hardmax keeps no Lipschitz constant"):
        Lipschitz("both", map="hardmax")
    with pytest.raises(InvalidArgumentError, match="radius must be 'r2', 'ramp' or None, got 'r1'"):
        Fixed("softmax", radius="r1")
    with pytest.raises(InvalidArgumentError, match="takes no samples"):
        Lipschitz("deterministic").plan([logits(10)], TERMS, ORIGIN)
    with pytest.raises(InvalidArgumentError, match="n0 must be at least 1"):
        LVM().plan([], TERMS, ORIGIN)
    with pytest.raises(InvalidArgumentError, match="temperatures is empty"):
        LVM(temperatures=())
    with pytest.raises(InvalidArgumentError, match=r"temperatures must be positive and finite, got -1\.0 at index 1"):
        Paper(temperatures=(1.0, -1.0))
    with pytest.raises(InvalidArgumentError, match=r"maps must be a tuple of at least one name, got \(\)"):
        LVM(maps=())
    with pytest.raises(InvalidArgumentError, match="maps must be one of hardmax, softmax, sparsemax, got 'maxout'"):
        Fixed("maxout")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"bounds must be one of .*, got 'hope'"):
        LVM(bounds=("hope",))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="bounds must have one for soft maps"):
        LVM(bounds=("clopper_pearson",))
    with pytest.raises(InvalidArgumentError, match=r"mass must be positive and finite, got -1\.0"):
        LVM(mass=-1.0)


def test_plans_are_short_to_read() -> None:
    plan = LVM().plan([logits(300, c=1000)], TERMS, ORIGIN)
    assert isinstance(plan, Plan)
    assert len(repr(plan)) < 150
