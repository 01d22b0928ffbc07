"""How samples are shared out: as good as any other way, and forecasts that come true on average."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lvmrs import Cohen, Duels, Fixed, Lipschitz, Planner, Terms, Votes
from lvmrs.kernel.proof import prove
from lvmrs.planners.allocation import LEAST, allocated, expected_radii, numbers
from lvmrs.testing import SELECTION, SIGMA, Family, family, made_up_scores

CLEAR = family([(0.9, [1.0, 0.0, -1.0]), (0.07, [-0.2, 0.8, 0.0]), (0.03, [0.0, 0.2, 0.9])])
SURE = family([(0.999, [1.0, 0.0, -1.0]), (0.001, [0.0, 0.5, 0.0])])


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=3), st.integers(0, 60))
def test_no_other_way_to_share_out_whole_steps_is_better(gains: list[list[float]], more: int) -> None:
    """Against all ways that there are, for curves that rise ever more slowly."""
    counts = [4, 8, 16, 32]
    for_each_sample = np.array([sorted(each, reverse=True) for each in gains])
    expected = [np.concatenate([[0.0], np.cumsum(each * np.diff(counts))]) for each in for_each_sample]
    budget = 4 * len(expected) + more
    given_ = allocated(counts, expected, budget)
    assert sum(given_) <= budget
    assert min(given_) >= 4
    value = sum(float(np.interp(n, counts, curve)) for n, curve in zip(given_, expected, strict=True))
    best = max(
        sum(float(curve[k]) for k, curve in zip(way, expected, strict=True))
        for way in itertools.product(range(4), repeat=len(expected))
        if sum(counts[k] for k in way) <= budget
    )
    assert value >= best - 1e-9


def test_what_gains_nothing_is_not_spent() -> None:
    nothing, later = np.zeros(3), np.array([0.0, 0.0, 0.5])
    assert allocated([10, 100, 1000], [nothing, nothing], 10**6) == [10, 10]
    assert allocated([10, 100, 1000], [nothing, later], 500) == [10, 490]  # a step that does not pay yet is gone over
    assert allocated([10, 100, 1000], [later, later], 10**6) == [1000, 1000]
    assert allocated([10], [later[:1]], 100) == [10]


def test_numbers() -> None:
    assert numbers(10) == [10]
    assert numbers(100_000)[0] == LEAST
    assert numbers(100_000)[-1] == 100_000
    assert max(b / a for a, b in itertools.pairwise(numbers(10**6))) < 1.4


@pytest.mark.parametrize("known", [CLEAR, SURE], ids=["clear", "sure"])
@pytest.mark.parametrize(
    ("planner", "lipschitz"),
    [
        (Duels(), np.inf),
        (Votes(), np.inf),
        (Cohen(), np.inf),
        (Duels(0.5), np.inf),
        (Fixed("softmax", 0.5), np.inf),
        (Lipschitz("ramp", map="softmax", temperature=0.5), 1.0),
    ],
    ids=repr,
)
def test_forecasts_come_true_on_average(planner: Planner, lipschitz: float, known: Family) -> None:
    random, terms = np.random.default_rng(0), Terms(SIGMA, 0.01, 2000, lipschitz)
    forecast, found = [], []
    for _ in range(30):
        selection = known.draw(random, 300)
        plan = planner.plan(made_up_scores(selection, SELECTION), terms)
        forecast.append(float(expected_radii(plan, terms, selection, [2000])[0]))
        found.append(prove(plan, terms, made_up_scores(known.draw(random, 2000))).radius)
    assert np.mean(forecast) == pytest.approx(np.mean(found), rel=0.08)


def test_a_plan_for_a_tie_expects_little() -> None:
    tie = family([(0.5, [1.0, 0.0]), (0.5, [0.0, 1.0])])
    random, terms = np.random.default_rng(0), Terms(SIGMA, 0.001, 1000)
    for planner in (Duels(), Votes()):
        selection = tie.draw(random, 1000)
        plan = planner.plan(made_up_scores(selection, SELECTION), terms)
        assert expected_radii(plan, terms, selection, [1000])[0] < 0.01 * SIGMA
        sure = torch.tensor([[1.0, 0.0]] * 1000)
        assert expected_radii(plan, terms, sure if plan.top == 0 else sure.flip(1), [1000])[0] > 2 * SIGMA
