"""``SmoothedClassifier.module``: its values, its gradients, and what it takes to attack it."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from lvmrs import SmoothedClassifier
from lvmrs.errors import InvalidArgumentError, ModelError
from lvmrs.kernel.noise import Stream


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Dropout(), nn.ReLU(), nn.Linear(8, 3))


def inputs() -> Tensor:
    return (255 * torch.rand(2, 1, 3, 4, generator=torch.Generator().manual_seed(1))).round() / 255


@pytest.mark.parametrize("noise", ["gaussian", "exact"])
def test_it_is_the_mean_softmax_over_the_noise_of_lvmrs(noise: str) -> None:
    model, x = network(), inputs()
    smoothed = SmoothedClassifier(model, 0.25, noise=noise)
    found = smoothed.module(samples=7, temperature=0.5, seed=3)(x)
    sampler, _ = smoothed.sampler(x[1])
    noisy = torch.cat([part.clone() for part in sampler.copies(x[1], Stream(3, 1, "attack"), 7)])
    expected = functional.softmax(model.eval()(noisy) / 0.5, dim=1).mean(dim=0)
    torch.testing.assert_close(found[1].exp(), expected)


def test_its_gradient_is_that_of_its_values() -> None:
    weights = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [0.0, 1.0]], dtype=torch.float64)
    module = SmoothedClassifier(lambda batch: batch @ weights.T, 0.5).module(samples=5, fresh=False)
    x = torch.tensor([[0.3, 0.2], [0.0, 0.7]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(module, (x,))


@pytest.mark.parametrize("noise", ["gaussian", "exact"])
def test_a_simple_attack_changes_the_answer(noise: str) -> None:
    model, x = network(), inputs()
    module = SmoothedClassifier(model, 0.1, noise=noise).module(samples=16)
    before = module(x).argmax(dim=1)
    point = x.clone()
    for _ in range(20):
        point.requires_grad_()
        (gradient,) = torch.autograd.grad(functional.cross_entropy(module(point), before), point)
        point = (
            point + 0.2 * gradient / gradient.flatten(1).norm(dim=1).clamp(min=1e-12)[:, None, None, None]
        ).detach()
    assert not (module(point).argmax(dim=1) == before).any()


def test_noise_is_fresh_and_a_function_of_the_seed() -> None:
    smoothed, x = SmoothedClassifier(network(), 0.5), inputs()
    one, two, other = smoothed.module(seed=1), smoothed.module(seed=1), smoothed.module(seed=2)
    first, second = one(x), one(x)
    assert not torch.equal(first, second)
    assert torch.equal(two(x), first)
    assert torch.equal(two(x), second)
    assert not torch.equal(other(x), first)
    fixed = smoothed.module(seed=1, fresh=False)
    assert torch.equal(fixed(x), fixed(x))


def test_the_model_is_left_as_found_and_needs_no_gradients() -> None:
    model = network().train()
    module = SmoothedClassifier(model, 0.5).module(samples=4, fresh=False)
    assert [id(parameter) for parameter in module.parameters()] == [id(parameter) for parameter in model.parameters()]
    answers = module(inputs())
    assert answers.requires_grad  # by the weights
    assert model.training
    with torch.no_grad():
        plain = module(inputs())
    assert not plain.requires_grad
    torch.testing.assert_close(plain, answers.detach())
    weight = torch.ones(3, requires_grad=True)
    (plain * weight).sum().backward()  # not a tensor of inference mode
    assert weight.grad is not None


def test_what_it_refuses() -> None:
    smoothed = SmoothedClassifier(network(), 0.5)
    with pytest.raises(InvalidArgumentError, match="samples must be a whole number of at least 1"):
        smoothed.module(samples=0)
    with pytest.raises(InvalidArgumentError, match="sigma must be given"):
        SmoothedClassifier(network(), None).module()
    with pytest.raises(InvalidArgumentError, match=r"x must be a torch\.Tensor, got list"):
        smoothed.module()([0.5])
    with pytest.raises(ModelError, match="the model fails on a batch of shape"):
        smoothed.module()(torch.rand(2, 5))
