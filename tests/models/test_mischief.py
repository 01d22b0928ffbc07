"""No Lipschitz bound is below the truth, whatever is done to a network: it holds, or the network is refused by name."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from lvmrs import Deterministic, Duels, SmoothedClassifier
from lvmrs.attacks import Search, attack
from lvmrs.errors import ModelError
from lvmrs.kernel.maps import Duel
from lvmrs.kernel.sampler import evaluating
from lvmrs.models import Preprocessed, SandwichNetwork, lipschitz_bound
from tests.models.mischief import CATALOGUE, IMAGE, SHAPE
from tests.models.random_networks import ALLOWED, MISCHIEF, network
from tests.models.random_networks import IMAGE as FUZZED


def steepest_found(model: nn.Module, shape: tuple[int, ...], points: int = 3) -> float:
    """The largest slope found by differences, for single inputs and for a batch whose rows all move alike."""
    seeded = torch.Generator().manual_seed(1)
    size, step = math.prod(shape), 1e-6
    moves = step * torch.eye(size, dtype=torch.float64)
    found = 0.0
    with evaluating(model):
        for _ in range(points):
            for rows in (1, 3):
                x = torch.randn(rows, *shape, generator=seeded, dtype=torch.float64)
                columns = [
                    first_answer(model, x + move) - first_answer(model, x - move) for move in moves.view(size, *shape)
                ]
                found = max(found, float(torch.linalg.matrix_norm(torch.stack(columns), ord=2)) / (2 * step))
    return found


def first_answer(model: nn.Module, x: Tensor) -> Tensor:
    answer: Tensor = model(x.clone())[0]
    return answer.clone().flatten()


SLOW = ("compiled",)  # the compiler alone takes seconds to be imported


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in CATALOGUE])
def test_mischief_is_refused_by_name_or_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    entry = CATALOGUE[name]
    model = entry.make(monkeypatch).double().eval()
    if entry.refused is None:
        bound = lipschitz_bound(model, entry.shape)
        assert 0 < steepest_found(model, entry.shape) <= bound * (1 + 1e-6)
    else:
        with pytest.raises(ModelError, match=entry.refused):
            lipschitz_bound(model, entry.shape)


def test_the_catalogue_is_large() -> None:
    assert len(CATALOGUE) >= 80
    assert sum(entry.refused is None for entry in CATALOGUE.values()) >= 15


def test_modules_inside_each_other_are_refused_in_one_sentence() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    net[1].parent = net  # torch takes it for a module in the activation
    with pytest.raises(ModelError, match="cannot be traced"):
        lipschitz_bound(net, SHAPE)


# ---- random networks


def climbed(model: nn.Module, shape: tuple[int, ...], steps: int) -> float:
    """The largest slope that a search finds: from a random input, moves that make the derivative steeper are kept."""
    seeded = torch.Generator().manual_seed(2)
    size, step = math.prod(shape), 1e-6
    moves = step * torch.eye(size, dtype=torch.float64).view(size, *shape)

    def slope(x: Tensor) -> float:
        columns = (model(x + moves) - model(x - moves)).flatten(1)
        return float(torch.linalg.matrix_norm(columns, ord=2)) / (2 * step)

    best, x = 0.0, torch.rand(*shape, generator=seeded, dtype=torch.float64)
    with evaluating(model):
        for turn in range(steps):
            width = (3.0, 1.0, 0.3)[turn % 3]
            other = x + width * torch.randn(*shape, generator=seeded, dtype=torch.float64)
            found = slope(other)
            if found > best:
                best, x = found, other
    return best


def check_random_network(seed: int, steps: int) -> str:
    """Say whether a network is refused or bounded: one without mischief is bounded, and no slope is above its bound."""
    choose = random.Random(seed)  # noqa: S311
    torch.manual_seed(seed)
    model = network(choose)
    done = choose.sample(MISCHIEF, k=seed % 3)
    for change in done:
        change(model, choose)
    if any(change not in ALLOWED for change in done):
        with pytest.raises(ModelError):
            lipschitz_bound(model, FUZZED)
        return "refused"
    bound = lipschitz_bound(model, FUZZED)
    assert climbed(model, FUZZED, steps) <= bound * (1 + 1e-6), (seed, done)
    assert steepest_found(model, FUZZED, points=1) <= bound * (1 + 1e-6), (seed, done)
    return "bounded"


def test_random_networks_with_random_mischief() -> None:
    ends = [check_random_network(seed, steps=3) for seed in range(12)]
    assert {"refused", "bounded"} == set(ends)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_random_networks_with_random_mischief(block: int) -> None:
    ends = [check_random_network(seed, steps=60) for seed in range(1000 + 60 * block, 1060 + 60 * block)]
    assert ends.count("bounded") >= 18
    assert ends.count("refused") >= 18


# ---- from end to end: no certificate may be larger than the distance to another class


def honest_radius(model: nn.Module, x: Tensor) -> float:
    """The distance of the nearest input on a circle around x that another class wins, found by a search."""
    angles = torch.linspace(0, 2 * math.pi, 73)[:-1]
    around = torch.stack([angles.cos(), angles.sin()], dim=1)
    with evaluating(model):
        here = int(model(x[None]).argmax())
        for radius in torch.linspace(0.02, 4, 200):
            if (model(x + radius * around).argmax(dim=1) != here).any():
                return float(radius)
    return math.inf


SANDWICH_MISCHIEF = [
    name for name, entry in CATALOGUE.items() if "Sandwich" in str(entry.refused) or "sandwich" in name
]


@pytest.mark.parametrize("name", SANDWICH_MISCHIEF)
def test_no_certificate_relies_on_a_constant_that_was_undone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    entry = CATALOGUE[name]
    model = entry.make(monkeypatch).double().eval()

    def certify() -> float:
        constant = None if isinstance(model, SandwichNetwork) else lipschitz_bound(model, SHAPE)
        smoothed = SmoothedClassifier(model, None, constant)
        return smoothed.certify(torch.zeros(SHAPE, dtype=torch.float64), Deterministic()).radius

    with pytest.raises(ModelError, match=str(entry.refused)):
        certify()


def test_a_change_after_the_smoothed_classifier_was_made_is_seen() -> None:
    torch.manual_seed(0)
    model = SandwichNetwork((2,), [], dense=[4], classes=2)
    smoothed, x = SmoothedClassifier(model, None), torch.tensor([0.3, 0.1])
    certified = smoothed.certify(x, Deterministic()).radius
    assert 0 < certified <= honest_radius(model, x)
    handle = model.register_forward_hook(lambda module, taken, answer: 20 * answer)
    with torch.no_grad():
        believed = Deterministic().certify(model.eval()(x[None])[0], 1.0)
    assert believed.radius > honest_radius(model, x)  # the certificate of a constant that is believed would be false
    with pytest.raises(ModelError, match=r"SandwichNetwork is not known.*forward hooks"):
        smoothed.certify(x, Deterministic())
    handle.remove()
    assert smoothed.certify(x, Deterministic()).radius == certified
    model.gamma = 20.0
    with pytest.raises(ModelError, match=r"stated the Lipschitz constant 1 and now states 20"):
        smoothed.certify(x, Deterministic())


ASKED: dict[str, Callable[[SmoothedClassifier, Tensor], object]] = {
    "certify": lambda smoothed, x: smoothed.certify(x, Duels(), n0=10, n=20),
    "certify_batch": lambda smoothed, x: smoothed.certify_batch([x], Duels(), n0=10, n=20),
    "predict": lambda smoothed, x: smoothed.predict(x, n=20),
    "predict without noise": lambda smoothed, x: smoothed.predict(x, Deterministic()),
    "predict with the constant": lambda smoothed, x: smoothed.predict(x, Duels(1.0), n=20),
    "scores": lambda smoothed, x: smoothed.scores(x, 10),
    "terms": lambda smoothed, x: smoothed.terms(0.01, 10),
    "calibrate": lambda smoothed, x: smoothed.calibrate([x], n0=10, n=20),
    "calibrate_duels": lambda smoothed, x: smoothed.calibrate_duels([x], n0=10),
    "answer": lambda smoothed, x: smoothed.answer(x),
    "classes": lambda smoothed, x: smoothed.classes(x),
    "prepare": lambda smoothed, x: smoothed.prepare(x),
    "sampler": lambda smoothed, x: smoothed.sampler(x),
    "attack": lambda smoothed, x: attack(smoothed, x, 0, 0.1, Duel(), Search(steps=1, restarts=1)),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_changed_model_is_refused_whatever_is_asked(name: str) -> None:
    model = SandwichNetwork((2,), [], dense=[4], classes=2)
    smoothed, x = SmoothedClassifier(model, 0.25, batch=20), torch.tensor([0.3, 0.1])
    ASKED[name](smoothed, x)
    model.register_forward_hook(lambda module, taken, answer: 20 * answer)
    with pytest.raises(ModelError, match=r"SandwichNetwork is not known.*forward hooks"):
        ASKED[name](smoothed, x)


def test_the_constant_of_a_class_of_the_users_own_is_the_users_word() -> None:
    class Own(SandwichNetwork):
        @property
        def lipschitz(self) -> float:
            return 7.0

        def forward(self, x: Tensor) -> Tensor:
            return 7 * super().forward(x)

    assert SmoothedClassifier(Own((2,), [], dense=[4], classes=2), None).lipschitz == 7
    assert SmoothedClassifier(Preprocessed(Own(IMAGE, [], dense=[4], classes=2), [0.5], [0.5]), None).lipschitz == 14
    changed = SandwichNetwork((2,), [], dense=[4], classes=2)
    changed.register_forward_hook(lambda module, taken, answer: 20 * answer)
    assert SmoothedClassifier(changed, None, lipschitz=20.0).lipschitz == 20  # given by the user


def test_a_wrapper_that_passes_a_constant_on_states_none() -> None:
    smoothed = SmoothedClassifier(CATALOGUE["constant_that_is_passed_on"].make(pytest.MonkeyPatch()), 0.5)
    assert math.isinf(smoothed.lipschitz)
