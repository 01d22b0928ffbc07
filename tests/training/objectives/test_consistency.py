"""Consistency against its formula, copy by copy."""

import torch

from lvmrs import training
from tests.training.helpers import doubled, gradients, seeded


def test_value_and_gradient_are_those_of_the_formula() -> None:
    model, x, y = doubled()
    loss = training.Consistency(0.5, samples=3, lbd=7.0, eta=0.3).loss(model, x, y, seeded())
    noise = torch.randn(18, 1, 8, 8, generator=seeded(), dtype=torch.float64).view(6, 3, 1, 8, 8)
    slow = torch.zeros((), dtype=torch.float64)
    for i in range(6):
        copies = [torch.softmax(model((x[i] + 0.5 * noise[i, j])[None])[0], dim=0) for j in range(3)]
        mean = sum(copies, torch.zeros(10)) / 3
        cross_entropy = sum(-copy[y[i]].log() for copy in copies) / 3
        divergence = sum((mean * (mean / copy).log()).sum() for copy in copies) / 3
        slow = slow + cross_entropy + 7 * divergence - 0.3 * (mean * mean.log()).sum()
    torch.testing.assert_close(loss, slow / 6)
    torch.testing.assert_close(gradients(loss, model), gradients(slow / 6, model))


def test_copies_that_agree_cost_nothing_but_their_entropy() -> None:
    model, x, y = doubled()
    plain = training.Consistency(0.0, lbd=0.0, eta=0.0).loss(model, x, y, seeded())
    torch.testing.assert_close(training.Consistency(0.0, lbd=50.0, eta=0.0).loss(model, x, y, seeded()), plain)
    torch.testing.assert_close(plain, training.Gaussian(0.0).loss(model, x, y, seeded()))
