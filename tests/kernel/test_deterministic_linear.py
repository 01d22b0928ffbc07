"""Duels are exact for logits that are linear in the input: the certified radius is the distance to the boundary."""

from functools import partial

import pytest
import torch
from torch import Tensor

from lvmrs import Cohen, Duels, SmoothedClassifier
from lvmrs.testing import too_many

SIGMA = 0.5


def linear(dimension: int, classes: int, distance: float, seed: int = 0) -> tuple[Tensor, Tensor, int]:
    """Weights, an input at this distance from the decision boundary, and its class."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(classes, dimension, generator=generator, dtype=torch.float64)
    x = torch.randn(dimension, generator=generator, dtype=torch.float64)
    logits = weights @ x
    top = int(logits.argmax())
    others = [k for k in range(classes) if k != top]
    away = ((logits[top] - logits[others]) / (weights[top] - weights[others]).norm(dim=1)).min()
    return weights.float(), (x * distance / away).float(), top


def _logits(weights: Tensor, batch: Tensor) -> Tensor:
    return batch @ weights.T


NEAR, FAR = (0, 0.5), (1, 0.9)
CASES = [(d, c, *case) for d, c in ((2, 2), (2, 10), (64, 2), (64, 10), (64, 100)) for case in (NEAR, FAR)]
MANY_NUMBERS = [(784, 10, *NEAR), (784, 10, *FAR), (3072, 2, *NEAR), (3072, 2, *FAR), (3072, 100, *FAR)]


@pytest.mark.parametrize(
    ("dimension", "classes", "seed", "distance"),
    [*CASES, (3072, 100, *NEAR), *(pytest.param(*case, marks=pytest.mark.slow) for case in MANY_NUMBERS)],
)
def test_certified_over_exact_distance(dimension: int, classes: int, seed: int, distance: float) -> None:
    weights, x, top = linear(dimension, classes, distance, seed)
    smoothed = SmoothedClassifier(partial(_logits, weights), SIGMA, batch=1000)
    certificate = smoothed.certify(x, Duels(), n0=1000, n=100_000, alpha=0.001)
    assert certificate.prediction == top
    assert 0.97 <= certificate.radius / distance <= 1.0


@pytest.mark.parametrize(("classes", "most"), [(10, 0.8), (100, 0.0)])
def test_votes_alone_fall_short_where_several_rivals_are_near(classes: int, most: float) -> None:
    """Votes for the top class are few where many share them; each duel is still won."""
    weights, x, _ = linear(64, classes, 0.1)
    smoothed = SmoothedClassifier(lambda batch: batch @ weights.T, SIGMA, batch=1000)
    votes, duels = (smoothed.certify(x, each, n0=1000, n=50_000).radius for each in (Cohen(), Duels()))
    assert votes <= most * duels
    assert duels > 0.09


@pytest.mark.parametrize(("dimension", "classes"), [(2, 2), pytest.param(3, 10, marks=pytest.mark.slow), (20, 30)])
def test_radii_exceed_the_distance_no_more_often_than_alpha(dimension: int, classes: int) -> None:
    weights, x, top = linear(dimension, classes, 0.4)
    smoothed = SmoothedClassifier(lambda batch: batch @ weights.T, SIGMA, batch=500)
    for alpha in (0.05, 0.01):
        made = [smoothed.certify(x, Duels(), n0=30, n=500, alpha=alpha, seed=seed) for seed in range(400)]
        wrong = sum(each.radius > 0.4 or each.prediction not in (top, -1) for each in made)
        assert not too_many(wrong, 400, alpha), f"{wrong} of 400 radii exceed the distance at alpha {alpha}"
        assert wrong > 0.2 * alpha * 400 or alpha < 0.05  # and the bound is not idle
