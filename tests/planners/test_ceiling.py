"""The largest radius that a check tells is not below what is certified if all samples agree."""

import pytest
import torch

from lvmrs import Duels, Goal, Planner, SmoothedClassifier, Votes
from lvmrs.planners.allocation import largest_radius


@pytest.mark.parametrize("goal", [None, Goal(targets=(3.0,))])
@pytest.mark.parametrize("method", [Duels(), Votes(), Duels(2.0)])
def test_no_certificate_is_above_the_ceiling(method: Planner, goal: Goal | None) -> None:
    smoothed = SmoothedClassifier(lambda x: torch.tensor([100.0, 0.0]).expand(len(x), 2), 0.5, batch=100)
    x = torch.zeros(4)
    for n in (100, 1000):
        found = smoothed.certify(x, method, n0=50, n=n, goal=goal)
        assert found.plan is not None
        assert 0 < found.radius <= largest_radius(found.plan, smoothed.terms(0.001, n, x, method=method), n) + 1e-9
