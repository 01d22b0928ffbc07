"""The prover, line by line: what it computes, and what it refuses."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from lvmrs import Certificate, Plan, Terms, lipschitz, radius, simplex
from lvmrs.confidence import bernstein, betting, clopper_pearson, hoeffding
from lvmrs.errors import InvalidArgumentError, LvmrsError, ProofError
from lvmrs.plan import BoundName, RadiusName
from lvmrs.prove import ABSTAIN, prove, prove_without_noise
from lvmrs.sampling import Stream
from tests.oracles import random_logits

ORIGIN, STREAM = Stream(0, 0, "selection"), Stream(0, 0, "certification")
N = 500
LOGITS = random_logits(N, 5, scale=1.0, dtype=torch.float32) + torch.tensor([1.5, 0.5, 0.0, 0.0, -0.5])
TERMS = Terms(0.5, 0.01, N, lipschitz=2.0)


def plan(**changes: Any) -> Plan:
    fields: dict[str, Any] = {
        "planner": "test",
        "top": 0,
        "classes": 5,
        "map": "softmax",
        "bound": "betting",
        "radius": "r2",
        "risk_top": 0.004,
        "groups": ((1,), (2,), (3, 4)),
        "risk_groups": (0.003, 0.002, 0.001),
        "temperature": 0.7,
        "mass": 1.0,
        "origin": ORIGIN,
    }
    return Plan(**{**fields, **changes})


def made(**changes: Any) -> Certificate:
    return prove(plan(**changes), TERMS, [LOGITS], STREAM, n0=100)


def group_scores(mapped: torch.Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    p = mapped.double().numpy()
    return np.stack([p[:, 0], p[:, 1], p[:, 2], p[:, 3] + p[:, 4]])


@pytest.mark.parametrize("bound", ["betting", "bernstein", "hoeffding"])
@pytest.mark.parametrize("mass", [1.0, 3.0])
@pytest.mark.parametrize("name", ["softmax", "sparsemax"])
def test_bounds_are_those_of_the_groups(bound: BoundName, mass: float, name: str) -> None:
    apply = simplex.softmax if name == "softmax" else simplex.sparsemax
    top, *groups = group_scores(apply(LOGITS, temperature=0.7, mass=mass))
    risks = (0.003, 0.002, 0.001)
    if bound == "betting":
        low = betting.lower(top, 0.004, mass=mass)
        highs = [betting.upper(group, risk, mass=mass) for group, risk in zip(groups, risks, strict=True)]
    elif bound == "hoeffding":
        low = hoeffding.lower(top.mean(), N, 0.004, mass=mass)
        highs = [hoeffding.upper(g.mean(), N, risk, mass=mass) for g, risk in zip(groups, risks, strict=True)]
    else:
        low = bernstein.lower(top.mean(), top.var(ddof=1), N, 0.004, mass=mass)
        highs = [
            bernstein.upper(g.mean(), g.var(ddof=1), N, risk, mass=mass) for g, risk in zip(groups, risks, strict=True)
        ]
    certificate = made(bound=bound, mass=mass, map=name)
    # Games are pruned together, so a bound may differ by less than the slack of a grid point from one played alone.
    assert certificate.p_lower == pytest.approx(float(low), rel=1e-6)
    assert certificate.p_upper == pytest.approx(min(float(max(highs)), mass - float(low)), rel=1e-6)


def test_hardmax_counts_votes() -> None:
    winners = LOGITS.argmax(dim=1)
    votes = [int((winners == k).sum()) for k in range(5)]
    certificate = made(map="hardmax", bound="clopper_pearson")
    assert certificate.p_lower == clopper_pearson.lower(votes[0], N, 0.004)
    highs = [
        clopper_pearson.upper(votes[1], N, 0.003),
        clopper_pearson.upper(votes[2], N, 0.002),
        clopper_pearson.upper(votes[3] + votes[4], N, 0.001),
    ]
    assert certificate.p_upper == min(max(highs), 1 - certificate.p_lower)


def test_cohen_equals_an_independent_computation_from_counts() -> None:
    certificate = prove(
        plan(map="hardmax", bound="clopper_pearson", radius="r3", groups=(), risk_groups=(), risk_top=0.01),
        TERMS, [LOGITS], STREAM, n0=100,
    )  # fmt: skip
    votes = int((LOGITS.argmax(dim=1) == 0).sum())
    p = stats.beta.ppf(0.01, votes, N - votes + 1)
    assert certificate.p_lower == p
    assert certificate.radius == pytest.approx(0.5 * stats.norm.ppf(p), rel=1e-14)
    assert certificate.p_upper == 1 - p


def test_the_ceiling_of_cohen() -> None:
    all_right = torch.tensor([[1.0, 0.0]]).expand(100_000, 2)
    terms = Terms(1.0, 0.001, 100_000)
    certain = plan(
        classes=2, map="hardmax", bound="clopper_pearson", radius="r3", groups=(), risk_groups=(), risk_top=0.001
    )
    assert prove(certain, terms, [all_right], STREAM, n0=1).radius == pytest.approx(
        3.81146, abs=1e-5
    )  # 3.812 σ, rounded up


@pytest.mark.parametrize("form", ["r1", "r1-noise", "r2", "r3", "ramp"])
@pytest.mark.parametrize("mass", [1.0, 2.0])
def test_radius_is_that_of_the_form(form: RadiusName, mass: float) -> None:
    changes = {"groups": (), "risk_groups": ()} if form == "r3" else {}
    certificate = made(radius=form, mass=mass, map="sparsemax", **changes)
    a, b = certificate.p_lower, certificate.p_upper
    slope = 2.0 / 0.7
    expected = {
        "r1": lambda: radius.r1(
            a, b, lipschitz=lipschitz.smoothed(slope, sigma=0.5, of="vector", mass=mass), mass=mass
        ),
        "r1-noise": lambda: radius.r1(a, b, lipschitz=mass / (0.5 * math.sqrt(math.pi)), mass=mass),
        "r2": lambda: radius.r2(a, b, sigma=0.5, mass=mass),
        "r3": lambda: radius.r3(a, sigma=0.5, mass=mass),
        "ramp": lambda: radius.ramp(a, b, sigma=0.5, lipschitz=slope, mass=mass),
    }[form]()
    assert certificate.radius == pytest.approx(float(expected), rel=1e-12)


def test_without_groups_the_rivals_have_what_is_left() -> None:
    certificate = made(groups=(), risk_groups=(), radius="ramp")
    assert certificate.p_upper == 1 - certificate.p_lower


def test_portions_of_the_scores_do_not_matter() -> None:
    whole = made()
    for size in (1, 7, 128):
        parts = prove(plan(), TERMS, torch.split(LOGITS, size), STREAM, n0=100)
        assert parts == whole


def test_where_nothing_can_be_told_it_abstains() -> None:
    certificate = prove(plan(), TERMS, [torch.zeros(N, 5)], STREAM, n0=100)
    assert certificate.prediction == ABSTAIN
    assert certificate.radius == 0
    assert "Nothing is certified" in certificate.guarantee
    assert "abstains" in repr(certificate)


def test_a_class_that_loses_is_not_certified() -> None:
    certificate = made(top=4, groups=((0,), (1, 2, 3)), risk_groups=(0.003, 0.003))
    assert certificate.prediction == ABSTAIN


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "risk": ({"risk_top": 0.0045}, "spends a risk of 0.0105, more than alpha = 0.01"),
    "no risk": ({"risk_top": 0.0}, "must lie strictly between 0 and 1"),
    "missing rival": ({"groups": ((1,), (2,), (3,))}, "do not partition the rival classes"),
    "top among rivals": ({"groups": ((0, 1), (2,), (3, 4))}, "do not partition the rival classes"),
    "rival twice": ({"groups": ((1, 2), (2,), (3, 4))}, "do not partition the rival classes"),
    "empty group": ({"groups": ((1, 2), (), (3, 4))}, "a group of rivals is empty"),
    "risks of groups": ({"risk_groups": (0.003, 0.003)}, "3 groups of rivals with 2 risks"),
    "top": ({"top": 5}, "class 5 is not one of 5 classes"),
    "classes": ({"classes": 4, "groups": ((1,), (2,), (3,))}, "scores of shape (500, 5) for a plan of 4 classes"),
    "soft counts": ({"bound": "clopper_pearson"}, "holds for 0/1 scores only, and softmax is not"),
    "deterministic": ({"radius": "deterministic"}, "takes no samples"),
    "r1 of hardmax": ({"radius": "r1", "map": "hardmax"}, "needs one of the logits, and a map that keeps it"),
    "temperature": ({"temperature": -1.0}, "must be positive, got -1.0"),
    "map": ({"map": "maxout"}, "map must be one of hardmax, softmax, sparsemax, got 'maxout'"),
    "bound": ({"bound": "guess"}, "bound must be one of"),
    "radius": ({"radius": "r9"}, "radius must be one of"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_plans_that_cannot_be_trusted_are_refused(case: str) -> None:
    changes, sentence = REFUSALS[case]
    with pytest.raises(LvmrsError) as caught:
        made(**changes)
    assert sentence in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_scores_of_the_stream_of_the_plan_are_refused() -> None:
    with pytest.raises(ProofError, match="the plan was made on these very scores"):
        prove(plan(), TERMS, [LOGITS], ORIGIN, n0=100)
    prove(plan(origin=None), TERMS, [LOGITS], ORIGIN, n0=100)


@pytest.mark.parametrize("count", [1, N - 1, N + 1])
def test_another_number_of_scores_is_refused(count: int) -> None:
    scores = torch.cat([LOGITS, LOGITS])[:count]
    with pytest.raises(ProofError, match="give exactly n"):
        prove(plan(), TERMS, [scores], STREAM, n0=100)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_scores_that_are_not_finite_are_refused(value: float) -> None:
    broken = LOGITS.clone()
    broken[3, 2] = value
    for changes in ({}, {"map": "hardmax", "bound": "clopper_pearson"}):
        with pytest.raises(ProofError, match="NaN or infinite"):
            prove(plan(**changes), TERMS, [broken], STREAM, n0=100)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((0.0, 0.01, 100), "sigma must be positive and finite, got 0.0"),
        ((1.0, 1.0, 100), "alpha must lie strictly between 0 and 1, got 1.0"),
        ((1.0, 0.0, 100), "alpha must lie strictly between 0 and 1, got 0.0"),
        ((1.0, 0.01, 1), "n must be a whole number of at least 2, got 1.0"),
        ((1.0, 0.01, 100, 0.0), "lipschitz must be positive, got 0.0"),
    ],
)
def test_terms_are_checked(arguments: tuple[Any, ...], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        Terms(*arguments)


def test_certificates_are_made_by_the_prover_only() -> None:
    certificate = made()
    fields = {field.name: getattr(certificate, field.name) for field in dataclasses.fields(certificate)}
    with pytest.raises(ProofError, match="not by hand"):
        Certificate(**fields)
    with pytest.raises(ProofError, match="not by hand"):
        dataclasses.replace(certificate, radius=9.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        certificate.radius = 9.0  # type: ignore[misc]


def test_certificates_and_plans_survive_json() -> None:
    for certificate in (made(), made(radius="ramp"), prove_without_noise(LOGITS[0], 2.0, planner="test")):
        assert Certificate.from_json(certificate.to_json()) == certificate
        assert Plan.from_json(certificate.plan.to_json()) == certificate.plan
    unknown = prove(plan(), Terms(0.5, 0.01, N), [LOGITS], STREAM, n0=100)
    assert Certificate.from_json(unknown.to_json()).lipschitz == math.inf


def test_json_of_another_version_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="not a certificate of this version: extra missing or unknown"):
        Certificate.from_json(made().to_json()[:-1] + ', "extra": 1}')
    with pytest.raises(InvalidArgumentError, match="not a plan of this version: extra missing or unknown"):
        Plan.from_json(plan().to_json()[:-1] + ', "extra": 1}')


@pytest.mark.parametrize("text", ["", "{", "3", "[]", "{}", "null"])
def test_what_is_no_certificate_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="this is not"):
        Certificate.from_json(text)
    with pytest.raises(InvalidArgumentError, match="this is not"):
        Plan.from_json(text)


def test_numbers_of_any_kind_become_plain() -> None:
    terms = Terms(np.float32(0.5), torch.tensor(0.01), 1e4, np.float64(2))  # type: ignore[arg-type]
    assert [type(value) for value in dataclasses.astuple(terms)] == [float, float, int, float]


def test_softmax_has_constants_of_its_own() -> None:
    certificate = made(radius="ramp", temperature=0.3)
    a, b = certificate.p_lower, certificate.p_upper
    slopes = {"lipschitz": 0.5 * 2.0 / 0.3, "class_lipschitz": math.sqrt(2) / 4 * 2.0 / 0.3}
    assert certificate.radius == pytest.approx(float(radius.ramp(a, b, sigma=0.5, **slopes)), rel=1e-12)


def test_scores_with_gradients_are_taken() -> None:
    scores = LOGITS.clone().requires_grad_()
    assert prove(plan(), TERMS, [scores], STREAM, n0=100) == made()


def test_certificates_say_what_they_guarantee() -> None:
    certificate = made()
    shown = radius.text(certificate.radius)
    assert certificate.guarantee == (
        f"With probability at least 1 − 0.01 over the sampling, for every x' with ‖x' − x‖₂ < {shown} the classifier "
        "smoothed with σ = 0.5 and softmax at temperature 0.7 (chosen for this input) answers with class 0."
    )
    assert "the same for all inputs" in made(scope="all inputs").guarantee
    assert "softmax at temperature 0.7 with mass 3 (" in made(mass=3.0).guarantee
    assert shown in repr(certificate)
    assert len(repr(certificate)) < 250
    page = certificate._repr_html_()
    assert page.startswith("<table>")
    assert plan()._repr_html_().startswith("<code>&lt;Plan")
    assert "&lt;Plan by test" in page


def test_deterministic_certificate() -> None:
    certificate = prove_without_noise(torch.tensor([0.5, 2.0, 1.0]), 4.0, planner="test")
    assert certificate.prediction == 1
    assert certificate.radius == pytest.approx(1.0 / (math.sqrt(2) * 4))
    assert certificate.alpha == certificate.n == 0
    assert certificate.guarantee.startswith("Certainly")
    assert prove_without_noise(torch.tensor([1.0, 1.0]), 4.0, planner="test").prediction == ABSTAIN


@pytest.mark.parametrize(
    ("logits", "constant"),
    [
        (torch.zeros(2, 3), 1.0),
        (torch.tensor([1.0]), 1.0),
        (torch.tensor([1.0, math.nan]), 1.0),
        (torch.zeros(2), math.inf),
    ],
)
def test_deterministic_certificates_need_logits_and_a_constant(logits: torch.Tensor, constant: float) -> None:
    with pytest.raises(ProofError):
        prove_without_noise(logits, constant, planner="test")
