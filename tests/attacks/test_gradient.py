"""The gradient is that of the formula: the logarithm of averaged softmax scores."""

import pytest
import torch
from torch import Tensor, nn

from lvmrs.attacks.targets import lead_gradient, leads
from lvmrs.errors import ModelError
from lvmrs.kernel.sampler import Sampler
from tests.tiny_models import WithDropout


def slow_lead(logits: Tensor, top: int, rival: int, temperature: float, *, paired: bool) -> Tensor:
    """The formula, sample by sample."""
    of_top, of_rival = torch.zeros((), dtype=logits.dtype), torch.zeros((), dtype=logits.dtype)
    for row in logits:
        among = [top, rival] if paired else range(len(row))
        total = sum((row[k] / temperature).exp() for k in among)
        of_top = of_top + (row[top] / temperature).exp() / total
        of_rival = of_rival + (row[rival] / temperature).exp() / total
    return (of_rival / len(logits)).log() - (of_top / len(logits)).log()


@pytest.mark.parametrize("paired", [True, False])
def test_the_lead_is_that_of_the_averaged_scores(paired: bool) -> None:
    logits = torch.randn(7, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = leads(logits, 1, 0.7, paired=paired)
    assert found[1] == -torch.inf
    for rival in (0, 2, 3):
        torch.testing.assert_close(found[rival], slow_lead(logits, 1, rival, 0.7, paired=paired))


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("rival", [0, None])
def test_the_lead_gradient_is_the_gradient_with_respect_to_the_input(paired: bool, rival: int | None) -> None:
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4)).double()
    x, noise = torch.rand(3, dtype=torch.float64), torch.randn(6, 3, dtype=torch.float64)
    found = lead_gradient(Sampler(network, 0.5, 6), x + 0.5 * noise, 1, rival, 0.7, paired=paired)

    def lead(moved: Tensor) -> Tensor:
        logits = network(moved + 0.5 * noise)
        return max(slow_lead(logits, 1, k, 0.7, paired=paired) for k in ([0] if rival == 0 else [0, 2, 3]))

    moved = x.clone().requires_grad_(True)
    (expected,) = torch.autograd.grad(lead(moved), moved)
    torch.testing.assert_close(found, expected)
    with torch.no_grad():  # and without autograd
        step = 1e-6 * torch.eye(3, dtype=torch.float64)
        numerical = torch.stack([(lead(x + part) - lead(x - part)) / 2e-6 for part in step])
    torch.testing.assert_close(found, numerical, rtol=1e-5, atol=1e-7)


def test_the_model_is_left_as_it_was() -> None:
    network = WithDropout().train()
    network.norm.eval()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    first, second = (
        lead_gradient(Sampler(network, 0.5, 4), torch.ones(4, 12), 0, 1, 1.0, paired=True) for _ in range(2)
    )
    assert torch.equal(first, second)  # no dropout
    assert [network.training, network.norm.training, network.drop.training] == [True, False, True]
    assert all(parameter.grad is None for parameter in network.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


class _Numbers(torch.autograd.Function):
    """The logits themselves, with a gradient that is NaN."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return gradient * torch.nan


def _no_way_back(x: Tensor) -> Tensor:
    return x.detach() * 2


def _another_leaf(x: Tensor) -> Tensor:
    return x.detach() + torch.zeros(1, requires_grad=True)


def _not_a_number(x: Tensor) -> Tensor:
    return _Numbers.apply(x)  # type: ignore[no-any-return, no-untyped-call]


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (_no_way_back, "the model has no gradients, which an attack needs; give the network itself"),
        (_another_leaf, "the logits have no gradient with respect to the input"),
        (_not_a_number, "the gradients of the model are NaN or infinite"),
    ],
)
def test_a_model_without_gradients_is_refused(model: object, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        lead_gradient(Sampler(model, 0.5, 4), torch.ones(4, 3), 0, 1, 1.0, paired=True)  # type: ignore[arg-type]
