"""Logits that are equal up to rounding agree; others do not, whatever else the model returns."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from lvmrs import Duels, SmoothedClassifier
from lvmrs.errors import ModelError
from lvmrs.kernel.model_check import Agreement, measured, precision_of
from lvmrs.models import ResNet
from tests.kernel.test_model_check import LOOKING_AROUND, SIGMA, Changing, Dropout, at, honest

EPS = torch.finfo(torch.float32).eps


def masked(logits: Tensor, value: float = -1e9) -> Tensor:
    """The logits, with one more class that never wins."""
    return functional.pad(logits, (0, 1), value=value)


def of(model: nn.Module, rows: Tensor, eps: float = EPS) -> tuple[Tensor, Agreement]:
    with torch.no_grad():
        logits = model(rows)
        return logits, measured(model, rows, logits, eps)


@pytest.mark.parametrize("offset", [0.0, -1e4, -1e9])
@pytest.mark.parametrize("sigma", [0.001, 0.25])
def test_other_roundings_agree_and_other_functions_do_not(sigma: float, offset: float) -> None:
    """The same network in float64 rounds otherwise; a network with weights 1 % larger is another one."""
    torch.manual_seed(0)
    network = ResNet(8).eval()
    rows = torch.rand(3, 16, 16) + sigma * torch.randn(16, 3, 16, 16)

    class Masked(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            logits = network(x)
            return torch.cat([logits, 0 * logits[:, :1] + offset], dim=1)

    expected, agreement = of(Masked(), rows)
    alone = torch.cat([of(Masked(), row[None])[0] for row in rows])
    with torch.no_grad():
        exact = functional.pad(network.double()(rows.double()), (0, 1), value=offset)
        network.float()
        last = next(layer for layer in reversed(list(network.modules())) if isinstance(layer, nn.Linear))
        last.weight[0] *= 1.01
        other = Masked()(rows)
    assert agreement.agree(alone, expected)
    assert agreement.agree(exact, expected)
    assert not agreement.agree(other, expected)


def test_an_offset_that_all_classes_share_hides_nothing() -> None:
    """Each row has another offset of about 1000; margins are compared, on their own scale."""
    torch.manual_seed(0)
    linear = nn.Linear(50, 4).double()

    class Offset(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = linear(x) + 1000 * x.mean(dim=1, keepdim=True)
            return logits

    rows = torch.randn(16, 50, dtype=torch.float64)
    expected, agreement = of(Offset(), rows, 2.0**-52)
    other = expected.clone()
    other[3, 2] += 1e-9
    assert not agreement.agree(expected + 1e-3, expected)
    assert agreement.differing(other, expected).nonzero().tolist() == [[3]]


def test_a_row_at_a_jump_does_not_widen_the_agreement() -> None:
    """One row in sixteen lies where the last digit of the input decides; the others are still compared closely."""
    jump = torch.zeros(16, 8)
    jump[:, 0] = torch.linspace(-1, 1, 16)
    jump[5, 0] = 1.0 / 3

    class Step(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([x[:, 0], 100.0 * (x[:, 0] == jump[5, 0])], dim=1)

    expected, agreement = of(Step(), jump)
    assert float(agreement.sensitivity.max()) < 1e-6
    assert agreement.differing(expected + torch.tensor([1e-3, 0.0]), expected).sum() >= 15


def test_shapes_and_nan_never_agree() -> None:
    expected, agreement = of(nn.Identity(), torch.randn(8, 3))
    assert not agreement.agree(expected[:, :2], expected)
    assert not agreement.agree(expected.clone().fill_(torch.nan), expected)
    assert agreement.around(expected + 5).agree(expected, expected)


def test_the_coarsest_numbers_decide_the_precision() -> None:
    cpu = torch.device("cpu")
    assert precision_of(None, torch.float32, None, device=cpu) == EPS
    assert precision_of(nn.Linear(2, 2).bfloat16(), torch.float32, device=cpu) == 2.0**-7
    assert precision_of(None, torch.float32, torch.float16, device=cpu) == 2.0**-10
    assert precision_of(None, torch.float32, device=torch.device("cuda")) == 2.0**-10
    assert Agreement(2.0**-7, 0, torch.ones(2), torch.zeros(2), torch.ones(2)).units < 64


# ---- with a masked class, every model that is no function is still refused


MASKS: dict[str, Callable[[Tensor], Tensor]] = {
    "a masked class": masked,
    "a class of huge logits": lambda logits: masked(logits, -3e38),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("case", LOOKING_AROUND)
def test_a_mask_hides_no_model_that_looks_around(case: str, mask: str) -> None:
    def model(x: Tensor) -> Tensor:
        return MASKS[mask](LOOKING_AROUND[case](x))

    with pytest.raises(ModelError, match="depends on the other inputs in its batch"):
        SmoothedClassifier(model, SIGMA, batch=128).certify(at(0.2), Duels(), n0=100, n=3000)


class Majority(nn.Module):
    """It answers with the majority of its batch, and holds numbers for which the last digit is not small."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.how = nn.Linear(48, 10), how
        self.mask: Tensor
        self.order: Tensor
        self.register_buffer("mask", torch.tensor([0.0] * 3 + [-1e9 / 3 if how == "fractions" else -1e9] * 7))
        self.levels: Tensor
        self.register_buffer("order", torch.randperm(48).float())
        self.register_buffer("levels", torch.linspace(0, 1, 11))

    def forward(self, x: Tensor) -> Tensor:
        logits = self.linear(x[:, self.order.long()] if self.how == "indices" else x)
        if self.how == "equality":
            logits = logits * (self.levels == torch.linspace(0, 1, 11)).all()
        most = logits[:, :3].argmax(dim=1).mode().values
        return logits + 5 * functional.one_hot(most, 10) + (0.0 if self.how in ("indices", "equality") else self.mask)  # type: ignore[no-any-return]


@pytest.mark.parametrize("how", ["whole numbers", "fractions", "indices", "equality"])
def test_masks_of_most_classes_and_indices_hide_no_model_that_looks_around(how: str) -> None:
    with pytest.raises(ModelError, match="depends on the other inputs in its batch"):
        SmoothedClassifier(Majority(how), 1.0, batch=64).certify(torch.zeros(48), n0=100, n=2000)


class MaskedNetwork(nn.Module):
    """A model with one more class, which is masked."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return masked(self.model(x))


def test_a_mask_hides_no_dropout() -> None:
    with pytest.raises(ModelError, match="gives different answers to the same inputs"):
        SmoothedClassifier(MaskedNetwork(Dropout()), SIGMA, batch=128).certify(at(0.2), n0=100, n=1000)


def test_a_mask_hides_no_change_after_some_calls() -> None:
    model = MaskedNetwork(Changing(40, lambda x, calls: honest(x) + torch.tensor([0.1, 0.0])))
    smoothed = SmoothedClassifier(model, SIGMA, batch=32)
    inputs = [(index, at(0.2, index)) for index in range(3)]
    with pytest.raises(ModelError, match="the model gives"):
        list(smoothed.certificates(inputs, n0=32, n=1000))


def _with(mask: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return mask(honest(x))


def test_an_honest_model_with_a_masked_class_is_certified() -> None:
    for mask in MASKS.values():
        certificate = SmoothedClassifier(partial(_with, mask), SIGMA, batch=128).certify(at(0.2))
        assert certificate.prediction == 0
        assert 0.1 < certificate.radius < 0.2


def test_noise_beside_a_large_constant_is_found() -> None:
    """It is a few units of the last place of the logits, and far more than running a batch again changes."""
    draw = torch.Generator().manual_seed(0)

    def noisy(x: Tensor) -> Tensor:
        return honest(x) + 1e4 + 0.01 * torch.randn(len(x), 2, generator=draw)

    with pytest.raises(ModelError, match="gives different answers to the same inputs"):
        SmoothedClassifier(noisy, SIGMA, batch=128).certify(at(0.2), n0=100, n=1000)
