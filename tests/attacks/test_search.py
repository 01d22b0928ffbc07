"""The search, on classifiers whose true radius is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lvmrs import Deterministic, Duels, SmoothedClassifier, models
from lvmrs.attacks import Finding, Search, attack
from lvmrs.attacks.search import _InputSearch
from lvmrs.attacks.targets import Smoothed
from lvmrs.errors import InvalidArgumentError, ModelError
from lvmrs.kernel.maps import Duel, Hardmax, Map, SoftDuel, Softmax, Sparsemax
from lvmrs.kernel.noise import Gaussian
from lvmrs.models.sandwich import SandwichNetwork
from lvmrs.registry import NOISES
from tests.attacks.linear import linear, true_radius
from tests.own_parts import Uniform

QUICK = Search(steps=5, samples=16, n=2000)
SIGMA = 0.25


def attacked(network: Any, x: Tensor, top: int, radius: float, map_: Map | None, search: Search = QUICK) -> Finding:
    return attack(SmoothedClassifier(network, SIGMA, batch=500), x, top, radius, map_, search)


def within(found: Finding, truth: float, slack: float) -> bool:
    return found.distance is not None and truth * (1 - 1e-6) <= found.distance <= truth + slack


@pytest.mark.parametrize("classes", [2, 5])
def test_certified_true_and_attacked_radius_of_duels_stand_in_this_order(classes: int) -> None:
    network, x = linear(classes, 8)
    top, truth, rival = true_radius(network, x)
    smoothed = SmoothedClassifier(network, SIGMA, batch=500)
    certificate = smoothed.certify(x, Duels(), n0=100, n=2000)
    found = attack(smoothed, x, top, certificate.radius, Duel(), Search(steps=5, n=20_000))
    assert certificate.prediction == top
    assert certificate.radius <= truth
    assert within(found, truth, 0.04 * truth)  # n fresh samples cannot tell nearer points from the boundary
    assert found.rival == rival
    assert found.point is not None
    assert abs(float((found.point - x).double().norm()) - (found.distance or 0)) < 1e-6


@pytest.mark.parametrize("map_", [SoftDuel(2.0), Hardmax(), Softmax(2.0), Sparsemax(3.0)])
def test_other_maps_of_two_classes_change_at_the_same_place(map_: Map) -> None:
    network, x = linear(2, 8)
    top, truth, _ = true_radius(network, x)
    assert within(attacked(network, x, top, 0.8 * truth, map_), truth, 0.25 * SIGMA)


def test_the_network_itself_is_attacked_without_noise() -> None:
    network, x = linear(5, 8)
    top, truth, rival = true_radius(network, x)
    smoothed = SmoothedClassifier(network, None, batch=500)
    found = attack(smoothed, x, top, truth / 10, None, QUICK)
    assert within(found, truth, 0.02 * truth)
    assert (found.rival, found.samples < 500) == (rival, True)


def test_a_certificate_that_claims_too_much_is_broken_and_a_sound_one_is_not() -> None:
    network, x = linear(3, 8)
    top, truth, _ = true_radius(network, x)
    for map_ in (Duel(), None):
        false, sound = (attacked(network, x, top, claimed * truth, map_) for claimed in (1.6, 0.99))
        assert false.distance is not None
        assert false.distance < 1.6 * truth
        assert sound.distance is not None
        assert sound.distance >= 0.99 * truth


def test_the_seed_decides_what_is_found() -> None:
    network, x = linear(3, 8)
    top, truth, _ = true_radius(network, x)
    first, again, other = (
        attacked(network, x, top, 0.9 * truth, Duel(), Search(steps=3, samples=8, n=500, seed=seed))
        for seed in (0, 0, 1)
    )
    assert first.point is not None
    assert again.point is not None
    assert other.point is not None
    assert torch.equal(first.point, again.point)
    assert (first.distance, first.samples) == (again.distance, again.samples)
    assert not torch.equal(first.point, other.point)


def test_the_first_ascent_is_free_and_the_others_go_for_the_hardest_rivals(monkeypatch: pytest.MonkeyPatch) -> None:
    network, x = linear(4, 8)
    top, truth, nearest = true_radius(network, x)
    goals: list[int | None] = []
    starts: list[bool] = []
    ascend = _InputSearch._ascend

    def noted(hunt: _InputSearch, epsilon: float, offset: Tensor, rival: int | None) -> Tensor:
        goals.append(rival)
        starts.append(bool(offset.any()))
        return ascend(hunt, epsilon, offset, rival)

    monkeypatch.setattr(_InputSearch, "_ascend", noted)
    attacked(network, x, top, 0.9 * truth, Duel(), Search(steps=2, samples=8, n=500, restarts=4))
    with torch.no_grad():
        weights, logits = network.weight, network(x)
        distances = (logits[top] - logits) / (weights[top] - weights).norm(dim=1).clamp(min=1e-9)
    order = [k for k in distances.argsort().tolist() if k != top]
    assert goals[:4] == [None, *order]
    assert goals[5:8] == goals[1:4]
    assert starts[:8] == [False, True, True, True] * 2
    assert goals[-4] == nearest  # the ball became smaller around a point where this rival is ahead


def test_all_judgements_of_an_input_share_the_risk(monkeypatch: pytest.MonkeyPatch) -> None:
    network, x = linear(3, 8)
    top, truth, _ = true_radius(network, x)
    risks: list[float] = []

    def never(target: Smoothed, x: Tensor, rival: int, risk: float) -> bool:
        risks.append(risk)
        return False

    monkeypatch.setattr(Smoothed, "misclassified", never)
    found = attacked(network, x, top, 1.5 * truth, Duel(), Search(steps=3, samples=8, n=500, beta=0.01))
    assert (found.distance, found.rival, found.point) == (None, None, None)
    assert len(risks) >= 3
    assert risks == [0.01 / 2 ** (k + 1) for k in range(len(risks))]


def test_points_are_judged_on_other_noise_than_they_were_found_with(monkeypatch: pytest.MonkeyPatch) -> None:
    from lvmrs.kernel.sampler import Request, Sampler

    drawn: set[tuple[str, int]] = set()
    shared: list[tuple[str, int]] = []
    noisy = Sampler._noisy

    def noted(sampler: Sampler, request: Request) -> Any:
        stage, first = request.stream.stage, request.first
        numbers = {(stage, k) for k in range(first, first + request.n)}
        if stage == "confirmation" or request.n == 8:
            shared.extend(drawn & numbers)
        drawn.update(numbers)
        return noisy(sampler, request)

    network, x = linear(3, 8)
    top, truth, _ = true_radius(network, x)
    monkeypatch.setattr(Sampler, "_noisy", noted)
    attacked(network, x, top, 1.2 * truth, Duel(), Search(steps=3, samples=8, n=500))
    drawn_for = {stage for stage, _ in drawn} - {"calibration"}  # by which the speed of a model is measured
    assert drawn_for == {"attack", "confirmation"}  # never that of certificates
    assert shared == []


def test_points_stay_in_the_range_if_that_is_asked_for() -> None:
    network, x = linear(2, 8)
    with torch.no_grad():
        network.bias[0] += network.weight[0].norm() / 4
    top, truth, _ = true_radius(network, x)
    free, kept = (
        attacked(network, x, top, 0.5 * truth, Duel(), Search(steps=10, samples=16, n=1000, clip=clip))
        for clip in (False, True)
    )
    assert free.point is not None
    assert not bool(((free.point >= 0) & (free.point <= 1)).all())
    assert kept.point is None or bool(((kept.point >= 0) & (kept.point <= 1)).all())


def test_points_are_on_the_grid_of_a_noise_that_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gaussian, "levels", 15, raising=False)
    network, x = linear(2, 8)
    x = torch.round(x * 15) / 15
    top, truth, _ = true_radius(network, x)
    found = attacked(network, x, top, 1.5 * truth, Duel())
    assert found.point is not None
    assert found.distance is not None
    torch.testing.assert_close(found.point * 15, torch.round(found.point * 15), rtol=0, atol=1e-5)
    assert found.distance == pytest.approx(float((found.point.double() - x.double()).norm()))
    assert truth <= found.distance < 1.5 * truth


def test_it_gives_up_beyond_the_farthest_distance() -> None:
    network, x = linear(2, 8)
    top, truth, _ = true_radius(network, x)
    search = Search(steps=2, samples=8, n=500, farthest=0.8 * truth)
    assert attacked(network, x, top, 0.5 * truth, Duel(), search).distance is None


def test_a_constant_classifier_has_no_such_point() -> None:
    constant = nn.Linear(3, 2)
    with torch.no_grad():
        constant.weight.zero_()
        constant.bias.copy_(torch.tensor([1.0, 0.0]))
    search = Search(steps=2, samples=4, n=100)
    for map_ in (Duel(), Softmax(), None):
        assert attacked(constant, torch.rand(3), 0, 1.0, map_, search).distance is None


def test_gradients_go_through_a_denoiser_and_through_a_folded_sandwich() -> None:
    network, x = linear(2, 8)
    top, truth, _ = true_radius(network, x)
    denoised = models.Denoised(nn.Identity(), network)
    assert attacked(denoised, x, top, truth / 2, Duel(), Search(steps=2, samples=4, n=100)).samples > 0
    torch.manual_seed(0)
    sandwich = SandwichNetwork((1, 4, 4), [(2, 3, 1)], [4], 3, 1.0).eval()
    smoothed = SmoothedClassifier(sandwich, None, batch=10)
    picture = torch.rand(1, 4, 4)
    certificate = smoothed.certify(picture, Deterministic())
    found = attack(smoothed, picture, certificate.prediction, certificate.radius, None, Search(farthest=1000.0))
    assert found.distance is not None
    assert found.distance >= certificate.radius


def test_what_cannot_be_attacked_is_refused() -> None:
    network, x = linear(2, 8)
    top, truth, _ = true_radius(network, x)
    with pytest.raises(ModelError, match="the model has no gradients"):
        attacked(lambda batch: network(batch).detach(), x, top, truth, Duel())
    with pytest.raises(InvalidArgumentError, match="top must be a whole number of at least 0 and at most 1, got 2"):
        attacked(network, x, 2, truth, Duel())
    NOISES.add(Uniform)
    smoothed = SmoothedClassifier(network, SIGMA, batch=100, noise=Uniform())
    with pytest.raises(InvalidArgumentError, match="attacks search in the Euclidean distance"):
        attack(smoothed, x, top, truth, Duel())


def test_search_refuses_what_is_no_setting() -> None:
    for wrong in (
        {"steps": 0},
        {"restarts": 0},
        {"samples": 0},
        {"n": 1},
        {"beta": 1.0},
        {"seed": -1},
        {"farthest": 0},
    ):
        with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
            Search(**wrong)
    with pytest.raises(InvalidArgumentError, match="clip must be True or False"):
        Search(clip=1)  # type: ignore[arg-type]
    assert Search(n=np.int64(5)).n == 5  # type: ignore[arg-type]


def test_distances_are_from_the_point_of_the_grid_that_was_certified() -> None:
    """Two tensors that stand for the same point of the grid have the same certificate, and the same attack."""
    network, x = linear(2, 8)
    smoothed = SmoothedClassifier(network, SIGMA, batch=500, noise="exact")
    near = torch.round(x * 255) / 255
    off = near * (1 + 3 * torch.finfo(near.dtype).eps)
    assert not torch.equal(off, near)
    top = smoothed.answer(near)
    first, second = (attack(smoothed, each, top, 0.1, Duel(), QUICK) for each in (near, off))
    assert first.distance == second.distance is not None
