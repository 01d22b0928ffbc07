"""SmoothMix against its formula, input by input."""

import pytest
import torch
from torch import Tensor, nn

from lvmrs import training
from tests.training.helpers import Recorder, batch, doubled, fresh, gradients, seeded


def scores(model: nn.Module, place: Tensor, noise: Tensor) -> Tensor:
    """The softmax of the noisy copies of one input, (copies, classes)."""
    return torch.softmax(torch.cat([model((place + each)[None]) for each in noise]), dim=1)


@pytest.mark.parametrize("mix_step", [0, 1])
def test_value_and_gradient_are_those_of_the_formula(mix_step: int) -> None:
    model, x, y = doubled()
    aim = training.SmoothMix(0.25, samples=2, steps=3, step_size=0.4, eta=3.0, mix_step=mix_step)
    loss = aim.loss(model, x, y, seeded())
    random = seeded()
    noise = 0.25 * torch.randn(12, 1, 8, 8, generator=random, dtype=torch.float64).view(6, 2, 1, 8, 8)
    shares = torch.rand(6, generator=random, dtype=torch.float64) / 2
    slow, right = torch.zeros((), dtype=torch.float64), 0
    for i in range(6):
        places = [x[i]]
        for _ in range(3):
            place = places[-1].clone().requires_grad_(True)
            (slope,) = torch.autograd.grad(-scores(model, place, noise[i]).mean(dim=0)[y[i]].log(), place)
            places.append((place.detach() + 0.4 * slope / slope.norm()).clamp(0, 1))
        start, end, share = places[mix_step], places[-1], shares[i]
        clean = scores(model, start, noise[i])
        slow = slow - clean[:, y[i]].log().mean()
        if clean.mean(dim=0).argmax() == y[i]:
            label = (1 - share) * clean.mean(dim=0) + share / 10
            mixed = scores(model, (1 - share) * start + share * end, noise[i])
            slow = slow + 3 * (label * (label / mixed).log()).sum(dim=1).mean()
            right += 1
    assert 0 < right < 6
    torch.testing.assert_close(loss, slow / 6)
    torch.testing.assert_close(gradients(loss, model), gradients(slow / 6, model))


def test_the_attack_has_no_limit_and_leaves_batch_statistics_alone() -> None:
    model, (x, y) = Recorder(fresh("resnet8,channels=1").train()), batch()
    training.SmoothMix(0.25, steps=4, step_size=1.0).loss(model, x, y, seeded())
    noise = 0.25 * torch.randn(12, 1, 8, 8, generator=seeded())
    moved = [(asked - noise)[::2] - x for asked in model.asked[:4]]
    assert max(float(move.flatten(1).norm(dim=1).max()) for move in moved) > 1
    assert int(model.get_buffer("model.bn1.num_batches_tracked")) == 2  # inputs and mixtures
