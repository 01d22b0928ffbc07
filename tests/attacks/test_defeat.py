"""What shows that a class does not win, and how often that is wrong."""

import numpy as np
import pytest
import torch
from scipy import stats

from lvmrs.attacks.targets import rejects, scores_against
from lvmrs.kernel.bounds import betting
from lvmrs.kernel.maps import Duel, Hardmax, Map, SoftDuel, Softmax, Sparsemax

LOGITS = torch.tensor([[2.0, 0.0, 1.0], [0.5, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 3.0, 0.0]])


@pytest.mark.parametrize("map_", [Duel(), SoftDuel(1.5), Hardmax(), Softmax(0.5), Sparsemax(2.0), Softmax(1.0, 2.0)])
def test_scores_are_the_rivals_against_the_class(map_: Map) -> None:
    found = scores_against(map_, LOGITS, 0, [2, 1])
    for place, rival in enumerate((2, 1)):
        columns = map_.columns(LOGITS, 0, torch.tensor([rival]), torch.tensor([], dtype=torch.long)).double().numpy()
        expected = 1 - columns[:, 0] if map_.paired else (1 + columns[:, 1] - columns[:, 0]) / 2
        np.testing.assert_allclose(found[:, place], expected)
    assert found.min() >= 0
    assert found.max() <= 1


def test_ties_of_logits_are_no_wins_of_a_duel_as_in_the_certificate() -> None:
    assert scores_against(Duel(), LOGITS, 0, [1])[2, 0] == 1.0


def test_votes_for_other_classes_say_nothing() -> None:
    decided = np.array([1.0] * 60 + [0.0] * 40)
    with_others = np.concatenate([decided, np.full(10_000, 0.5)])
    for risk in (0.001, 0.02, 0.05, 0.2):
        assert rejects(Hardmax(), decided, risk) == rejects(Hardmax(), with_others, risk)
        assert rejects(Hardmax(), decided, risk) == (stats.binomtest(60, 100, 0.5, alternative="greater").pvalue < risk)
    assert not rejects(Hardmax(), np.full(100, 0.5), 0.5)


@pytest.mark.statistical
@pytest.mark.parametrize("map_", [Duel(), Hardmax(), Softmax()])
def test_a_class_that_is_even_with_a_rival_is_seldom_said_to_lose(map_: Map) -> None:
    repeats, risk = 2000, 0.05
    scores = np.random.default_rng(0).integers(0, 2, (repeats, 200)).astype(float)
    # Games are quick side by side, and the same as one by one.
    found = [rejects(map_, row, risk) for row in scores] if map_.binary else list(betting.lower(scores, risk) > 0.5)
    assert [rejects(map_, row, risk) for row in scores[:30]] == found[:30]
    wrong = sum(found)
    assert wrong <= stats.binom.ppf(0.999, repeats, risk)
    assert wrong > 0
