"""RoutedClassifier: certificates hold for the classifier that is described, S is well chosen, and errors are clear."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lvmrs import Duels, RoutedClassifier, SmoothedClassifier, certify_dataset
from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel.noise import Stage, Stream
from lvmrs.runs import routed as module

SETTINGS: dict[str, Any] = {"n0": 200, "n": 5000}


def linear(*rows: tuple[float, ...]) -> nn.Linear:
    """Each row has the weights of a class, and its bias last."""
    given = torch.tensor(rows, dtype=torch.float32)
    net = nn.Linear(given.shape[1] - 1, len(rows))
    net.weight.data, net.bias.data = given[:, :-1].clone(), given[:, -1].clone()
    return net


def smoothed(net: nn.Module, sigma: float = 0.5, **settings: Any) -> SmoothedClassifier:
    return SmoothedClassifier(net, sigma, batch=500, **settings)


TWO = linear((1, 0, 0), (-1, 0, 0))
ROUTER = linear((0, 1, 0.1), (0, -1, 0.1), (1, 0, -0.3))
EXPERTS = [linear((1, 0, 0.3), (0, 1, 0)), linear((1, 0, 0.4), (-1, 1, 0)), linear((0, -1, 0.1), (1, 0, 0.2))]


def answer(x: Tensor) -> int:
    """Duels of linear logits under Gaussian noise are won where the logits without noise are larger."""
    return int(EXPERTS[int(ROUTER(x).argmax())](x).argmax())


def test_certificates_hold_for_the_classifier_whose_router_chooses() -> None:
    routed = RoutedClassifier(
        [smoothed(net, s) for net, s in zip(EXPERTS, (0.5, 0.25, 1.0), strict=True)], smoothed(ROUTER)
    )
    generator, used = torch.Generator().manual_seed(0), set()
    points = [torch.rand(2, generator=generator) * 2 - 1 for _ in range(25)]
    circle = torch.tensor([[math.cos(t), math.sin(t)] for t in np.linspace(0, 2 * math.pi, 40)])
    for index, x in enumerate(points):
        certificate = routed.certify(x, **SETTINGS, index=index)
        used.add(certificate.answering)
        if certificate.prediction >= 0:
            for share in (0.0, 0.5, 0.999):
                assert {answer(x + share * certificate.radius * way) for way in circle} == {certificate.prediction}
            assert routed.predict(x, index=index) in (certificate.prediction, -1)
    assert {len(s) for s in used} >= {1, 2}


def test_it_is_as_good_as_its_parts() -> None:
    """The radius is that of the weakest part, and each part is certified at the full risk."""
    x, experts = torch.tensor([0.3, 0.0]), [smoothed(TWO, 0.25), smoothed(linear((0, 0, 0), (0, 0, 1)))]
    routed = RoutedClassifier(experts, smoothed(linear((1, 0, 0.1), (0, 0, 0))))
    certificate = routed.certify(x, **SETTINGS, alpha=0.01, seed=3, index=4)
    alone = experts[0].certify(x, Duels(), **SETTINGS, alpha=0.01, seed=3, index=4)
    assert certificate.experts == (alone,)
    router = routed.router.certify(x, Duels(), **SETTINGS, alpha=0.01, seed=3, index=4)
    assert (certificate.answering, certificate.fallback) == ((0,), 0)
    assert certificate.router_radius == router.radius
    assert certificate.radius == min(alone.radius, router.radius)
    assert certificate.n == 2 * 5000
    assert f"< {certificate.radius:.4f}"[:6] in certificate.guarantee
    assert routed.certify(x.numpy(), **SETTINGS, alpha=0.01, seed=3, index=4) == certificate


def test_experts_that_agree_widen_a_narrow_router() -> None:
    tied, one = linear((0, 0, 0), (0, 0, 0), (0, 0, 0)), linear((1, 0, 0), (-1, 0, 0))
    third = linear((0, 0, 0), (0, 0, 1))
    x = torch.tensor([0.4, 0.0])
    router = linear((0, 1, 0.02), (0, -1, 0.02), (0, 0, -1))
    for fallback, expected in ((0, (0, 1)), (1, (0, 1)), (2, (0,))):
        routed = RoutedClassifier([smoothed(one), smoothed(one), smoothed(third)], smoothed(router), fallback=fallback)
        certificate = routed.certify(torch.tensor([0.4, 0.1]), **SETTINGS)
        assert certificate.answering == expected
        assert (certificate.radius > 0.3) == (len(expected) == 2)
    routed = RoutedClassifier([smoothed(one), smoothed(one), smoothed(one)], smoothed(tied))
    certificate = routed.certify(x, **SETTINGS)
    assert (certificate.router, certificate.router_radius, certificate.n) == (None, math.inf, 3 * 5000)
    assert 0.37 < certificate.radius < 0.4


def test_the_set_of_experts_depends_on_the_selection_sample_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """With other noise to prove on, the same experts answer, though the sample to prove on would choose others."""
    tied = linear((0, 1, 0), (0, -1, 0), (0, 0, -9))  # experts 0 and 1 agree; the router hardly prefers one
    routed = RoutedClassifier([smoothed(TWO), smoothed(linear((1, 0.6, 0), (-1, 0, 0))), smoothed(TWO)], smoothed(tied))
    answering = []
    stages: tuple[Stage, ...] = ("certification", "prediction")
    for stage in stages:
        monkeypatch.setattr(module, "Stream", lambda seed, index, _, stage=stage: Stream(seed, index, stage))
        made = [routed.certify(torch.tensor([0.4, 0.35]), n0=60, n=60, seed=seed) for seed in range(16)]
        answering.append([each.answering for each in made])
    assert answering[0] == answering[1]
    assert len(set(answering[0])) > 1  # the choice is close, and a sample decides it


def test_exact_noise_and_other_settings_of_the_parts_are_used() -> None:
    class Flat(nn.Module):
        def __init__(self, sign: float) -> None:
            super().__init__()
            self.sign = nn.Parameter(torch.tensor(sign))

        def forward(self, x: Tensor) -> Tensor:
            mean = x.flatten(1).mean(dim=1) - 0.5
            return torch.stack([self.sign * mean, -self.sign * mean], dim=1)

    parts = [SmoothedClassifier(Flat(1.0), s, noise="exact", batch=100) for s in (0.25, 0.5, 0.25)]
    certificate = RoutedClassifier(parts[1:], parts[0]).certify(torch.full((1, 4, 4), 0.6), n0=50, n=500)
    assert certificate.prediction == 0
    assert "Here x is" in certificate.guarantee
    assert all(each.noise_risk > 0 for each in certificate.experts)


def test_bad_arguments_get_one_sentence() -> None:
    two, x = smoothed(TWO), torch.tensor([0.3, 0.0])
    wrong: list[tuple[str, Any]] = [
        ("experts must be at least 2 smoothed classifiers, got 1", lambda: RoutedClassifier([two], two)),
        ("experts must be", lambda: RoutedClassifier([two, TWO], two)),  # type: ignore[list-item]
        ("experts must be", lambda: RoutedClassifier(two, two)),  # type: ignore[arg-type]
        ("router must be a SmoothedClassifier", lambda: RoutedClassifier([two, two], TWO)),  # type: ignore[arg-type]
        ("fallback must be", lambda: RoutedClassifier([two, two], two, fallback=2)),
        ("sigma must be given", lambda: RoutedClassifier([two, SmoothedClassifier(TWO, None)], two)),
        (
            "noise must be the same for the router and all experts, got gaussian and exact",
            lambda: RoutedClassifier([two, smoothed(TWO, noise="exact")], two),
        ),
        (
            "router must have one class for each of the 3 experts, got 2 classes",
            lambda: RoutedClassifier([two, two, two], two).certify(x, n0=10, n=20),
        ),
        (
            r"experts must have the same number of classes, got \[2, 3\]",
            lambda: RoutedClassifier([two, smoothed(ROUTER)], two).certify(x, n0=10, n=20),
        ),
        (
            "x is rounded to float32 by some of the networks",
            lambda: RoutedClassifier([two, smoothed(linear((1, 0, 0), (0, 1, 0)).double())], two).certify(
                np.array([0.1, 0.2]), n0=10, n=20
            ),
        ),
        (
            "smoothed must be a SmoothedClassifier",
            lambda: certify_dataset(RoutedClassifier([two, two], two), [x]),  # type: ignore[arg-type]
        ),
        ("n0 must be", lambda: RoutedClassifier([two, two], two).certify(x, n0=0, n=20)),
        ("alpha must", lambda: RoutedClassifier([two, two], two).predict(x, alpha=2.0)),
    ]
    for sentence, make in wrong:
        with pytest.raises(InvalidArgumentError, match=sentence):
            make()
    assert "fallback=0" in repr(RoutedClassifier([two, two], two))
