"""Networks as lists of steps: which are accepted, and that they compute the same."""

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from lvmrs import SmoothedClassifier
from lvmrs.engine.execution import fast_version
from lvmrs.engine.tracing import NotTraceableError, fold_normalisation, functions_to_layers, traced
from lvmrs.models import Preprocessed, ResNet
from lvmrs.models.ready import build

SHAPE = (3, 8, 8)


def settled(network: nn.Module) -> nn.Module:
    """The network in eval mode, with statistics and factors of normalisation that are not 0 and 1."""
    torch.manual_seed(0)
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d) and layer.running_mean is not None:
            assert layer.running_var is not None
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2.0)
            if layer.affine:
                nn.init.normal_(layer.weight)
                nn.init.normal_(layer.bias)
    return network.eval()


class Written(nn.Module):
    """A network from a function."""

    def __init__(self, forward: Callable[["Written", Tensor], Tensor]) -> None:
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 3)
        self.kept: Tensor
        self.register_buffer("kept", torch.zeros(3))
        self.relu = nn.ReLU(inplace=True)
        self.written = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.written(self, x)


def logits(network: Written, x: Tensor) -> Tensor:
    hidden: Tensor = network.last(network.norm(network.conv(x)).relu().mean((2, 3)))
    return hidden


def into_a_view(network: Written, x: Tensor) -> Tensor:
    first = x[:, 0]
    first += 5 * (first > 1)  # it changes x
    return logits(network, x)


def with_a_constant(network: Written, x: Tensor) -> Tensor:
    return logits(network, (x - torch.tensor([0.4, 0.5, 0.6])[:, None, None]) / 0.25)


def by_name(network: Written, x: Tensor) -> Tensor:
    found: Tensor = network.last(network.relu(input=network.norm(network.conv(x))).mean((2, 3)))
    return found


class Masked(Written):
    """It has a second argument, which nobody gives."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(x if mask is None else x * mask)


def unpacking(network: Written, x: Tensor) -> Tensor:
    rows, channels, high, wide = x.shape
    if channels != 3 or high < 2 or not wide:
        raise ValueError("no images")
    return logits(network, x).view(rows, -1)


def adding_in_place(network: Written, x: Tensor) -> Tensor:
    hidden = network.norm(network.conv(x))
    hidden += 1.0
    found: Tensor = network.last(functional.relu(hidden, inplace=True).mean((2, 3)))
    return found


class Doubled(nn.Conv2d):
    """A layer that is not what its base class is."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


STRAIGHT: dict[str, Callable[[], nn.Module]] = {
    "resnet, padded": lambda: ResNet(8),
    "resnet, convolved": lambda: ResNet(14, shortcut="convolved"),
    "normalised": lambda: Preprocessed(ResNet(8), [0.4, 0.5, 0.6], [0.2, 0.3, 0.4]),
    "small": lambda: build("small_cnn,channels=3,side=8"),
    "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Linear(9, 3)),
    "transposed": lambda: nn.Sequential(
        nn.ConvTranspose2d(3, 6, 3, 2, groups=3), nn.BatchNorm2d(6), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    ),
    "grouped": lambda: nn.Sequential(
        nn.Conv2d(3, 6, 3, groups=3, bias=False), nn.BatchNorm2d(6, affine=False), nn.Mish(), nn.Flatten()
    ),
    "a layer of one's own": lambda: nn.Sequential(Doubled(3, 2, 3), nn.Flatten()),
    "one layer": lambda: nn.Flatten(),
    "shapes": lambda: Written(unpacking),
    "into a view of the input": lambda: Written(into_a_view),
    "a constant": lambda: Written(with_a_constant),
    "by name": lambda: Written(by_name),
    "another argument": lambda: Masked(logits),
    "in place": lambda: Written(adding_in_place),
}


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", STRAIGHT)
def test_the_steps_compute_what_the_network_computes(name: str, kind: torch.dtype) -> None:
    network = settled(STRAIGHT[name]()).to(kind)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    fast = fast_version(network, torch.randn(8, *SHAPE).to(kind))
    assert fast.folded
    assert not any(isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d) for layer in fast.network.modules())
    for last in (False, True):
        run = fast.runner(fast.way(4, channels_last=last), 1, torch.zeros(SHAPE).to(kind))
        for rows in (1, 2, 7):
            x = torch.randn(rows, *SHAPE).to(kind)
            with torch.no_grad():
                found, expected = run(x.clone()), network(x.clone())
            close = 1e-5 if kind == torch.float32 else 1e-13
            torch.testing.assert_close(found, expected, rtol=0, atol=close * float(expected.abs().max()))
    assert all(torch.equal(before[key], value) for key, value in network.state_dict().items())


def test_only_normalisation_right_after_its_layer_is_folded() -> None:
    shared = nn.Conv2d(3, 3, 3, padding=1)
    network = settled(
        nn.Sequential(
            nn.BatchNorm2d(3), shared, nn.BatchNorm2d(3), shared, nn.ReLU(), nn.BatchNorm2d(3), nn.Conv2d(3, 2, 3),
            nn.BatchNorm2d(2), nn.Flatten(),
        )
    )  # fmt: skip
    steps = traced(network, torch.randn(2, *SHAPE))
    assert fold_normalisation(steps) == 2  # one norm is first, one follows an activation
    x = torch.randn(5, *SHAPE)
    torch.testing.assert_close(steps(x), network(x))  # a layer that runs twice is folded where a norm follows
    sequence = settled(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm2d(3), nn.Flatten()))
    assert fold_normalisation(traced(sequence, torch.randn(2, *SHAPE))) == 0  # it normalises another dimension


class PaddedConv(nn.Conv2d):
    """A layer that pads in its own way, as those of EfficientNet do, and so calls the function."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(
            functional.pad(x, (0, 1, 0, 1)), self.weight, self.bias, self.stride, groups=self.groups
        )


def test_functions_that_convolve_become_layers_into_which_normalisation_is_folded() -> None:
    first = PaddedConv(3, 4, 3, bias=False, stride=2, padding=2, dilation=(1, 2))
    twice, clash = PaddedConv(4, 4, 2, groups=2), nn.Identity()
    layers = [first, nn.BatchNorm2d(4), nn.ReLU(), twice, nn.BatchNorm2d(4), twice, nn.BatchNorm2d(4), clash]
    network = settled(nn.Sequential(*layers, nn.Flatten()))
    network.add_module("layer_1", nn.Flatten().eval())  # the name that a new layer would have
    x = torch.randn(5, *SHAPE)
    steps = traced(network, x[:2])
    assert functions_to_layers(steps) == 3
    torch.testing.assert_close(steps(x), network(x), rtol=0, atol=0)
    assert fold_normalisation(steps) == 3
    torch.testing.assert_close(steps(x), network(x))
    before = torch.get_rng_state()
    made = fast_version(network, x)
    assert made.convolves
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in made.network.modules())
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("padding", ["same", "valid", 1])
def test_weights_by_name_and_padding_in_words(padding: str | int) -> None:
    def named(network: Written, x: Tensor) -> Tensor:
        stored = {"bias": network.conv.bias, "weight": network.conv.weight}
        hidden = functional.conv2d(x, padding=padding, **stored)  # type: ignore[call-overload]
        return network.last(network.norm(hidden).mean((2, 3)))  # type: ignore[no-any-return]

    network = settled(Written(named))
    x = torch.randn(5, *SHAPE)
    steps = traced(network, x[:2])
    assert functions_to_layers(steps) == 1
    torch.testing.assert_close(steps(x), network(x), rtol=0, atol=0)
    assert fold_normalisation(steps) == 1
    torch.testing.assert_close(steps(x), network(x))


def test_functions_that_convolve_with_what_was_computed_stay_functions() -> None:
    def computed(network: Written, x: Tensor) -> Tensor:
        hidden: Tensor = functional.conv2d(x, 2 * network.conv.weight, network.conv.bias, padding="same")
        return network.last(network.norm(hidden).mean((2, 3)))  # type: ignore[no-any-return]

    network = settled(Written(computed))
    x = torch.randn(5, *SHAPE)
    steps = traced(network, x[:2])
    assert functions_to_layers(steps) == 0
    torch.testing.assert_close(steps(x), network(x), rtol=0, atol=0)


def hooked() -> nn.Module:
    network = Written(logits)
    network.conv.register_forward_hook(lambda *args: args[-1] * 2)
    return network


def replaced() -> nn.Module:
    network = Written(logits)
    network.conv.forward = lambda input: input * 2  # type: ignore[method-assign] # noqa: A006
    return network


def counting(network: Written, x: Tensor) -> Tensor:
    network.kept += 1
    return logits(network, x) + network.kept


def remembering(network: Written, x: Tensor) -> Tensor:
    network.calls = getattr(network, "calls", 0) + 1  # type: ignore[assignment]
    return logits(network, x)


def storing(network: Written, x: Tensor) -> Tensor:
    network.kept.view(-1).add_(1.0)
    return logits(network, x)


def viewing(network: Written, x: Tensor) -> Tensor:
    return functional.relu(network.kept, True) + logits(network, x)


def expanding(network: Written, x: Tensor) -> Tensor:
    return network.kept.expand(len(x), -1).add_(1.0) + logits(network, x)


def choosing(network: Written, x: Tensor) -> Tensor:
    return logits(network, x) if x.mean() > 0 else logits(network, -x)


def peeking(network: Written, x: Tensor) -> Tensor:
    return logits(network, x) * x.max().item()


def rows(network: Written, x: Tensor) -> Tensor:
    return torch.stack([logits(network, row[None])[0] for row in x])


def noisy(network: Written, x: Tensor) -> Tensor:
    return logits(network, x + torch.randn_like(x))


def tossing(network: Written, x: Tensor) -> Tensor:
    return logits(network, x) * random.random()  # noqa: S311


def looking_around(network: Written, x: Tensor) -> Tensor:
    return logits(network, x) + (1 if len(x) > 2 else 0)


def of_its_own(network: Written, x: Tensor) -> Tensor:
    def own(value: Tensor) -> Tensor:
        return value

    return torch.vmap(own)(logits(network, x))


def by_item(network: Written, x: Tensor) -> Tensor:
    found = logits(network, x)
    return found * torch.where(x[:, 0, 0, :1] > 50, 2.0, 1.0) if x[:, 0, 0, 0].max().item() > 50 else found


def by_equality(network: Written, x: Tensor) -> Tensor:
    return -logits(network, x) if torch.equal(x[:, :1], x[:, 1:2]) else logits(network, x)


def by_mask(network: Written, x: Tensor) -> Tensor:
    return -logits(network, x) if x[x > 50].shape[0] else logits(network, x)


def by_list(network: Written, x: Tensor) -> Tensor:
    return -logits(network, x) if max(x[:, 0, 0, 0].tolist()) > 50 else logits(network, x)


def by_numpy(network: Written, x: Tensor) -> Tensor:
    return -logits(network, x) if x.detach().numpy().max() > 50 else logits(network, x)


def trying(network: Written, x: Tensor) -> Tensor:
    try:
        if x.max() > 50:
            x = -x
    except Exception:
        return logits(network, x)
    return logits(network, x)


def asking_for_a_tensor(network: Written, x: Tensor) -> Tensor:
    return logits(network, x.clamp(-50, 50) if isinstance(x, Tensor) else x)


def into_the_buffer(network: Written, x: Tensor) -> Tensor:
    network.kept.resize_(len(x), 3)
    return torch.mul(logits(network, x), 1.0, out=network.kept)


NOT_STRAIGHT: dict[str, Callable[[], nn.Module]] = {
    "a hook": hooked,
    "a replaced forward": replaced,
    "no running statistics": lambda: nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False), nn.Flatten()),
    "a layer that is not listed": lambda: nn.Sequential(nn.RReLU(), nn.Flatten()),
    **{
        function.__name__: (lambda function=function: Written(function))  # type: ignore[misc]
        for function in (
            counting, remembering, storing, viewing, expanding, choosing, peeking, rows, noisy, tossing, looking_around,
            of_its_own, by_item, by_equality, by_mask, by_list, by_numpy, trying, asking_for_a_tensor, into_the_buffer,
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_STRAIGHT)
def test_what_is_not_shown_to_be_the_same_runs_as_it_is(name: str) -> None:
    network = settled(NOT_STRAIGHT[name]())
    with torch.no_grad(), pytest.raises(NotTraceableError):
        fast_version(network, torch.randn(8, *SHAPE))


def test_what_is_no_network_in_eval_mode_runs_as_it_is() -> None:
    x = torch.randn(8, *SHAPE)
    with torch.inference_mode():
        uncounted = ResNet(8).eval()
    cases = [
        (lambda x: x.flatten(1), x, "not a torch module"),
        (ResNet(8).train(), x, "training mode"),
        (ResNet(8).eval().bfloat16(), x.bfloat16(), "another precision"),
        (uncounted, x, "inference mode"),
    ]
    for model, inputs, why in cases:
        with pytest.raises(NotTraceableError, match=why):
            fast_version(model, inputs)
    with pytest.raises(NotTraceableError, match="training mode"):
        traced(ResNet(8).train(), x)


def test_our_own_networks_of_known_constant_run_as_copies() -> None:
    network = settled(build("sandwich_small,channels=3,side=8,gamma=2"))
    x = torch.randn(8, *SHAPE)
    fast = fast_version(network, x)
    assert not fast.folded
    assert not fast.convolves
    assert fast.network is not network
    run = fast.runner(fast.way(4), 2, x[0])
    with torch.inference_mode():
        assert torch.equal(run(x), network(x))
    network.register_forward_hook(lambda *args: args[-1] * 2)
    with pytest.raises(NotTraceableError, match="hook"):
        fast_version(network, x)


def squeezing(network: Written, x: Tensor) -> Tensor:
    found = logits(network, x).squeeze()
    return (found if found.dim() > 1 else found[None]).softmax(dim=1)


class Listing(Written):
    """It keeps what it has seen in a list."""

    seen: list[Tensor]

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x.mean())
        return super().forward(x)


def test_tracing_leaves_nothing_in_the_model() -> None:
    network, listing = settled(Written(with_a_constant)), Listing(logits)
    listing.seen = []
    before = set(vars(network))
    with torch.no_grad():
        fast_version(network, torch.randn(8, *SHAPE))
        assert set(vars(network)) == before
        with pytest.raises(NotTraceableError, match="changes what it holds"):
            fast_version(settled(listing), torch.randn(8, *SHAPE))
    assert all(type(each) is Tensor for each in listing.seen)


def test_models_that_tracing_or_copying_fails_for_run_as_they_are() -> None:
    x = torch.rand(SHAPE)
    unlucky: list[nn.Module] = [Written(squeezing), nn.Sequential(nn.Flatten(), nn.LazyLinear(3))]
    derived = Written(logits)
    derived.derived = derived.last.weight.exp()  # torch cannot copy what has a history
    for network in (*unlucky, derived):
        certificate = SmoothedClassifier(network.eval(), 0.5, batch=16).certify(x, n0=10, n=50, alpha=0.01)
        assert certificate.classes == 3


class Attention(nn.Module):
    """A layer of a vision transformer on patches of four by four pixels."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.patches, self.mixed, self.last = nn.Conv2d(3, 16, 4, 4), nn.Linear(16, 48), nn.Linear(16, 5)
        self.norm, self.dropout = nn.LayerNorm(16), dropout

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        query, key, value = (
            self.mixed(self.norm(tokens)).reshape(x.shape[0], -1, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        )
        seen = functional.scaled_dot_product_attention(query, key, value, dropout_p=self.dropout)
        logits: Tensor = self.last((tokens + seen.transpose(1, 2).flatten(2)).mean(dim=1))
        return logits


def test_attention_is_traced_unless_it_drops_values_at_random() -> None:
    rows = torch.rand(8, 3, 16, 16)
    network = Attention(0.0).eval()
    fast = fast_version(network, rows)
    assert fast.folded
    assert torch.allclose(fast.network(rows), network(rows), atol=1e-5)
    with pytest.raises(NotTraceableError, match="draws random numbers"):
        fast_version(Attention(0.1).eval(), rows)
