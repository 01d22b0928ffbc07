"""MACER against its formula, input by input."""

import math

import torch

from lvmrs import training
from tests.training.helpers import doubled, gradients, seeded


def test_value_and_gradient_are_those_of_the_formula() -> None:
    model, x, y = doubled()
    gamma = 0.2
    loss = training.MACER(0.25, samples=5, lbd=7.0, beta=9.0, gamma=gamma).loss(model, x, y, seeded())
    noise = 0.25 * torch.randn(30, 1, 8, 8, generator=seeded(), dtype=torch.float64).view(6, 5, 1, 8, 8)
    slow, kinds = torch.zeros((), dtype=torch.float64), set()
    for i in range(6):
        logits = torch.cat([model((x[i] + each)[None]) for each in noise[i]])
        slow = slow - torch.softmax(logits, dim=1).mean(dim=0)[y[i]].log()
        shares = torch.softmax(9 * logits, dim=1).mean(dim=0)
        first, second = shares.sort(descending=True).values[:2]
        gap = math.sqrt(2) * (torch.erfinv(2 * first - 1) - torch.erfinv(2 * second - 1))
        right, small = bool(shares[y[i]] == first), bool(gap < gamma)
        kinds.add((right, small))
        if right:
            slow = slow + 7 * 0.25 / 2 * torch.clamp(gamma - gap, min=0)
    assert len(kinds) == 4
    torch.testing.assert_close(loss, slow / 6)
    torch.testing.assert_close(gradients(loss, model), gradients(slow / 6, model))


def test_only_correct_inputs_are_penalised() -> None:
    model, x, y = doubled()
    wrong = training.MACER(0.0, lbd=12.0).loss(model, x[3:], y[3:], seeded())
    torch.testing.assert_close(wrong, training.Gaussian(0.0).loss(model, x[3:], y[3:], seeded()))
