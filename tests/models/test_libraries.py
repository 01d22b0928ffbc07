"""Networks of deel-torchlip and orthogonium: their constants come from their weights, or they are refused by name."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from lvmrs.errors import ModelError
from lvmrs.models import lipschitz_bound

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torchlip = pytest.importorskip("deel.torchlip")
    layers = pytest.importorskip("orthogonium.layers")
    aol = pytest.importorskip("orthogonium.layers.conv.AOL")
    soc = pytest.importorskip("orthogonium.layers.conv.adaptiveSOC")


@pytest.fixture(autouse=True)
def seed() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def largest_slope(network: nn.Module, shape: tuple[int, ...], points: int = 3) -> float:
    """The largest singular value of the derivative at a few points."""
    found = []
    for x in torch.rand(points, *shape, dtype=torch.float64):
        jacobian = torch.autograd.functional.jacobian(lambda x: network(x[None])[0], x)  # type: ignore[no-untyped-call]
        found.append(float(torch.linalg.matrix_norm(jacobian.flatten(1), ord=2)))
    return max(found)


def trained(network: Any, shape: tuple[int, ...]) -> Any:
    """The network after a step, so that its weights are not those of the beginning."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    network.train()(torch.rand(4, *shape)).square().sum().backward()
    optimizer.step()
    network(torch.rand(4, *shape))
    return network.eval()


def fixed(network: nn.Module) -> nn.Module:
    """The same network with plain weights, as docs/networks.md says."""
    for layer in list(network.modules()):
        for name in list(getattr(layer, "parametrizations", ())):
            parametrize.remove_parametrizations(layer, name)
    return network.eval()


def test_a_torchlip_network() -> None:
    network = trained(
        torchlip.Sequential(
            torchlip.SpectralConv2d(1, 4, 3, padding=1), torchlip.GroupSort2(),
            torchlip.SpectralConv2d(4, 4, 3, stride=2), torchlip.MaxMin(), nn.Flatten(),
            torchlip.SpectralLinear(72, 16, k_coef_lip=2.0), torchlip.FullSort(), torchlip.FrobeniusLinear(16, 5),
        ),
        (1, 8, 8),
    )  # fmt: skip
    bound = lipschitz_bound(network, (1, 8, 8))
    assert bound == pytest.approx(lipschitz_bound(network.vanilla_export(), (1, 8, 8)), rel=1e-5)
    assert 0.1 * bound < largest_slope(network.double(), (1, 8, 8)) <= bound < 5


def test_an_orthogonium_network() -> None:
    network = nn.Sequential(
        layers.AdaptiveOrthoConv2d(1, 4, 3), layers.MaxMin(),
        layers.AdaptiveOrthoConv2d(4, 8, 4, stride=2, padding=1), layers.BatchCentering2D(8),
        aol.AOLConv2D(8, 8, 3, padding=1), layers.LayerCentering2D(8), layers.Abs(),
        layers.AdaptiveOrthoConv2d(8, 8, 2, stride=2, padding=0), nn.Flatten(),
        layers.OrthoLinear(8 * 2 * 2, 16), layers.UnitNormLinear(16, 5),
    )  # fmt: skip
    trained(network, (1, 8, 8))
    plain = torchlip.vanilla_model(network, in_place=False)
    with pytest.raises(ModelError, match=r"the layer 0 \(FastBlockConv2d.*remove_parametrizations"):
        lipschitz_bound(network, (1, 8, 8))  # each forward pass changes the weights
    bound = lipschitz_bound(fixed(network), (1, 8, 8))
    assert bound == pytest.approx(lipschitz_bound(plain.eval(), (1, 8, 8)), rel=1e-3)
    assert 0.1 * bound < largest_slope(network.double(), (1, 8, 8)) <= bound < 3


def test_a_layer_that_fails_in_float64_is_refused() -> None:
    layer = layers.AdaptiveOrthoConv2d(4, 2, 1)  # one of its parametrizations has a fixed precision
    with pytest.raises(ModelError, match=r"the layer 0: it fails in float64 \(RuntimeError"):
        lipschitz_bound(nn.Sequential(layer).eval(), (4, 6, 6))


def test_the_weights_count_and_not_the_claim() -> None:
    network = trained(torchlip.Sequential(torchlip.SpectralLinear(6, 4), torchlip.GroupSort2()), (6,))
    before = lipschitz_bound(network, (6,))
    assert before == pytest.approx(1, rel=1e-3)
    network[0].parametrizations.weight[1]._w_bjorck.mul_(7)  # as a damaged checkpoint would
    assert lipschitz_bound(network, (6,)) == pytest.approx(7 * before)
    # torchlip's factor of a whole network reaches its activations, and not the weights of layers made before
    assert lipschitz_bound(torchlip.Sequential(torchlip.SpectralLinear(6, 4), k_coef_lip=3.0).eval(), (6,)) < 1.01


def test_a_layer_that_computes_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound is that of the function that the layer computes: here torchlip's activation, changed."""
    network = torchlip.Sequential(torchlip.GroupSort2()).eval()
    assert lipschitz_bound(network, (4,)) == 1.0
    monkeypatch.setattr(torchlip.GroupSort, "forward", lambda self, x: 2 * x)
    with pytest.raises(ModelError, match="GroupSort2, whose result is not that of"):
        lipschitz_bound(network, (4,))


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (lambda: torchlip.ScaledL2NormPool2d((2, 2)), "ScaledL2NormPool2d"),
        (lambda: torchlip.HouseHolder(4), "HouseHolder"),
        (lambda: torchlip.SpectralConvTranspose2d(4, 4, 3), "SpectralConvTranspose2d"),
        (lambda: torchlip.SpectralConv2d(4, 4, 5, padding=2, padding_mode="symmetric"), "SpectralConv2d"),
        (lambda: layers.ChannelShuffle(2, 2), "ChannelShuffle"),
        (lambda: soc.AdaptiveSOCConv2d(4, 4, 3), "FastSOC"),
    ],
)
def test_other_layers_are_refused_by_name(layer: Callable[[], nn.Module], name: str) -> None:
    with pytest.raises(ModelError, match=rf"no Lipschitz bound is known for the layer 0.*{name}"):
        lipschitz_bound(fixed(nn.Sequential(layer())), (4, 8, 8))
