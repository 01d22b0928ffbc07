"""With very many classes only the strongest are surveyed one by one; what is said of the others is a bound."""

import numpy as np
import pytest
import torch

from lvmrs import LVM, Paper, Plan, Planner, Terms
from lvmrs.kernel import proof as prove
from lvmrs.planners import search
from lvmrs.planners.search import ScoreMoments
from lvmrs.testing import SELECTION, made_up_scores

C, N0, MOST = 600, 80, 64
MAPS, TEMPERATURES = ("hardmax", "softmax", "sparsemax"), (0.05, 0.3, 1.0, 4.0, 50.0)


def logits(family: str, n: int = N0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    centre = torch.randn(C, generator=generator)
    z = centre + 0.7 * torch.randn(n, C, generator=generator)
    if family == "one leads":
        z[:, 410] += 6
    if family == "close pair":
        z[:, 410] += 5
        z[:, 33] += 4.8
    if family == "never first":  # a class without votes that is strong on average
        z[:, 5] = 2.4
    return z


FAMILIES = ["one leads", "close pair", "never first", "noise"]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_moments_of_kept_classes_are_exact_and_the_others_are_bounded(family: str) -> None:
    z = logits(family)
    slow = ScoreMoments.of([z], maps=MAPS, temperatures=TEMPERATURES)
    quick = ScoreMoments.of(torch.split(z, 33), maps=MAPS, temperatures=TEMPERATURES, most=MOST)
    assert (len(quick.kept), quick.classes, quick.mean.shape[1]) == (MOST, C, MOST + 1)
    np.testing.assert_allclose(quick.mean[:, :-1], slow.mean[:, quick.kept], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(quick.variance[:, :-1], slow.variance[:, quick.kept], rtol=1e-9, atol=1e-15)
    others = np.setdiff1d(np.arange(C), quick.kept)
    assert (quick.mean[:, -1] >= slow.mean[:, others].max(axis=1) - 1e-9).all()
    left = slow.mean[:, others].sum(axis=1)
    np.testing.assert_allclose(quick.rest + quick.mean[:, -1], left, atol=1e-6)
    assert quick.tops.tolist() == slow.tops.tolist()
    for row in range(len(quick.maps)):
        assert sorted(quick.ranked(row)) == list(range(C))
        assert quick.ranked(row)[:3] == slow.ranked(row)[:3]


def planned(planner: Planner, z: torch.Tensor, terms: Terms) -> Plan:
    return planner.plan(made_up_scores(z, SELECTION), terms)


@pytest.mark.parametrize("family", ["one leads", "close pair"])
@pytest.mark.parametrize("planner", [LVM(), LVM(maps=("softmax", "sparsemax")), Paper()], ids=repr)
def test_the_plan_is_that_of_the_slow_way(family: str, planner: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    terms, z = Terms(0.5, 0.01, 300), logits(family, N0 + 300)
    slow = planned(planner, z[:N0], terms)
    module = "lvmrs.planners.paper" if isinstance(planner, Paper) else "lvmrs.planners.lvm"
    monkeypatch.setattr(f"{module}.MANY_CLASSES", MOST)
    quick = planned(planner, z[:N0], terms)
    assert (quick.top, quick.classes, quick.map, quick.bound, quick.form) == (
        slow.top, C, slow.map, slow.bound, slow.form,
    )  # fmt: skip
    assert prove.prove(quick, terms, made_up_scores(z[N0:])).radius >= 0


def test_the_column_of_the_others_is_never_the_top_class() -> None:
    """Where the others together lead in every sample, no class is credited with it."""
    z = torch.zeros(40, 30)
    z[torch.arange(40), torch.arange(40) % 30] = 5.0
    found = ScoreMoments.of([z], maps=("hardmax",), most=4)
    assert found.mean[0, -1] > found.mean[0, :-1].max()
    assert found.tops[0] in found.kept
    assert found.order[0, 1] == len(found.kept)


def test_up_to_a_thousand_classes_are_surveyed_one_by_one() -> None:
    assert search.MANY_CLASSES >= 1000
    found = ScoreMoments.of([torch.zeros(3, 1000)], maps=("hardmax",), most=search.MANY_CLASSES)
    assert len(found.kept) == found.mean.shape[1] == 1000
