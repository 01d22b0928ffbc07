"""Sandwich networks: the algebra of their folding, and that nothing makes them steeper than they promise."""

import copy
import math
import threading
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from lvmrs import Deterministic, SmoothedClassifier, training
from lvmrs.data import load
from lvmrs.errors import InvalidArgumentError, ModelError
from lvmrs.models import Preprocessed, SandwichNetwork, sandwich
from lvmrs.models.lipschitz.norms import Circulant, FourierConvolution, Workspace, applied, spectrum_of
from lvmrs.models.sandwich import (
    Folded,
    SandwichConv,
    SandwichDense,
    SandwichLast,
    cayley,
    chained,
    contracted,
    squares_as_channels,
)
from tests.oracles import steepest

Spec = tuple[Sequence[int], Sequence[tuple[int, int, int] | int], Sequence[int]]
SHAPES: dict[str, Spec] = {
    "as published, 8 × 8": ((1, 8, 8), [(32, 3, 1), (32, 3, 2), (64, 3, 1), (64, 3, 2)], [64, 64]),
    "oblong, pooled": ((2, 12, 8), [(6, 3, 1), 2, (5, 3, 1), (7, 3, 2)], [20]),
    "odd sides": ((2, 9, 15), [(4, 3, 3), (5, 5, 1)], []),
    "pooled first": ((3, 8, 8), [2, (3, 3, 1)], [12]),
    "pooled last": ((2, 8, 8), [(3, 3, 1), 4], [12]),
    "pooled alone": ((3, 4, 8), [2, 2], [12]),
    "dense alone": ((10,), [], [20, 30]),
    "the last layer alone": ((10,), [], []),
}


def network(spec: Spec, seed: int = 0, gamma: float = 3.0) -> SandwichNetwork:
    """With weights that are large enough for the layers to bend."""
    torch.manual_seed(seed)
    made = SandwichNetwork(*spec, classes=4, gamma=gamma)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made.eval()


# ---- the algebra


@given(st.integers(1, 6), st.integers(0, 6), st.booleans(), st.floats(0.01, 30), st.integers(0, 1000))
def test_cayley_makes_orthonormal_rows(rows: int, more: int, is_complex: bool, size: float, seed: int) -> None:
    kind = torch.complex128 if is_complex else torch.float64
    free = size * torch.randn(3, rows, rows + more, dtype=kind, generator=torch.Generator().manual_seed(seed))
    made = cayley(free)
    one = torch.eye(rows, dtype=kind).expand(3, -1, -1)
    torch.testing.assert_close(made @ made.mH, one, rtol=0, atol=1e-9)


@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 4), st.integers(1, 4), st.integers(0, 1000))
@settings(max_examples=40)
def test_a_spectrum_is_that_of_the_wrapped_convolution(height: int, width: int, k: int, m: int, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    kernel = torch.randn(3, 2, k, m, generator=random, dtype=torch.float64)
    x = torch.randn(2, 2, height, width, generator=random, dtype=torch.float64)
    slow = torch.zeros(2, 3, height, width, dtype=torch.float64)
    for i in range(k):
        for j in range(m):
            moved = torch.roll(x, ((k - 1) // 2 - i, (m - 1) // 2 - j), dims=(2, 3))
            slow += torch.einsum("oc,bchw->bohw", kernel[:, :, i, j], moved)
    torch.testing.assert_close(applied(spectrum_of(kernel, (height, width)), x), slow, rtol=0, atol=1e-10)


def double(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize(("height", "width", "stride"), [(8, 8, 2), (6, 12, 3), (4, 4, 4), (6, 10, 2), (5, 7, 1)])
def test_steps_fold_into_one(height: int, width: int, stride: int) -> None:
    x = double(3, 2, height, width)
    first = spectrum_of(double(4, 2, 3, 3), (height, width))
    kept = height // stride, width // stride
    inner = spectrum_of(double(5, 4 * stride**2, 3, 3), kept)
    second = Circulant.unshuffled(inner, (height, width), stride)
    seen = functional.pixel_unshuffle(applied(first, x), stride)
    slow = applied(inner, seen)
    whole = Circulant(first, (height, width)).then(second)
    assert whole.kept == kept
    fast = applied(whole.spectrum, x)[:, :, ::stride, ::stride]
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-9)
    pool = Circulant.pooled(4, (height, width), stride, x)
    fast = applied(Circulant(first, (height, width)).then(pool).spectrum, x)[:, :, ::stride, ::stride]
    slow = functional.avg_pool2d(applied(first, x), stride) * stride
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-9)
    dense = double(6, 4 * kept[0] * kept[1])
    matrix = Circulant(first, (height, width)).then(pool).then_dense(dense)
    torch.testing.assert_close(x.permute(0, 2, 3, 1).flatten(1) @ matrix.T, slow.flatten(1) @ dense.T)


@pytest.mark.parametrize(
    ("height", "width", "stride"), [(8, 8, 1), (8, 8, 2), (6, 9, 3), (5, 7, 1), (2, 1, 1), (1, 4, 1)]
)
def test_five_products_are_the_convolution(height: int, width: int, stride: int) -> None:
    spectrum, bias, x = spectrum_of(double(5, 2, 3, 3), (height, width)), double(5), double(3, 2, height, width)
    slow = applied(spectrum, x)[:, :, ::stride, ::stride] + bias[:, None, None]
    convolution = FourierConvolution(Circulant(spectrum, (height, width), stride), bias).to(x)
    for workspace in (None, Workspace()):
        fast = convolution(x.permute(2, 3, 1, 0).contiguous(), workspace).permute(3, 2, 0, 1)
        torch.testing.assert_close(fast, slow, rtol=0, atol=1e-10)


@given(
    steps=st.lists(st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 9])), min_size=1, max_size=4),
    height=st.integers(1, 3),
    width=st.integers(1, 3),
)
def test_a_chain_is_one_convolution_after_the_other(steps: list[tuple[int, int]], height: int, width: int) -> None:
    """Splits come or not with the channels, and go on through strides of 1."""
    side = math.prod(stride for stride, _ in steps)
    assume(side <= 12)
    slow = x = double(2, 2, side * height, side * width)
    operators = []
    for stride, channels in steps:
        grid = slow.shape[2], slow.shape[3]
        spectrum, bias = spectrum_of(double(channels, slow.shape[1], 3, 2), grid), double(channels)
        operators.append((Circulant(spectrum, grid, stride), bias))
        slow = torch.relu(applied(spectrum, slow)[:, :, ::stride, ::stride] + bias[:, None, None])
    chain = chained(operators, x)
    for workspace in (None, Workspace()):
        hidden = squares_as_channels(x, chain[0].squares)
        for convolution in chain:
            hidden = torch.relu(convolution(hidden, workspace))
        torch.testing.assert_close(hidden.permute(3, 2, 0, 1), slow, rtol=1e-9, atol=1e-9)


# ---- the network


@pytest.mark.parametrize("name", SHAPES)
def test_folded_and_layer_by_layer_agree(name: str) -> None:
    made = network(SHAPES[name])
    x = torch.rand(9, *SHAPES[name][0])
    slow = made.layer_by_layer(x).detach()
    with torch.inference_mode():
        torch.testing.assert_close(made(x), slow, rtol=0, atol=1e-5)
    torch.testing.assert_close(made(x).detach(), slow, rtol=0, atol=1e-5)  # with gradients: other memory
    torch.testing.assert_close(made.train()(x).detach(), slow, rtol=0, atol=1e-5)
    exact = made.double().eval()
    torch.testing.assert_close(exact(x.double()), exact.layer_by_layer(x.double()), rtol=0, atol=1e-12)


def test_batches_of_any_size_answer_alike() -> None:
    made = network(SHAPES["oblong, pooled"])
    x = torch.rand(600, 2, 12, 8)
    with torch.inference_mode():
        whole = made(x)
        torch.testing.assert_close(whole[:7], made(x[:7]), rtol=0, atol=1e-6)
        torch.testing.assert_close(whole[599:], made(x[599:]), rtol=0, atol=1e-6)


def test_gradients_are_those_of_the_layers() -> None:
    made = network(SHAPES["oblong, pooled"]).double().train()
    x = torch.rand(5, 2, 12, 8, dtype=torch.float64)
    torch.autograd.backward(torch.sin(made(x)).sum())
    folded = {name: p.grad for name, p in made.named_parameters()}
    made.zero_grad()
    torch.autograd.backward(torch.sin(made.layer_by_layer(x)).sum())
    for name, parameter in made.named_parameters():
        torch.testing.assert_close(folded[name], parameter.grad, rtol=1e-9, atol=1e-9, msg=name)


def attacked(model: Any, x: Tensor, steps: int = 20) -> tuple[Tensor, Tensor]:
    """Pairs of points moved to make the quotient of distances as large as it gets."""
    near = (x + 0.1 * torch.randn_like(x)).requires_grad_(True)
    far = x.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([near, far], lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.autograd.backward(-quotient(model, near, far).sum())
        optimizer.step()
    return near.detach(), far.detach()


def quotient(model: Any, near: Tensor, far: Tensor) -> Tensor:
    apart = (near - far).flatten(1).norm(dim=1)
    quotients: Tensor = (model(near) - model(far)).norm(dim=1) / apart.clamp_min(1e-3)
    return quotients


def trained_to_be_steep(spec: Spec, gamma: float) -> SandwichNetwork:
    """A network that is rewarded for telling neighbours apart."""
    made = network(spec, gamma=gamma).train()
    optimizer = torch.optim.Adam(made.parameters(), lr=0.02)
    x = torch.rand(32, *spec[0])
    for _ in range(30):
        near = x + 0.05 * torch.randn_like(x)
        optimizer.zero_grad()
        torch.autograd.backward(-quotient(made, near, x).mean())
        optimizer.step()
    return made.eval()


@pytest.mark.parametrize("name", SHAPES)
def test_nothing_is_steeper_than_promised(name: str) -> None:
    """At random points, and after attacks; on networks trained to be steep, which come close to the promise."""
    spec, gamma = SHAPES[name], 5.0
    made = trained_to_be_steep(spec, gamma)
    torch.manual_seed(1)
    x = torch.rand(16, *spec[0])
    near, far = attacked(made, x)
    points = [*x[:6], *torch.randn(3, *spec[0]), *near[:4], *far[:4]]
    slopes = [steepest(made, point) for point in points]
    assert max(slopes) <= gamma * (1 + 1e-5)
    # In float64, so that the quotient of small differences means something.
    exact = copy.deepcopy(made).double()
    assert float(quotient(exact, near.double(), far.double()).detach().max()) <= gamma * (1 + 1e-9)
    assert max(slopes) >= 0.5 * gamma  # the promise is not an idle one


def test_a_wrong_layer_would_be_noticed() -> None:
    """Rows that are not orthonormal: the test above has the power to see it."""
    made = trained_to_be_steep(SHAPES["dense alone"], 1.0)
    with torch.no_grad():
        matrix, _ = made.folded().linear[0]
        matrix.mul_(1.5)
    points = torch.rand(16, 10)
    assert max(steepest(made, point) for point in points) > 1 + 1e-5


def test_layers_on_their_own_have_constant_one() -> None:
    torch.manual_seed(0)
    layers: list[tuple[nn.Module, tuple[int, ...]]] = [
        (SandwichDense(6, 9), (6,)),
        (SandwichDense(9, 4), (9,)),
        (SandwichLast(9, 4), (9,)),
        (SandwichConv(2, 3), (2, 4, 4)),
        (SandwichConv(2, 3, stride=2), (2, 4, 4)),
    ]
    for layer, shape in layers:
        for size in (0.1, 1.0, 30.0):
            with torch.no_grad():
                layer.get_parameter("scale").fill_(size)
            for _ in range(5):
                assert steepest(layer.double(), torch.randn(*shape, dtype=torch.float64)) <= 1 + 1e-12


def test_the_constant_is_picked_up() -> None:
    made = sandwich(1, 8, gamma=5)
    assert SmoothedClassifier(made, 0.25).lipschitz == 5
    assert SmoothedClassifier(Preprocessed(made, [0.5], [0.25]), 0.25).lipschitz == 20


def test_certificates_of_a_trained_one_use_it() -> None:
    """With the constant, the deterministic radius and the radius of noise and constant together exist."""
    made = sandwich(1, 8, gamma=5)
    digits = load("digits", split="train")
    before = training.accuracy(made, digits)
    torch.manual_seed(0)
    training.train(made, digits, training.Margin(0.25, margin=0.3), training.Settings(epochs=2, lr=0.002))
    assert training.accuracy(made, digits) > max(0.5, before)
    smoothed = SmoothedClassifier(made, 0.25, batch=100)
    x, _ = load("digits")[0]
    certificate = smoothed.certify(x, n0=100, n=1000)
    blind = SmoothedClassifier(lambda v: made(v), 0.25, batch=100).certify(x, n0=100, n=1000)
    assert certificate.lipschitz == 5
    assert math.isinf(blind.lipschitz)


def test_folding_follows_the_weights() -> None:
    made, other = network(SHAPES["oblong, pooled"]), network(SHAPES["oblong, pooled"], seed=1)
    x = torch.rand(3, 2, 12, 8)
    with torch.inference_mode():
        first = made(x)
        assert made.folded() is made.folded()
    made.load_state_dict(other.state_dict())
    with torch.inference_mode():
        torch.testing.assert_close(made(x), other(x))
        assert not torch.allclose(made(x), first)
        torch.testing.assert_close(copy.deepcopy(made)(x), made(x))
    torch.autograd.backward(made(x.requires_grad_(True)).sum())  # after inference mode, gradients still pass
    assert x.grad is not None


def test_the_constant_can_be_changed_and_biases_are_copies() -> None:
    made = network(SHAPES["dense alone"], gamma=5.0)
    x = torch.rand(3, 10)
    steep = made(x).detach()
    made.gamma = 1.0
    torch.testing.assert_close(made(x), made.layer_by_layer(x), rtol=0, atol=1e-5)
    assert made.lipschitz == 1
    assert not torch.allclose(made(x), steep)
    with pytest.raises(RuntimeError, match="does not require grad"):  # no training in eval mode, not even of biases
        torch.autograd.backward(made(x).sum())


def test_16_bit_parameters_run_in_float32() -> None:
    for kind in (torch.float16, torch.bfloat16):
        made = network(SHAPES["dense alone"], gamma=1.0).to(kind)
        assert made(torch.rand(3, 10)).dtype == torch.float32
        assert steepest(made, torch.rand(10)) <= 1 + 1e-5


def test_transforms_and_empty_batches() -> None:
    made = network(SHAPES["oblong, pooled"])
    x = torch.rand(4, 2, 12, 8)
    with torch.no_grad():
        torch.testing.assert_close(torch.func.vmap(lambda v: made(v[None])[0])(x), made(x), rtol=0, atol=1e-5)
    with torch.inference_mode():
        assert made(x[:0]).shape == (0, 4)


def test_threads_do_not_share_memory() -> None:
    made = network(SHAPES["oblong, pooled"])
    inputs = [torch.rand(50, 2, 12, 8) for _ in range(4)]
    wrong: list[int] = []

    def run(number: int) -> None:
        with torch.inference_mode():
            for _ in range(20):
                if not torch.allclose(made(inputs[number]), expected[number], atol=1e-5):
                    wrong.append(number)

    with torch.inference_mode():
        expected = [made(x) for x in inputs]
    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_half_precision_is_kept_out() -> None:
    made = network(SHAPES["dense alone"])
    x = torch.rand(3, 10)
    plain = made(x).detach()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(made(x).detach(), plain, rtol=0, atol=0)


def test_wrong_shapes_get_one_sentence() -> None:
    with pytest.raises(ModelError, match=r"inputs have shape \(3, 8, 8\) and the network was made for \(1, 8, 8\)"):
        sandwich(1, 8).eval()(torch.rand(1, 3, 8, 8))
    with pytest.raises(InvalidArgumentError, match="15 × 15 cannot be divided by 2"):
        sandwich(1, 30)
    with pytest.raises(InvalidArgumentError, match="a stride must be at least 1, got 0"):
        SandwichNetwork((1, 8, 8), [(3, 3, 0)], [], 2)
    with pytest.raises(InvalidArgumentError, match="gamma must be positive and finite, got -1"):
        sandwich(1, 8, gamma=-1)
    with pytest.raises(InvalidArgumentError, match=r"shape must be \(channels, height, width\) for convolutions"):
        SandwichNetwork((5,), [(3, 3, 1)], [], 2)


# ---- rounding


def ill_conditioned(kind: torch.dtype = torch.float32) -> SandwichNetwork:
    """Weights near 2²⁴ in one direction: float64 rounds away what the other directions have."""
    weight = torch.randn(3, 6, generator=torch.Generator().manual_seed(303))
    weight[:, :3], weight[:, 3] = 0, weight[:, 3] * 2**24
    made = SandwichNetwork((3,), [], [3], 3)
    with torch.no_grad():
        layer = made.dense[0]
        layer.get_parameter("weight").copy_(weight)
        layer.get_parameter("scale").copy_(weight.norm())
        layer.get_parameter("bias").copy_(torch.tensor([-100.0, -100.0, 100.0]))
        made.last.weight.copy_(torch.cat([torch.eye(3), torch.eye(3)], dim=1))
        made.last.scale.copy_(made.last.weight.norm())
    return made.to(kind).eval()


def test_weights_that_exceed_their_constant_by_rounding_are_refused() -> None:
    """The layer had a derivative of 1.28 where 1 was promised, and the network was certified with 1."""
    made = ill_conditioned()
    into, out_of = SandwichDense.maps(made.dense[0], torch.float64)  # type: ignore[arg-type]
    open_ = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    assert float(torch.linalg.matrix_norm(out_of @ (open_[:, None] * into), ord=2).detach()) > 1.1
    sentence = "the weights of a sandwich layer of 3 outputs are too large or too nearly dependent"
    with pytest.raises(ModelError, match=sentence):
        made(torch.rand(2, 3))
    for method in (Deterministic(), None):
        with pytest.raises(ModelError, match=sentence) as caught:
            SmoothedClassifier(made, 0.25, batch=8).certify(torch.rand(3), method, n0=20, n=100)
        assert "train with smaller weights" in str(caught.value)
    with torch.no_grad():
        made.dense[0].get_parameter("weight").fill_(math.nan)
    with pytest.raises(ModelError, match=sentence):
        made(torch.rand(2, 3))


@pytest.mark.parametrize("shape", [(3, 5), (4, 3, 5)])
def test_rows_that_rounding_has_lengthened_are_shortened(shape: tuple[int, ...]) -> None:
    rows = cayley(double(*shape))
    assert contracted(rows) is rows
    longer = rows * (1 + 1e-8)
    assert float(torch.linalg.matrix_norm(longer, ord=2).max()) > 1 + 9e-9
    assert float(torch.linalg.matrix_norm(contracted(longer), ord=2).max()) <= 1
    torch.testing.assert_close(contracted(longer), rows, rtol=0, atol=1e-7)
    with pytest.raises(ModelError, match="rounding breaks its Lipschitz constant"):
        contracted(rows * (1 + 1e-5))


def test_networks_in_common_use_are_left_as_they_are() -> None:
    """The check changes nothing where rounding is small, so that rows of earlier versions stay what they are."""
    for name in ("as published, 8 × 8", "oblong, pooled"):
        made = network(SHAPES[name])
        unchecked = Folded(made, torch.float64, checked=False)
        for (checked, _), (plain, _) in zip(made.folded().linear, unchecked.linear, strict=True):
            assert torch.equal(checked, plain)
