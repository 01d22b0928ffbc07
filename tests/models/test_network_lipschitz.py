"""Lipschitz bounds of plain networks, against brute force: the unrolled operator, and derivatives at points."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from lvmrs import SmoothedClassifier
from lvmrs.errors import LvmrsError, ModelError
from lvmrs.models import Preprocessed, lipschitz_bound, ready, sandwich
from lvmrs.models.lipschitz import layers
from lvmrs.models.lipschitz.norms import gram, of_convolution, of_matrix
from tests.oracles import steepest


def unrolled_norm(layer: nn.Module, shape: tuple[int, ...]) -> float:
    """The largest singular value of the whole matrix that a linear layer is."""
    size = math.prod(shape)
    basis = torch.eye(size, dtype=torch.float64).view(size, *shape)
    with torch.no_grad():
        columns = layer(basis) - layer(torch.zeros_like(basis))
    return float(torch.linalg.matrix_norm(columns.flatten(1), ord=2))


# ---- norms of layers


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 8), st.booleans(), st.integers(0, 1000))
def test_every_gram_iterate_is_an_upper_bound(rows: int, columns: int, steps: int, flat: bool, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    matrix = torch.randn(rows, columns, generator=random, dtype=torch.float64)
    if flat:  # of rank 1, where Frobenius is exact
        matrix = matrix[:, :1] @ matrix[:1]
    true = float(torch.linalg.matrix_norm(matrix, ord=2))
    bound = gram(matrix, steps)
    assert true <= bound
    assert bound <= true * min(rows, columns) ** (1 / 2 ** (steps + 1)) * (1 + 1e-6) or flat
    if flat:
        assert bound == pytest.approx(true)


@pytest.mark.parametrize("size", [1e-200, 1e-20, 1.0, 1e20, 1e140])
def test_gram_iteration_neither_overflows_nor_vanishes(size: float) -> None:
    matrix = size * torch.randn(30, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert gram(matrix) / float(torch.linalg.matrix_norm(matrix, ord=2)) == pytest.approx(1, abs=1e-3)


def test_large_matrices_take_gram_iteration_and_nothing_is_zero() -> None:
    wide = torch.randn(40, 3000, generator=torch.Generator().manual_seed(0))
    true = float(torch.linalg.matrix_norm(wide.double(), ord=2))
    assert true <= of_matrix(wide) <= true * 1.001
    assert of_matrix(torch.zeros(3, 4)) == 0


def test_bounds_are_rounded_up_at_both_ends_of_float64() -> None:
    for size in (1e-310, 1e300):
        matrix = torch.full((3, 4), size, dtype=torch.float64)
        assert of_matrix(matrix) >= size * math.sqrt(12)
        assert (
            of_convolution(torch.full((3, 3, 3, 3), size, dtype=torch.float64), (40, 40), padding=(1, 1)) >= 20 * size
        )
    assert of_matrix(torch.full((3, 4), 1.7e308, dtype=torch.float64)) == math.inf
    layers = [nn.Linear(3, 3, bias=False).double() for _ in range(3)]
    with torch.no_grad():
        for layer, size in zip(layers, (1e-200, 1e-200, 1e300), strict=True):
            layer.weight.copy_(size * torch.eye(3, dtype=torch.float64))
    assert lipschitz_bound(nn.Sequential(*layers), (3,)) >= 1e-100  # the first two are too small for a product
    layers[0].weight.data.zero_()
    assert lipschitz_bound(nn.Sequential(*layers), (3,)) == 0


CONVOLUTIONS: list[dict[str, Any]] = [
    {},
    {"padding": 1},
    {"padding": 2},
    {"stride": 2},
    {"stride": 2, "padding": 1},
    {"stride": 3, "padding": 1, "kernel_size": 4},
    {"stride": (1, 2), "padding": (0, 1)},
    {"kernel_size": (1, 5), "padding": (0, 2)},
    {"kernel_size": 1, "stride": 2},
    {"padding": 2, "dilation": 2},
    {"padding": 1, "groups": 2},
    {"padding": 1, "groups": 4},
    {"padding": "same", "dilation": 2},
    {"padding": "valid"},
    {"kernel_size": 6},
    {"padding": 1, "padding_mode": "circular"},
    {"padding": 1, "stride": 2, "padding_mode": "circular"},
]


@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("shape", [(4, 8, 8), (4, 6, 10)], ids=str)
def test_convolutions_against_the_unrolled_operator(
    options: dict[str, Any], shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(4, 8, **{"kernel_size": 3, **options}).double()
    true, bound = unrolled_norm(layer, shape), lipschitz_bound(nn.Sequential(layer), shape)
    assert true <= bound == pytest.approx(true, rel=1e-6)  # exact where small
    monkeypatch.setattr(layers, "of_convolution", partial(of_convolution, unrolled=0))
    if options.get("padding_mode") != "circular":
        frequencies = lipschitz_bound(nn.Sequential(layer), shape)
        assert true <= frequencies <= (2 if options.get("kernel_size") == 6 else 1.35) * true


@given(
    st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(0, 3), st.integers(1, 2), st.integers(0, 999)
)  # fmt: skip
@settings(max_examples=40)
def test_no_convolution_is_under_its_bound(k: int, m: int, stride: int, padding: int, dilation: int, seed: int) -> None:
    torch.manual_seed(seed)
    layer = nn.Conv2d(2, 3, (k, m), stride=stride, padding=padding, dilation=dilation).double()
    bound = of_convolution(
        layer.weight,
        (7, 8),
        stride=(stride, stride),
        padding=(padding, padding),
        dilation=(dilation, dilation),
        unrolled=0,
    )
    assert unrolled_norm(layer, (2, 7, 8)) <= bound * (1 + 1e-12)


@pytest.mark.parametrize(
    "layer",
    [
        nn.AvgPool2d(2),
        nn.AvgPool2d(3, stride=1),
        nn.AvgPool2d(3, stride=2, padding=1),
        nn.AvgPool2d(2, divisor_override=1),
        nn.AdaptiveAvgPool2d(1),
        nn.AdaptiveAvgPool2d((2, 4)),
        nn.AdaptiveAvgPool2d((None, 2)),
        nn.Flatten(),
        nn.ZeroPad2d(2),
    ],
    ids=str,
)
def test_linear_pooling_against_the_unrolled_operator(layer: nn.Module) -> None:
    true, bound = unrolled_norm(layer, (2, 8, 8)), lipschitz_bound(nn.Sequential(layer), (2, 8, 8))
    assert true <= bound * (1 + 1e-12)
    assert bound <= 1.2 * true


@pytest.mark.parametrize(
    ("layer", "expected"),
    [(nn.MaxPool2d(2), 1.0), (nn.MaxPool2d(3, stride=1), 3.0), (nn.MaxPool2d(3, stride=2, padding=1), 2.0)],
    ids=str,
)
def test_max_pooling_counts_its_windows(layer: nn.Module, expected: float) -> None:
    assert lipschitz_bound(nn.Sequential(layer), (1, 8, 8)) == expected
    peak = torch.zeros(1, 1, 8, 8, dtype=torch.float64)
    peak[0, 0, 3, 3] = 1.0  # the worst there is: one pixel in all windows it can be in
    reached = float((layer(peak) - layer(torch.zeros_like(peak))).norm())
    assert 0.7 * expected <= reached <= expected


ACTIVATIONS = [
    nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(0.3), nn.LeakyReLU(2.0), nn.ELU(), nn.ELU(1.7), nn.ELU(-5.0), nn.CELU(),
    nn.SELU(), nn.GELU(), nn.GELU(approximate="tanh"), nn.SiLU(), nn.Mish(), nn.Sigmoid(), nn.Tanh(), nn.Softplus(),
    nn.Softplus(beta=4), nn.Softsign(), nn.LogSigmoid(), nn.Hardtanh(), nn.Hardswish(), nn.Hardsigmoid(),
    nn.PReLU(init=1.4), nn.Softshrink(),
]  # fmt: skip


@pytest.mark.parametrize("layer", ACTIVATIONS, ids=str)
def test_activations_are_no_steeper_than_said(layer: nn.Module) -> None:
    bound = lipschitz_bound(nn.Sequential(layer), (5,))
    places = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    with torch.no_grad():
        values = layer.double()(places)
    slope = float((values[1:] - values[:-1]).abs().max() / (places[1] - places[0]))
    assert 0.98 * slope <= bound * 1.0 <= 1.25 * slope + 1e-6 or slope <= bound <= 1.25 * slope
    assert slope <= bound * (1 + 1e-9)


# ---- whole networks


def with_statistics(model: nn.Module, shape: tuple[int, ...]) -> nn.Module:
    """A network whose normalisation has seen something."""
    with torch.no_grad():
        for _ in range(3):
            model.train()(torch.rand(16, *shape, dtype=torch.float64))
    return model.eval()


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("small_cnn", (1, 8, 8)),
        ("fast_cnn,width=4", (3, 16, 16)),
        ("resnet8,width=4", (3, 8, 8)),
        ("cifar_resnet20,width=2", (3, 8, 8)),
        ("dncnn,width=4", (3, 8, 8)),
        ("sandwich_small,side=8,gamma=2", (3, 8, 8)),
    ],
)
def test_networks_are_no_steeper_than_bounded(name: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    model = with_statistics(ready.build(name).double(), shape)
    bound = lipschitz_bound(model, shape)
    slopes = [steepest(model, torch.rand(*shape, dtype=torch.float64)) for _ in range(4)]
    assert 0 < max(slopes) <= bound
    assert not model.training
    assert lipschitz_bound(model.train(), shape) == pytest.approx(bound)
    assert model.training  # left as found


class Branches(nn.Module):
    """Everything a traced network may do between layers."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6, bias=False)
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x: Tensor) -> Tensor:
        x = x.view(x.size(0), 6)
        first = torch.relu(self.a(x)) * 2 + x
        second = functional.pad(self.norm(self.b(x))[:, ::2], (1, 2)) / 4 - 3
        both = torch.cat([first, second], dim=1)
        return (0.5 * both.reshape(-1, 3, 4)).mean(dim=1) + torch.tanh(both[:, :4])


def test_branches_add_and_stand_side_by_side() -> None:
    torch.manual_seed(0)
    model = with_statistics(Branches().double(), (2, 3))
    bound = lipschitz_bound(model, (2, 3))
    a = of_matrix(model.get_parameter("a.weight"))
    scale = model.norm.weight * torch.rsqrt(model.norm.running_var + model.norm.eps)  # type: ignore[union-attr,operator]
    b = of_matrix(scale[:, None] * model.get_parameter("b.weight"))
    both = math.hypot(2 * a + 1, b / 4)
    assert bound == pytest.approx(both * 0.5 / math.sqrt(3) + both)
    assert max(steepest(model, torch.randn(2, 3, dtype=torch.float64)) for _ in range(20)) <= bound


def test_normalisation_is_taken_together_with_the_layer_before_it() -> None:
    torch.manual_seed(0)
    layer, norm = nn.Conv2d(2, 3, 3, padding=1).double(), nn.BatchNorm2d(3).double()
    with torch.no_grad():
        norm.running_var.copy_(torch.tensor([0.1, 4.0, 100.0]))  # type: ignore[union-attr]
        norm.weight.copy_(torch.tensor([1.0, -3.0, 0.5]))
        layer.weight[0] *= 0.01  # where the scale is large the layer is small
    together = lipschitz_bound(nn.Sequential(layer, norm), (2, 6, 6))
    apart = lipschitz_bound(nn.Sequential(layer), (2, 6, 6)) * lipschitz_bound(nn.Sequential(norm), (3, 6, 6))
    assert unrolled_norm(nn.Sequential(layer, norm).eval(), (2, 6, 6)) <= together < 0.7 * apart


def test_pixels_are_the_unit() -> None:
    inner = nn.Sequential(nn.Flatten(), nn.Linear(4, 2, bias=False))
    bound = lipschitz_bound(inner, (1, 2, 2))
    assert lipschitz_bound(Preprocessed(inner, [0.5], [0.25]), (1, 2, 2)) == pytest.approx(4 * bound)
    assert lipschitz_bound(Preprocessed(sandwich(1, 8, gamma=5), [0.5], [0.5]), (1, 8, 8)) == 10
    steep = nn.Sequential(sandwich(1, 8, gamma=5), nn.Linear(10, 2))
    assert lipschitz_bound(steep, (1, 8, 8)) == pytest.approx(5 * of_matrix(steep[1].weight))  # type: ignore[arg-type]


class Product(nn.Module):
    """Not Lipschitz."""

    def forward(self, x: Tensor) -> Tensor:
        return x * x


class Choice(nn.Module):
    """Not to be traced."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


class Gathered(nn.Module):
    """Takes pixels more than once."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, [0, 0, 0]]


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6)), r"for the layer 1 \(LayerNorm\); give the constant yourself"),
        (nn.Sequential(nn.Sequential(nn.Softmax(dim=1))), r"for the layer 0.0 \(Softmax\)"),
        (nn.Sequential(nn.Linear(5, 6)), r"fails on inputs of shape \(6,\)"),
        (Product(), r"for the function mul \(mul\) as it is called"),
        (Choice(), "cannot be traced"),
        (Gathered(), r"for the function getitem \(getitem\) as it is called"),
        (nn.Sequential(nn.BatchNorm1d(6, track_running_stats=False)), "BatchNorm1d without running statistics"),
    ],
)
def test_what_has_no_known_bound_is_refused_by_name(model: nn.Module, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        lipschitz_bound(model, (6,))


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (
            nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect"),
            r"the layer 0 \(a convolution with padding 'reflect'\)",
        ),
        (nn.Conv2d(1, 2, 3, padding=2, padding_mode="circular"), "does not wrap evenly"),
        (nn.AvgPool2d(3, ceil_mode=True), "windows are not all alike"),
        (nn.AvgPool2d(3, padding=1, count_include_pad=False), "windows are not all alike"),
        (nn.AdaptiveAvgPool2d(3), "windows overlap"),
        (nn.MaxPool2d(2, dilation=2), "MaxPool2d with dilation"),
        (nn.Conv2d(1, 2, 9, padding=4, padding_mode="circular"), "does not wrap evenly"),
        (nn.Softplus(1, 0.5), "Softplus with the threshold 0.5, which must be 20 to 80"),
        (nn.CELU(-1.0), "CELU with the alpha -1"),
    ],
)
def test_layers_on_images_that_are_refused(model: nn.Module, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        lipschitz_bound(nn.Sequential(model), (1, 8, 8))


class Traced(nn.Module):
    """A forward pass of one line, around a convolution and a linear layer."""

    def __init__(self, forward: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(2, 2, 3, padding=1), nn.Linear(32, 3)
        self.line = forward

    def forward(self, x: Tensor) -> Any:
        return self.line(self, x)


def changed_later(net: Any, x: Tensor) -> Tensor:
    y = net.conv(x)
    z = y
    y += x
    return z  # type: ignore[no-any-return]


def dropped_in_place(net: Any, x: Tensor) -> Tensor:
    y = net.conv(x)
    functional.leaky_relu(y, 3.0, True)
    return y  # type: ignore[no-any-return]


LINES: dict[str, Callable[[Any, Tensor], Any]] = {
    "spread over pixels": lambda net, x: x + x.mean((2, 3), keepdim=True),
    "spread over columns": lambda net, x: net.linear(x.flatten(1))[:, :1] + 0.01 * x.flatten(1),
    "added in place": lambda net, x: net.conv(x).add_(x),
    "sizes": lambda net, x: functional.avg_pool2d(net.conv(x), x.size(3)).view(x.size(0), -1) / x.shape[1],
    "more sizes": lambda net, x: functional.avg_pool2d(x, x.size()[2:]),
    "a mean over channels": lambda net, x: torch.mean(net.conv(x), dim=1) - 3 * x[:, 0],
    "dropout that is off": lambda net, x: functional.dropout(net.conv(x), 0.5, net.training),
    "clamped": lambda net, x: net.conv(x).clamp(-0.1, 0.1).contiguous(),
    "in place where nothing looks": lambda net, x: functional.relu(net.conv(x), inplace=True) + x,
    "read before it changes": lambda net, x: torch.tanh(net.conv(x)) + net.conv(x).relu_(),
}


@pytest.mark.parametrize("name", LINES)
def test_forward_passes_of_one_line(name: str) -> None:
    torch.manual_seed(0)
    model = Traced(LINES[name]).double().eval()
    bound = lipschitz_bound(model, (2, 4, 4))
    slopes = [steepest(model, torch.randn(2, 4, 4, dtype=torch.float64)) for _ in range(10)]
    assert max(slopes) <= bound * (1 + 1e-9)
    assert bound <= 12 * max(slopes)


REFUSED: dict[str, Callable[[Any, Tensor], Any]] = {
    "changed under another name": changed_later,
    "changed by a function": dropped_in_place,
    "random in eval mode": lambda net, x: functional.dropout(x, 0.5),
    "limits that move": lambda net, x: x.clamp(min=10 * x),
    "a number from a tensor": lambda net, x: x + 100 * x.flatten()[0].item(),
    "a mean over the batch": lambda net, x: x.mean(0, keepdim=True),
    "a dictionary": lambda net, x: {"logits": net.conv(x)},
    "two outputs": lambda net, x: (net.conv(x), x),
    "divided by zero": lambda net, x: x / 0.0,
    "named arguments": lambda net, x: torch.mul(x, other=3),
    "a layer with a named argument": lambda net, x: net.conv(input=x),
    "a sum with a factor": lambda net, x: torch.add(x, net.conv(x), alpha=100),
    "repeated pixels": lambda net, x: functional.pad(x, (1, 1, 1, 1), mode="replicate"),
    "an unknown function": lambda net, x: torch.exp(x),
    "an unknown method": lambda net, x: x.exp(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_forward_passes_that_are_refused(name: str) -> None:
    with pytest.raises(ModelError, match=r"no Lipschitz bound is known|the network returns"):
        lipschitz_bound(Traced(REFUSED[name]).eval(), (2, 4, 4))


def test_what_is_changed_in_place_by_a_layer() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.bend = nn.Conv2d(1, 1, 3, padding=1), nn.SELU(inplace=True)

        def forward(self, x: Tensor) -> Tensor:
            h = self.conv(x)
            return h + self.bend(h)  # type: ignore[no-any-return]

    with pytest.raises(ModelError, match="it changes a value that is used again"):
        lipschitz_bound(Shared(), (1, 4, 4))


def test_normalisation_of_another_dimension_is_not_merged() -> None:
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4)).double().eval()
    with torch.no_grad():
        model[0].weight.copy_(torch.diag(torch.tensor([1.0, 0.01, 0.01, 0.01])))  # type: ignore[operator]
        model[1].running_var.copy_(torch.tensor([1.0, 1e-4, 1.0, 1.0]))  # type: ignore[operator]
    bound = lipschitz_bound(model, (4, 4))
    assert steepest(model, torch.randn(4, 4, dtype=torch.float64)) <= bound
    assert lipschitz_bound(nn.Sequential(nn.Linear(4, 5), nn.BatchNorm2d(3)), (3, 2, 4)) > 0


def test_constants_that_are_no_numbers_are_refused() -> None:
    for value in (True, False, -1.0, "steep", lambda: 3, math.nan):
        model = nn.Linear(3, 3)
        model.lipschitz = value  # type: ignore[assignment]
        for use in (lambda m=model: lipschitz_bound(m, (3,)), lambda m=model: SmoothedClassifier(m, 0.5)):
            with pytest.raises(LvmrsError, match="lipschitz"):
                use()


def test_hooks_several_inputs_and_weights_that_are_not_finite_are_refused() -> None:
    hooked = nn.Sequential(nn.Linear(3, 3))
    hooked[0].register_forward_hook(lambda module, taken, answer: 10 * answer)
    with pytest.raises(ModelError, match="the layer 0: it has forward hooks"):
        lipschitz_bound(hooked, (3,))

    class Two(nn.Module):
        lipschitz = 1.0

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return y

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.two = Two()

        def forward(self, x: Tensor) -> Tensor:
            answer: Tensor = self.two(x, 10 * x)
            return answer

    with pytest.raises(ModelError, match=r"the layer two \(Two with several arguments\)"):
        lipschitz_bound(Outer(), (3,))
    for size in (3, 1100):
        broken = nn.Linear(size, 4)
        with torch.no_grad():
            broken.weight[0, 0] = math.nan
        with pytest.raises(ModelError, match="the weights hold NaN or infinity"):
            lipschitz_bound(broken, (size,))


def test_a_layer_alone_has_a_bound() -> None:
    layer = nn.Linear(3, 4)
    assert lipschitz_bound(layer, (3,)) == of_matrix(layer.weight)


def test_resizing_is_refused() -> None:
    with pytest.raises(ModelError, match="resizes its inputs"):
        lipschitz_bound(Preprocessed(nn.Flatten(), [0.5], [0.5], (4, 4)), (1, 8, 8))
    with pytest.raises(ModelError, match="not a torch module"):
        lipschitz_bound(Preprocessed(lambda x: x, [0.5], [0.5]), (1, 8, 8))


class Scaled(nn.Module):
    """A network that normalises by buffers, as many do."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor, step: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.step = step
        torch.manual_seed(0)
        self.last = nn.Linear(3 * 4 * 4, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.step(x, self.mean, self.std).flatten(1))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("step", "factor"),
    [
        (lambda x, mean, std: (x - mean) / std, 1 / 0.2),
        (lambda x, mean, std: x.sub(mean).div(std), 1 / 0.2),
        (lambda x, mean, std: std * x, 0.5),
        (lambda x, mean, std: x * std - mean, 0.5),
    ],
)
@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 3, 1, 1)])
def test_normalisation_by_buffers(
    step: Callable[[Tensor, Tensor, Tensor], Tensor], factor: float, shape: tuple[int, ...]
) -> None:
    net = Scaled(torch.tensor([0.5, 0.4, 0.3]).view(shape), torch.tensor([0.5, 0.2, 0.25]).view(shape), step)
    bound = lipschitz_bound(net, (3, 4, 4))
    assert bound == pytest.approx(factor * of_matrix(net.last.weight))
    assert unrolled_norm(net.double(), (3, 4, 4)) <= bound * (1 + 1e-6)


def test_a_stored_scale_that_copies_pixels_counts_each_copy() -> None:
    net = Scaled(torch.zeros(1), torch.full((3, 4, 4), 2.0), lambda x, mean, std: x * std)
    bound = lipschitz_bound(net, (3, 1, 1))  # each pixel becomes 16
    assert bound == pytest.approx(8 * of_matrix(net.last.weight))
    assert unrolled_norm(net.double(), (3, 1, 1)) <= bound


@pytest.mark.parametrize("std", [0.0, math.inf, math.nan, 1e-45])
def test_a_stored_scale_that_cannot_be_inverted_is_refused(std: float) -> None:
    net = Scaled(torch.zeros(3, 1, 1), torch.tensor([1.0, std, 1.0]).view(3, 1, 1), lambda x, mean, std: x / std)
    with pytest.raises(ModelError, match=r"no Lipschitz bound is known|fails|changes"):
        lipschitz_bound(net, (3, 4, 4))


def test_a_stored_scale_for_the_rows_of_a_batch_is_refused() -> None:
    net = Scaled(torch.zeros(1), torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1, 1), lambda x, mean, std: x / std)
    with pytest.raises(ModelError):
        lipschitz_bound(net, (3, 4, 4))


class Repeating(nn.Module):
    """The NormalizeLayer of Cohen et al. (2019), whose statistics are attributes, and variants of it."""

    def __init__(self, stds: Callable[[Tensor, int, int, int], Tensor]) -> None:
        super().__init__()
        self.means, self.sds, self.stds = torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.5, 0.2, 0.25]), stds
        torch.manual_seed(0)
        self.last = nn.Linear(3 * 4 * 4, 5)

    def forward(self, x: Tensor) -> Tensor:
        batch, _, height, width = x.shape
        means = self.means.repeat((batch, height, width, 1)).permute(0, 3, 1, 2)
        return self.last(((x - means) / self.stds(self.sds, batch, height, width)).flatten(1))  # type: ignore[no-any-return]


def test_the_normalisation_of_cohen_et_al() -> None:
    net = Repeating(lambda sds, b, h, w: sds.repeat((b, h, w, 1)).permute(0, 3, 1, 2))
    bound = lipschitz_bound(net, (3, 4, 4))
    assert bound == pytest.approx(5 * of_matrix(net.last.weight))
    net.double()
    net.means, net.sds = net.means.double(), net.sds.double()
    assert unrolled_norm(net, (3, 4, 4)) <= bound * (1 + 1e-6)


@pytest.mark.parametrize(
    "stds",
    [
        lambda sds, b, h, w: sds.repeat(b, 1).sum(0).view(1, 3, 1, 1),  # grows with the batch
        lambda sds, b, h, w: sds.repeat((2 * b, h, w, 1))[:b].permute(0, 3, 1, 2),
        lambda sds, b, h, w: sds.repeat((h, b, w, 1)).permute(1, 3, 0, 2),
        lambda sds, b, h, w: sds.repeat((b, h, w, b))[..., :3].permute(0, 3, 1, 2),
        lambda sds, b, h, w: sds.repeat(b).view(b, 3, 1, 1),  # no dimension of its own for the batch
    ],
)
def test_other_uses_of_the_batch_size_are_refused(stds: Callable[[Tensor, int, int, int], Tensor]) -> None:
    with pytest.raises(ModelError, match="no Lipschitz bound is known"):
        lipschitz_bound(Repeating(stds), (3, 4, 4))


def test_a_value_that_is_repeated_is_refused() -> None:
    net = nn.Sequential(Repeated(), nn.Flatten(), nn.Linear(6 * 4 * 4, 5))
    with pytest.raises(ModelError, match="no Lipschitz bound is known for the function repeat"):
        lipschitz_bound(net, (3, 4, 4))


class Repeated(nn.Module):
    """Repeats the colours of its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x.repeat(1, 2, 1, 1)
