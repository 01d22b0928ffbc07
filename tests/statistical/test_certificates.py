"""No planner can make false certificates more often than alpha; and the harness notices those that could."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from lvmrs import LVM, Cohen, Fixed, Lipschitz, Paper, Plan, Planner, Terms, prove
from lvmrs.confidence import bernstein
from lvmrs.prove import Certificate
from lvmrs.sampling import Stream
from lvmrs.simplex import MapName
from tests.oracles import Floats
from tests.statistical.certificates import (
    CERTIFICATION,
    FAMILIES,
    SELECTION,
    false_certificates,
    family,
    one_hot,
)
from tests.statistical.coverage import too_many

FEW = tuple(np.geomspace(0.01, 50, 12).tolist())
SOFT: tuple[MapName, ...] = ("softmax", "sparsemax")
PLANNERS: dict[str, Planner] = {
    "Cohen": Cohen(),
    "LVM": LVM(temperatures=FEW),
    "LVM, betting": LVM(maps=SOFT, temperatures=FEW, bounds=("betting",)),
    "LVM, Bernstein": LVM(maps=SOFT, temperatures=FEW, bounds=("bernstein",)),
    "LVM, Hoeffding": LVM(maps=SOFT, temperatures=FEW, bounds=("hoeffding",)),
    "LVM, Clopper–Pearson": LVM(maps=("hardmax",)),
    "LVM, mass 3": LVM(maps=SOFT, temperatures=FEW, mass=3.0),
    "Paper": Paper(temperatures=FEW),
    "Fixed, betting": Fixed("softmax", 0.5),
    "Fixed, Bernstein": Fixed("sparsemax", 0.5, bounds=("bernstein",)),
    "Fixed, Hoeffding": Fixed("softmax", 0.2, bounds=("hoeffding",)),
    "Fixed, Clopper–Pearson": Fixed("hardmax"),
    "Lipschitz, noise": Lipschitz("noise"),
    "Lipschitz, both": Lipschitz("both", mass=3.0),
    "Lipschitz, both, Bernstein": Lipschitz("both", mass=3.0, bounds=("bernstein",)),
    "Lipschitz, ramp": Lipschitz("ramp", map="softmax", temperature=0.3),
}


HARDEST = ("tied pair, c = 2", "ten equal classes", "tie that turns with temperature", "rare catastrophe")


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("name", FAMILIES)
def test_false_certificates_are_no_more_frequent_than_alpha(planner: str, name: str) -> None:
    repeats = 12 if name == "c = 1000" else 40
    for alpha in (0.05, 0.01) if name in HARDEST else (0.05,):
        wrong = false_certificates(
            PLANNERS[planner], FAMILIES[name], alpha, repeats=repeats, n0=40, n=150, lipschitz=1.0
        )
        assert not too_many(wrong, repeats, alpha), f"{wrong} of {repeats} certificates are false at alpha {alpha}"


@pytest.mark.slow
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_false_certificates_over_many_repeats(planner: str, name: str, alpha: float) -> None:
    repeats = 50 if name == "c = 1000" else 400
    wrong = false_certificates(PLANNERS[planner], FAMILIES[name], alpha, repeats=repeats, n0=60, n=400, lipschitz=1.0)
    assert not too_many(wrong, repeats, alpha), f"{wrong} of {repeats} certificates are false at alpha {alpha}"


# Mutants: what must not be done, done on purpose.


def chosen_on_the_certification_sample(
    planner: Planner, terms: Terms, selection: Tensor, certification: Tensor
) -> Certificate:
    plan = planner.plan([certification], terms, SELECTION)
    return prove.prove(plan, terms, [certification], CERTIFICATION, n0=len(certification))


@dataclass(frozen=True)
class NoUnion(Planner):
    """Gives each group the full risk."""

    inner: Planner

    def plan(self, scores: Iterable[Tensor], terms: Terms, origin: Stream) -> Plan:
        plan = self.inner.plan(scores, terms, origin)
        return dataclasses.replace(plan, risk_top=terms.alpha, risk_groups=(terms.alpha,) * len(plan.groups))


def without_the_check_of_the_risk(
    planner: Planner, terms: Terms, selection: Tensor, certification: Tensor
) -> Certificate:
    plan = planner.plan([selection], terms, SELECTION)
    loose = Terms(terms.sigma, min(0.999, plan.risk), terms.n, terms.lipschitz)
    return prove.prove(plan, loose, [certification], CERTIFICATION, n0=len(selection))


TIED = family([(1.0, [size, 0.0]) for size in (0.3, 1.0, 4.0)] + [(1.0, [0.0, size]) for size in (0.3, 1.0, 4.0)])


@pytest.mark.parametrize(("planner", "repeats"), [(Cohen(), 1000), (LVM(temperatures=FEW), 300)], ids=["Cohen", "LVM"])
def test_harness_catches_choices_on_the_certification_sample(planner: Planner, repeats: int) -> None:
    """With two tied classes the one that happens to lead is certified: twice alpha and more."""
    settings: dict[str, Any] = {"repeats": repeats, "n0": 50, "n": 3000, "lipschitz": 1.0}
    wrong = false_certificates(planner, TIED, 0.05, by=chosen_on_the_certification_sample, **settings)
    assert too_many(wrong, repeats, 0.05)
    assert not too_many(false_certificates(planner, TIED, 0.05, **settings), repeats, 0.05)


@dataclass(frozen=True)
class EveryRivalAlone(Planner):
    """Class 0 against each other class on its own, by hardmax and Clopper–Pearson."""

    def plan(self, scores: Iterable[Tensor], terms: Terms, origin: Stream) -> Plan:
        share = terms.alpha / 10
        groups = tuple((k,) for k in range(1, 10))
        return Plan("every rival alone", 0, 10, "hardmax", "clopper_pearson", "r2", share, groups, (share,) * 9)


def test_harness_catches_a_forgotten_union() -> None:
    """Top class and rival fail at different times: with the full risk for each, about twice alpha in all."""
    others = [(0.58 / 8, one_hot(k, 10, 1.0)) for k in range(2, 10)]
    rivals = family([(0.24, one_hot(0, 10, 1.0)), (0.18, one_hot(1, 10, 1.0)), *others])
    settings: dict[str, Any] = {"repeats": 2000, "n0": 1, "n": 3000, "lipschitz": 1.0}
    wrong = false_certificates(NoUnion(EveryRivalAlone()), rivals, 0.05, by=without_the_check_of_the_risk, **settings)
    assert too_many(wrong, 2000, 0.05)
    assert not too_many(false_certificates(EveryRivalAlone(), rivals, 0.05, **settings), 2000, 0.05)


def test_harness_catches_bernstein_without_the_mass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgetting that the range term scales with the mass: on scores of mass 20 that are rarely not full."""
    plan = Fixed("sparsemax", 0.001, mass=20.0, bounds=("bernstein",))
    rare = family([(0.97, [9.0, 0.0]), (0.03, [0.0, 9.0])])
    settings: dict[str, Any] = {"repeats": 400, "n0": 20, "n": 40, "lipschitz": np.inf}
    assert not too_many(false_certificates(plan, rare, 0.05, **settings), 400, 0.05)
    right = bernstein._guarded

    def without_mass(*arguments: Any) -> tuple[Floats, Floats, Floats]:
        mean, variance, n, risk, _ = arguments
        mean, _, top = right(*arguments)
        log = np.log(2 / np.asarray(risk))
        return mean, np.sqrt(2 * variance * log / n) + 7 * log / (3 * (n - 1)) / 20.0, top

    monkeypatch.setattr(bernstein, "_guarded", without_mass)
    assert too_many(false_certificates(plan, rare, 0.05, **settings), 400, 0.05)
