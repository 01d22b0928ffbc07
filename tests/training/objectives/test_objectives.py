"""Objectives against slow formulas."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from lvmrs import training
from lvmrs.errors import InvalidArgumentError
from lvmrs.registry import OBJECTIVES
from tests.training.helpers import Recorder, batch, fresh, seeded


def test_gaussian_is_cross_entropy_on_noisy_inputs() -> None:
    model, (x, y) = fresh(), batch()
    noisy = x + 0.5 * torch.randn(x.shape, generator=seeded())
    slow = -torch.log_softmax(model(noisy), dim=1)[range(6), y].mean()
    torch.testing.assert_close(training.Gaussian(0.5).loss(model, x, y, seeded()), slow)


def test_margin_asks_for_a_distance() -> None:
    """A γ-Lipschitz network has to win by √2 γ · offset in logits: the loss is that of γ = 1 on logits/γ."""
    model, (x, y) = fresh("sandwich_small,channels=1,side=8,gamma=5"), batch()
    logits = model(x + 0.5 * torch.randn(x.shape, generator=seeded())) / 5
    logits = logits - math.sqrt(2) * 0.3 * functional.one_hot(y, 10)
    slow = 0.25 * functional.cross_entropy(logits / 0.25, y)
    torch.testing.assert_close(training.Margin(0.5, margin=0.3).loss(model, x, y, seeded()), slow)


def test_denoising_and_diffusion_are_squared_errors() -> None:
    model, (x, y) = fresh("dncnn,channels=1").eval(), batch()
    noisy = x + 0.5 * torch.randn(x.shape, generator=seeded())
    slow = ((model(noisy) - x) ** 2).mean()
    torch.testing.assert_close(training.Denoising(0.5).loss(model, x, y, seeded()), slow)

    class Zero:
        """A UNet that finds no noise."""

        def __call__(self, seen: Tensor, step: Tensor) -> Any:
            self.seen, self.step = seen, step
            return type("Answer", (), {"sample": torch.zeros_like(seen)})

    unet, kept = Zero(), (0.9, 0.5, 0.1)
    loss = training.Diffusion(kept).loss(unet, x, y, seeded())
    random = seeded()
    step = torch.randint(3, (6,), generator=random)
    noise = torch.randn(x.shape, generator=random)
    share = torch.tensor(kept)[step].view(-1, 1, 1, 1)
    torch.testing.assert_close(unet.seen, share.sqrt() * (2 * x - 1) + (1 - share).sqrt() * noise)
    assert torch.equal(unet.step, step)
    torch.testing.assert_close(loss, (noise**2).mean())


def test_smoothadv_moves_inputs_against_the_smoothed_classifier() -> None:
    model, (x, y) = Recorder(fresh()), batch()
    aim = training.SmoothAdv(0.25, epsilon=0.7, steps=3, samples=4)
    loss = aim.loss(model, x, y, seeded())
    noise = 0.25 * torch.randn(24, 1, 8, 8, generator=seeded())
    assert len(model.asked) == 4
    moves = [(asked - noise).view(6, 4, 1, 8, 8) for asked in model.asked]
    for move in moves:  # one place for all copies of an input
        torch.testing.assert_close(move, move[:, :1].expand_as(move))
    final = moves[-1][:, 0]
    assert float((final - x).flatten(1).norm(dim=1).max()) <= 0.7 + 1e-5
    assert float(final.min()) >= -1e-6
    assert float(final.max()) <= 1 + 1e-6

    def smoothed_loss(place: Tensor) -> float:
        chances = torch.softmax(model(place.repeat_interleave(4, 0) + noise), dim=1).view(6, 4, 10).mean(dim=1)
        return float(-chances[range(6), y].log().mean().detach())

    start, first, end = (smoothed_loss(place) for place in (x, moves[1][:, 0], final))
    assert start < first < end
    slow = functional.cross_entropy(model(final.repeat_interleave(4, 0) + noise), y.repeat_interleave(4))
    torch.testing.assert_close(loss, slow)


def test_the_first_step_of_smoothadv_follows_the_gradient() -> None:
    model, (x, y) = Recorder(fresh()), batch()
    aim = training.SmoothAdv(0.25, epsilon=0.05, steps=1, samples=3)
    aim.loss(model, x, y, seeded())
    noise = 0.25 * torch.randn(18, 1, 8, 8, generator=seeded())
    moved = (model.asked[1] - noise).view(6, 3, 1, 8, 8)[:, 0] - x
    place = x.clone().requires_grad_(True)
    chances = torch.softmax(model(place.repeat_interleave(3, 0) + noise), dim=1).view(6, 3, 10).mean(dim=1)
    (slope,) = torch.autograd.grad(-chances[range(6), y].log().sum(), place)
    free = (x > 0.05) & (x < 0.95)  # where clamping to [0, 1] does nothing
    direction = 0.05 * slope / slope.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    torch.testing.assert_close(moved[free], direction[free], rtol=1e-3, atol=1e-5)


def test_an_attack_leaves_batch_statistics_alone() -> None:
    model, (x, y) = fresh("resnet8,channels=1").train(), batch()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with torch.no_grad():
        training.Gaussian(0.0).loss(model, x, y, seeded())
    assert int(model.get_buffer("bn1.num_batches_tracked")) == 1
    model.load_state_dict(before)
    training.SmoothAdv(0.25, steps=5).loss(model, x, y, seeded())
    assert int(model.get_buffer("bn1.num_batches_tracked")) == 1  # the last pass alone


@pytest.mark.parametrize("name", sorted({*OBJECTIVES} - {"margin"}))  # which reads the constant of its network
def test_passes_are_those_of_the_network(name: str) -> None:
    model, (x, y) = Recorder(fresh("dncnn,channels=1,width=4" if name == "denoise" else "small_cnn")), batch()
    aim = training.objective(name, 0.25)
    aim.loss(model, x, y, seeded())
    assert sum(map(len, model.asked)) == aim.passes * len(x)


@pytest.mark.parametrize("name", ["consistency", "smoothmix", "macer"])
@pytest.mark.parametrize("scale", [0.0, 1e4])
def test_gradients_are_finite_for_scores_that_round_to_0_and_1(name: str, scale: float) -> None:
    model, (x, y) = fresh(), batch()
    with torch.no_grad():
        for value in list(model.parameters())[-2:]:
            value.mul_(scale)
    loss = training.objective(name, 0.25).loss(model, x, y, seeded())
    assert torch.isfinite(loss)
    assert all(torch.isfinite(slope).all() for slope in torch.autograd.grad(loss, list(model.parameters())))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: training.Gaussian(-1), "sigma must be at least 0 and finite, got -1"),
        (lambda: training.Gaussian(math.nan), "sigma must not be NaN, got nan"),
        (lambda: training.SmoothAdv(0.5, epsilon=0), "epsilon must be positive and finite, got 0"),
        (lambda: training.SmoothAdv(0.5, steps=0), "steps must be a whole number of at least 1, got 0"),
        (lambda: training.Consistency(-1), "sigma must be at least 0 and finite, got -1"),
        (lambda: training.Consistency(0.5, samples=1), "samples must be a whole number of at least 2, got 1"),
        (lambda: training.Consistency(0.5, lbd=-1), "lbd must be at least 0 and finite, got -1"),
        (lambda: training.Consistency(0.5, eta=math.inf), "eta must be at least 0 and finite, got inf"),
        (lambda: training.SmoothMix(0.5, samples=0), "samples must be a whole number of at least 1, got 0"),
        (lambda: training.SmoothMix(0.5, steps=0), "steps must be a whole number of at least 1, got 0"),
        (lambda: training.SmoothMix(0.5, step_size=0), "step_size must be positive and finite, got 0"),
        (lambda: training.SmoothMix(0.0), "step_size must be given: its default is 2 sigma, and sigma is 0"),
        (lambda: training.SmoothMix(0.5, eta=math.nan), "eta must not be NaN"),
        (
            lambda: training.SmoothMix(0.5, mix_step=4),
            "mix_step must be a whole number of at least 0 and at most 3, got 4",
        ),
        (lambda: training.MACER(0.5, samples=0), "samples must be a whole number of at least 1, got 0"),
        (lambda: training.MACER(0.5, lbd=-1), "lbd must be at least 0 and finite, got -1"),
        (lambda: training.MACER(0.5, beta=0), "beta must be positive and finite, got 0"),
        (lambda: training.MACER(0.5, gamma=0), "gamma must be positive and finite, got 0"),
        (lambda: training.Margin(0.5, temperature=0), "temperature must be positive and finite, got 0"),
    ],
)
def test_wrong_settings_get_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        make()
