"""Random networks of known layers, and random changes that make them something else."""

# mypy: disable-error-code="no-any-return,no-untyped-call,method-assign,assignment,operator,index,union-attr,arg-type"

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize

IMAGE = (2, 4, 4)

_BENDS: list[Callable[[], nn.Module]] = [
    nn.ReLU, nn.Tanh, nn.GELU, nn.SiLU, nn.SELU, nn.Identity, nn.Hardswish, nn.Dropout,
    lambda: nn.Softplus(threshold=40), lambda: nn.LeakyReLU(1.7), lambda: nn.ELU(1.4), lambda: nn.ReLU(inplace=True),
    lambda: nn.PReLU(init=2.0),
]  # fmt: skip
_LINES: list[Callable[[Any, Tensor], Tensor]] = [
    lambda net, x: net.inner(x) + x,
    lambda net, x: 0.5 * net.inner(x) - 2 * x,
    lambda net, x: functional.relu(net.inner(x)) / 3 + torch.tanh(x),
    lambda net, x: net.inner(x).clamp(-1, 1) + x.mean(1, keepdim=True),
    lambda net, x: functional.leaky_relu(net.inner(x).mul_(2), 0.2, True) + x,
    lambda net, x: net.inner(x.reshape(x.size(0), -1).view(x.size(0), *IMAGE)) - functional.gelu(x),
]


class Branch(nn.Module):
    """A residual branch; its forward pass is one of the lines above."""

    def __init__(self, inner: nn.Module, line: int) -> None:
        super().__init__()
        self.inner, self.line = inner, line

    def forward(self, x: Tensor) -> Tensor:
        return _LINES[self.line](self, x)


def network(choose: random.Random) -> nn.Sequential:
    """A network for inputs of the shape ``IMAGE``, with three logits."""
    layers: list[nn.Module] = []
    channels = IMAGE[0]
    for _ in range(choose.randint(1, 3)):
        layers.append(nn.Sequential(*_convolutions(choose, channels)))
        if choose.random() < 0.6:
            layers[-1] = Branch(layers[-1], choose.randrange(len(_LINES)))
        layers.append(choose.choice(_BENDS)())
    pools = [nn.AvgPool2d(2), nn.MaxPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(2), nn.AvgPool2d(3, 2, 1), nn.MaxPool2d(2)]
    layers += [choose.choice(pools), nn.Flatten(), nn.Linear(4 * channels, 5), choose.choice(_BENDS)(), nn.Linear(5, 3)]
    net = nn.Sequential(*layers).double()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_var.uniform_(0.2, 3)
            module.weight.data.uniform_(-2, 2)
    return net.eval()


def _convolutions(choose: random.Random, channels: int) -> list[nn.Module]:
    """Convolutions that keep the shape."""
    layers: list[nn.Module] = []
    for _ in range(choose.randint(1, 2)):
        dilation = choose.choice([1, 2])
        mode = choose.choice(["zeros", "zeros", "circular"]) if dilation == 1 else "zeros"
        layer = nn.Conv2d(channels, channels, 3, padding=dilation, dilation=dilation, padding_mode=mode)
        wrap = choose.choice([None, None, parametrizations.spectral_norm, parametrizations.weight_norm])
        layers.append(layer if wrap is None else wrap(layer))
        layers += [nn.BatchNorm2d(channels)] if choose.random() < 0.5 else []
        layers += [choose.choice(_BENDS)()] if choose.random() < 0.5 else []
    return layers


class Steeper(nn.Module):
    """A parametrization that is not torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, weight: Tensor) -> Tensor:
        self.calls += 1
        return weight * (1.0 if self.calls < 3 else 40.0)


def _leaf(net: nn.Module, choose: random.Random, *kinds: type[nn.Module]) -> nn.Module:
    found = [one for one in net.modules() if isinstance(one, kinds or (nn.Linear, nn.Conv2d, nn.ReLU, nn.Tanh))]
    return choose.choice(found)


def _hook(net: nn.Module, choose: random.Random) -> None:
    choose.choice(list(net.modules())).register_forward_hook(lambda module, taken, answer: 40 * answer)


def _pre_hook(net: nn.Module, choose: random.Random) -> None:
    _leaf(net, choose).register_forward_pre_hook(lambda module, taken: (40 * taken[0],))


def _replaced(net: nn.Module, choose: random.Random) -> None:
    module = choose.choice([one for one in net.modules() if not isinstance(one, (nn.ModuleDict, nn.ModuleList))])
    old = type(module).forward
    module.forward = lambda *taken: 40 * old(module, *taken)


def _subclassed(net: nn.Module, choose: random.Random) -> None:
    module = _leaf(net, choose)
    old = type(module)

    def forward(self: nn.Module, x: Tensor) -> Tensor:
        return 40 * old.forward(self, x)

    module.__class__ = type(
        choose.choice([old.__name__, "Own"]), (old,), {"forward": forward, "__module__": old.__module__}
    )


def _subclassed_and_normed(net: nn.Module, choose: random.Random) -> None:
    layer = net[-1]

    class Own(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return 40 * super().forward(x)

    own = Own(layer.in_features, layer.out_features).double()
    net[-1] = choose.choice([parametrizations.spectral_norm, parametrizations.weight_norm])(own)


def _parametrized(net: nn.Module, choose: random.Random) -> None:
    parametrize.register_parametrization(_leaf(net, choose, nn.Linear, nn.Conv2d), "weight", Steeper(), unsafe=True)


def _called(net: nn.Module, choose: random.Random) -> None:
    module = choose.choice(
        [one for one in net.modules() if type(one) in (nn.Sequential, nn.Linear, nn.Conv2d, nn.ReLU)]
    )
    old = type(module)

    def call(self: nn.Module, *taken: Any) -> Any:
        return 40 * nn.Module.__call__(self, *taken)

    module.__class__ = type("Own", (old,), {"__call__": call})


def _bits(net: nn.Module, choose: random.Random) -> None:
    class Bits(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.view(torch.int64).double() / 2**40

    net.insert(choose.randrange(len(net)), Bits())


def _mixed(net: nn.Module, choose: random.Random) -> None:
    class Mixed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 40 * x.mean(0, keepdim=True)

    net.insert(choose.randrange(len(net)), Mixed())


def _stored(net: nn.Module, choose: random.Random) -> None:
    class Kept(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("sum", torch.zeros((), dtype=torch.float64))

        def forward(self, x: Tensor) -> Tensor:
            self.sum.add_(x.mean())
            return x + 40 * self.sum

    net.insert(choose.randrange(len(net)), Kept())


def _in_training_mode(net: nn.Module, choose: random.Random) -> None:
    class Stubborn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Dropout(0.95)

        def forward(self, x: Tensor) -> Tensor:
            self.inner.training = True
            return self.inner(x)

    net.insert(choose.randrange(len(net)), Stubborn())


def _settings(net: nn.Module, choose: random.Random) -> None:
    """This one is allowed: the layer runs as it is set now."""
    layer = _leaf(net, choose, nn.Conv2d)
    layer.padding, layer.dilation, layer.kernel_size = (2, 2), (2, 2), (7, 7)
    _leaf(net, choose, nn.Linear).in_features = 1


def _weights(net: nn.Module, choose: random.Random) -> None:
    """This one is allowed as well: the weights are those that the layer has now."""
    for parameter in net.parameters():
        parameter.data.mul_(math.exp(choose.gauss(0, 1)))


MISCHIEF = [
    _hook, _pre_hook, _replaced, _subclassed, _subclassed_and_normed, _parametrized, _called, _bits, _mixed, _stored,
    _in_training_mode, _settings, _weights,
]  # fmt: skip
ALLOWED = (_settings, _weights)
