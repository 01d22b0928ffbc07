"""Every setting of every method is obeyed, or refused with the reason."""

from typing import Any

import pytest
import torch

from lvmrs import LVM, Deterministic, Duels, Fixed, Lipschitz, Paper, Plan, Terms
from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import proof as prove
from lvmrs.planners import Planner
from lvmrs.planners.settings import method
from lvmrs.registry import BOUNDS, METHODS
from lvmrs.testing import SELECTION, made_up_scores
from tests.oracles import random_logits

TERMS = Terms(0.5, 0.01, 400, lipschitz=3.0)
VALUES: dict[str, Any] = {
    "bound": "hoeffding",
    "map": "softmax",
    "temperature": 0.3,
    "mass": 2.0,
    "form": "r3",
    "width": 0.7,
}
OBEYED = "obeyed"
NO_NOISE = "it takes the margin of the logits as they are, without noise"
# What happens to the settings in the order of VALUES: what a plan shows of it, or the reason of the refusal.
EXPECTED: dict[str, tuple[str, ...]] = {
    "duels": (
        "exact, and soft ones that of betting", "compare the logits themselves", "have a width instead",
        "the two scores of a duel sum to 1", "hard duels have R3", OBEYED,
    ),
    "lvm": (OBEYED, OBEYED, OBEYED, OBEYED, "the one with the largest forecast is taken", "a width is for duels"),
    "votes": (
        "which is exact", "it counts votes", "the same at every temperature", "votes are shares of 1",
        "it takes R2 or R3", "a width is for duels",
    ),
    "cohen": (
        "which is exact", "it counts votes", "the same at every temperature", "votes are shares of 1",
        "its radius is R3, as published", "a width is for duels",
    ),
    **dict.fromkeys(
        ("paper", "paper-union"),
        (OBEYED, OBEYED, OBEYED, OBEYED, "its radius is R2, as published", "a width is for duels"),
    ),
    "fixed": (OBEYED, OBEYED, OBEYED, OBEYED, OBEYED, "a width is for duels"),
    "lipschitz-deterministic": (NO_NOISE,) * 6,
    **dict.fromkeys(
        ("lipschitz-noise", "lipschitz-both", "lipschitz-ramp"),
        (OBEYED, OBEYED, OBEYED, OBEYED, "each procedure has its own", "a width is for duels"),
    ),
}  # fmt: skip


def logits(n: int = 200) -> torch.Tensor:
    z = random_logits(n, 5, scale=1.5, seed=1, dtype=torch.float32)
    z[:, 3] += 2.0
    return z


def plan_of(planner: Any, terms: Terms = TERMS) -> Plan:
    assert isinstance(planner, Planner)
    return planner.plan(made_up_scores(logits(), SELECTION), terms)


def test_the_table_has_every_method() -> None:
    assert set(EXPECTED) == set(METHODS)


@pytest.mark.parametrize("setting", VALUES)
@pytest.mark.parametrize("name", EXPECTED)
def test_each_setting_is_obeyed_or_refused_with_the_reason(name: str, setting: str) -> None:
    expected, value = EXPECTED[name][list(VALUES).index(setting)], VALUES[setting]
    others: dict[str, Any] = {"map": "sparsemax"} if name == "fixed" and setting != "map" else {}
    if expected != OBEYED:
        with pytest.raises(InvalidArgumentError, match=f"{setting} is not a setting of method {name}: ") as refused:
            method(name, **others, **{setting: value})
        assert expected in str(refused.value)
        return
    if setting == "temperature":
        others["map"] = "sparsemax"  # a search that votes win shows no temperature
    plan = plan_of(method(name, **others, **{setting: value}))
    shown: dict[str, Any] = {
        "bound": plan.bound.name,
        "map": plan.map.name,
        "temperature": plan.map.temperature,
        "mass": plan.map.mass,
        "form": plan.form.name,
        "width": plan.map.temperature,
    }
    assert shown[setting] == value


@pytest.mark.parametrize("bound", [name for name in BOUNDS if name != "clopper_pearson"])
@pytest.mark.parametrize("name", ["lvm", "fixed", "paper"])
def test_a_bound_that_is_given_is_that_of_votes_too(name: str, bound: str) -> None:
    unknown = Terms(0.5, 0.01, 400)
    votes = plan_of(method(name, map="hardmax", bound=bound), unknown)
    assert (votes.map.name, votes.bound.name) == ("hardmax", bound)
    scores = logits(600)[200:]
    found = [prove.prove(votes, unknown, made_up_scores(torch.split(scores, batch))) for batch in (400, 7)]
    assert found[0] == found[1]  # the batch size changes no digit
    exact = plan_of(method("fixed", map="hardmax"), unknown)
    assert exact.bound.name == "clopper_pearson"
    assert found[0].radius <= prove.prove(exact, unknown, made_up_scores(scores)).radius


def test_votes_have_the_exact_bound_where_it_is_among_those_to_try() -> None:
    unknown = Terms(0.5, 0.01, 400)
    assert (plan_of(LVM(), unknown).map.name, plan_of(LVM(), unknown).bound.name) == ("hardmax", "clopper_pearson")
    given = plan_of(LVM(bounds=("bernstein",)), unknown)
    assert given.bound.name == "bernstein"
    both = plan_of(LVM(bounds=("bernstein", "clopper_pearson")), unknown)
    assert (both.map.name, both.bound.name) == ("hardmax", "clopper_pearson")


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (lambda: Fixed("hardmax", 2.0), "temperature has no effect on hardmax; leave it out"),
        (lambda: LVM(maps=("hardmax",), temperatures=(0.5,)), "temperature has no effect on hardmax; leave it out"),
        (lambda: Paper(maps=("hardmax",), temperatures=(0.5,)), "temperature has no effect on hardmax; leave it out"),
        (lambda: LVM(bounds=("clopper_pearson",)), "bounds must include one for soft maps, such as betting"),
        (lambda: Paper(bound="clopper_pearson"), "bounds must include one for soft maps, such as betting"),
        (lambda: Paper(union="yes"), "union must be True or False, got 'yes'"),  # type: ignore[arg-type]
        (lambda: Fixed("softmax", bounds=("clopper_pearson",)), "bounds must include one for soft maps"),
        (lambda: Lipschitz(bounds=("clopper_pearson",)), "bounds must include one for soft maps"),
    ],
)
def test_a_constructor_refuses_what_would_have_no_effect(made: Any, sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        made()


def test_which_methods_use_a_constant() -> None:
    """Where a method says that it uses none, the plan is the same with and without one."""
    for planner in [Fixed("hardmax"), Fixed("softmax", form="r2"), LVM(maps=("hardmax",)), Paper(), Duels()]:
        assert not planner.uses_constant
        assert plan_of(planner) == plan_of(planner, Terms(0.5, 0.01, 400))
    assert not Lipschitz("noise").needs_constant
    assert plan_of(Lipschitz("noise"), Terms(0.5, 0.01, 400)).form.name == "r1-noise"
    for user in [Fixed("softmax"), LVM(), Duels(0.5), Duels("chosen"), Lipschitz("ramp"), Deterministic()]:
        assert user.uses_constant
    assert Duels("chosen").needs_constant
