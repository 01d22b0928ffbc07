"""Answers are about the classifier that is certified, and are wrong no more often than alpha."""

import dataclasses
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from lvmrs import (
    LVM,
    Choice,
    Cohen,
    Deterministic,
    Duels,
    Fixed,
    Lipschitz,
    Paper,
    Plan,
    Planner,
    SmoothedClassifier,
    Terms,
    Votes,
)
from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel.bounds.clopper_pearson import ClopperPearson
from lvmrs.kernel.maps import Hardmax, Map, SimplexMap
from lvmrs.kernel.method import Scope
from lvmrs.kernel.noise import Stream
from lvmrs.kernel.radius import R3
from lvmrs.smoothed import ScoresOf, winner
from lvmrs.testing import FAMILIES, SIGMA, Family, certified, family, made_up_scores, too_many
from tests.kernel.test_deterministic_linear import linear


@dataclasses.dataclass(frozen=True)
class MeanLogit(Planner):
    """A planner of the user's own: votes for the class whose logits are largest on average."""

    scope: ClassVar[Scope] = "all inputs"

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        mean = torch.cat(list(logits)).double().mean(dim=0)
        return Choice(
            top=int(mean.argmax()),
            classes=len(mean),
            map=Hardmax(),
            bound=ClopperPearson(),
            form=R3(),
            risk_top=terms.alpha,
        )


ONE_CLASSIFIER: dict[str, Planner] = {
    "duels": Duels(),
    "soft duels": Duels(0.7),
    "votes": Votes(),
    "cohen": Cohen(),
    "hardmax": Fixed("hardmax"),
    "softmax": Fixed("softmax", 0.5),
    "sparsemax of mass 2, by R1": Fixed("sparsemax", 1.0, 2.0, form="r1-noise"),
    "lipschitz": Lipschitz("ramp"),
    "a planner of the user's own": MeanLogit(),
}
# Methods that only count. The others bet or search, which takes longer: they are simulated at length elsewhere.
COUNTED = ("duels", "votes", "cohen", "a planner of the user's own")
FOR_EACH_INPUT = {"lvm": LVM(), "paper": Paper(), "duels of a chosen width": Duels("chosen")}
TIES = {
    "two classes": family([(0.5, [1.0, 0.0, -3.0]), (0.5, [0.0, 1.0, -3.0])]),
    "two leaders of four": family(
        [(0.35, [2.0, 1.0, 0.0, 0.5]), (0.35, [1.0, 2.0, 0.5, 0.0]), (0.15, [1.0, 1.0, 2.0, 0.0]), (0.15, [1, 1, 0, 2])]
    ),
}
Answering = Callable[[Planner, ScoresOf, Terms], int]


def counted_are_quick() -> list[Any]:
    """The names of all methods; the slow ones are for the longer simulations."""
    return [name if name in COUNTED else pytest.param(name, marks=pytest.mark.statistical) for name in ONE_CLASSIFIER]


def true_answer(planner: Planner, known: Family) -> int:
    """The answer of the smoothed classifier itself, from the exact means; −1 where no class is ahead of all others."""
    terms = Terms(SIGMA, 0.01, 100, 1.0)
    map_ = planner.plan(made_up_scores(known.atoms, Stream(0, 0, "selection")), terms).map
    weights, classes = torch.tensor(known.weights), range(known.atoms.shape[1])
    ahead = [k for k in classes if _lead(map_, known.atoms, weights, k) > 1e-9]
    assert len(ahead) <= 1
    return ahead[0] if ahead else -1


def _lead(map_: Map, atoms: Tensor, weights: Tensor, top: int) -> float:
    """By how much the mean score of a class is above those of all others; for duels, its worst duel above ½."""
    others = torch.tensor([k for k in range(atoms.shape[1]) if k != top])
    if isinstance(map_, SimplexMap):
        means = weights @ map_.apply(atoms).double()
        return float(means[top] - means[others].max())
    duels = map_.columns(atoms, top, others, torch.tensor([], dtype=torch.long)).double()
    return float((weights @ duels).min()) - 0.5


def drawing(known: Family, random: np.random.Generator) -> ScoresOf:
    """Scores of a family, fresh for each stage."""
    return lambda n, stage: made_up_scores(known.draw(random, n), Stream(0, 0, stage))


def wrong_answers(planner: Planner, known: Family, answering: Answering, *, repeats: int, alpha: float) -> int:
    terms, random, truth = Terms(SIGMA, alpha, 60, 1.0), np.random.default_rng(7), true_answer(planner, known)
    answers = [answering(planner, drawing(known, random), terms) for _ in range(repeats)]
    return sum(each not in (-1, truth) for each in answers)


def too_bold(planner: Planner, sampled: ScoresOf, terms: Terms) -> int:
    """A mutant that spends more risk than it says."""
    return winner(planner, sampled, dataclasses.replace(terms, alpha=6 * terms.alpha))


@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize("name", counted_are_quick())
def test_answers_are_wrong_no_more_often_than_alpha(name: str, tie: str) -> None:
    """At a tie every answer is wrong, and as likely as it can be."""
    planner = ONE_CLASSIFIER[name]
    assert true_answer(planner, TIES[tie]) == -1
    assert not too_many(wrong_answers(planner, TIES[tie], winner, repeats=100, alpha=0.05), 100, 0.05)


@pytest.mark.parametrize("name", ["duels", "votes"])
def test_a_test_at_a_larger_risk_is_noticed(name: str) -> None:
    wrong = wrong_answers(ONE_CLASSIFIER[name], TIES["two classes"], too_bold, repeats=300, alpha=0.05)
    assert too_many(wrong, 300, 0.05)


@pytest.mark.statistical
@pytest.mark.parametrize("known", FAMILIES)
@pytest.mark.parametrize("name", COUNTED)
def test_answers_on_difficult_families(name: str, known: str) -> None:
    wrong = wrong_answers(ONE_CLASSIFIER[name], FAMILIES[known], winner, repeats=100, alpha=0.05)
    assert not too_many(wrong, 100, 0.05)


def problem(seed: int) -> Family:
    """A small random problem: any logits, or, every other time, votes that are split while one class is always second.

    The winner of the votes is then not the winner of all duels, so that classifiers can be told apart.
    """
    random = np.random.default_rng([seed, 11])
    if seed % 2:
        rows = random.normal(size=(int(random.integers(3, 7)), int(random.integers(2, 6))))
        weights = random.random(len(rows)) + 0.1
    else:
        rows = random.normal(-3, 0.3, (4, 5)) + 5 * np.eye(4, 5)
        rows[:, 4] = 1.0
        weights = np.array([0.39, 0.2, 0.2, 0.21])
        rows = rows[:, random.permutation(5)]
    return family([(float(weight), row.tolist()) for weight, row in zip(weights, rows, strict=True)])


def disagreements(planner: Planner, answering: Answering, seeds: range, n: int = 1000) -> tuple[int, int]:
    """How often answer and certificate are both there, and how often they are of different classes."""
    both = apart = 0
    terms = Terms(SIGMA, 1e-3, n, 1.0)
    for seed in seeds:
        known, random = problem(seed), np.random.default_rng(seed)
        found = certified(planner, terms, known.draw(random, 60), known.draw(random, n)).prediction
        answer = answering(planner, drawing(known, random), terms)
        both, apart = both + (-1 not in (found, answer)), apart + (-1 not in (found, answer) and found != answer)
    return both, apart


@pytest.mark.parametrize("name", ONE_CLASSIFIER)
def test_an_answer_and_a_certificate_are_about_one_classifier(name: str) -> None:
    seeds = range(40 if name in COUNTED else 5)
    both, apart = disagreements(ONE_CLASSIFIER[name], winner, seeds)
    assert both > len(seeds) / 5
    assert apart == 0


@pytest.mark.statistical
@pytest.mark.parametrize("name", [name for name in ONE_CLASSIFIER if name not in COUNTED])
def test_the_same_for_other_methods_at_greater_length(name: str) -> None:
    both, apart = disagreements(ONE_CLASSIFIER[name], winner, range(40))
    assert both > 15
    assert apart == 0


def by_duels(_: Planner, sampled: ScoresOf, terms: Terms) -> int:
    """A mutant that answers by another classifier, whatever the method is."""
    return winner(Duels(), sampled, terms)


def test_answers_of_another_classifier_are_noticed() -> None:
    both, apart = disagreements(Votes(), by_duels, range(40))
    assert both > 10
    assert apart > 5


@pytest.mark.parametrize("name", ONE_CLASSIFIER)
def test_the_map_is_that_of_the_certificates(name: str) -> None:
    smoothed = SmoothedClassifier(torch.nn.Identity(), 0.5, 2.0, batch=50)
    for x in (torch.tensor([1.0, 0.0, 0.2]), torch.tensor([0.0, 0.1, 3.0])):
        certificate = smoothed.certify(x, ONE_CLASSIFIER[name], n0=50, n=400, alpha=0.01)
        assert certificate.plan is not None
        assert smoothed.predict(x, ONE_CLASSIFIER[name], n=400, alpha=0.01) in (certificate.prediction, -1)
        answer = certificate.plan.map
        assert all(plan.map == answer for plan in _plans(smoothed, ONE_CLASSIFIER[name]))


def _plans(smoothed: SmoothedClassifier, planner: Planner) -> list[Plan]:
    terms = Terms(0.5, 0.01, 400, 2.0)
    points = torch.randn(3, 3, generator=torch.Generator().manual_seed(0))
    return [planner.plan(smoothed.scores(x, 50, stage="selection"), terms) for x in points]


@pytest.mark.parametrize("name", ["duels", "soft duels", "votes", "softmax"])
def test_within_the_radius_the_answer_is_the_certified_class(name: str) -> None:
    """At x' just inside the radius, also straight towards the nearest other class, where the truth is known."""
    planner, answered = ONE_CLASSIFIER[name], 0
    for seed in range(3):
        weights, x, top = linear(6, 3, 0.8, seed)
        smoothed = SmoothedClassifier(partial(_logits, weights), 0.5, batch=500)
        certificate = smoothed.certify(x, planner, n0=200, n=4000)
        assert certificate.prediction == top
        logits = weights @ x
        rivals = [k for k in range(3) if k != top]
        gaps = torch.stack([weights[k] - weights[top] for k in rivals])
        nearest = gaps[((logits[top] - logits[rivals]) / gaps.norm(dim=1)).argmin()]
        directions = [nearest, *torch.randn(2, 6, generator=torch.Generator().manual_seed(seed))]
        for number, direction in enumerate(directions):
            moved = x + 0.99 * certificate.radius * direction / direction.norm()
            answer = smoothed.predict(moved, planner, n=2000, index=number)
            assert answer in (top, -1)
            answered += answer == top
    assert answered >= 5


def _logits(weights: Tensor, batch: Tensor) -> Tensor:
    return batch @ weights.T.to(batch.dtype)


@pytest.mark.parametrize("name", FOR_EACH_INPUT)
def test_a_map_chosen_for_each_input_is_no_one_classifier(name: str) -> None:
    planner = FOR_EACH_INPUT[name]
    smoothed = SmoothedClassifier(torch.nn.Identity(), 0.5, 1.0, batch=10)
    with pytest.raises(InvalidArgumentError, match=r"chooses a map for each input as it is set, so there"):
        smoothed.predict(torch.tensor([1.0, 0.0]), planner, n=20)


def test_the_classifier_itself_answers_without_noise() -> None:
    smoothed = SmoothedClassifier(torch.nn.Identity(), None, 1.0)
    assert smoothed.predict(torch.tensor([1.0, 3.0]), Deterministic()) == 1
    assert smoothed.predict(torch.tensor([1.0, 1.0]), Deterministic()) == -1
