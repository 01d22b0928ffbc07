"""Networks that do something else than their layers say, or that look as if they did.

Each entry makes a network for inputs of the shape ``SHAPE`` (or ``IMAGE``). ``refused`` is what the sentence of the
refusal must say; where it is None the network has a bound, which no slope of the network may exceed.
"""

# mypy: ignore-errors

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize

from lvmrs.models import Preprocessed, SandwichNetwork
from lvmrs.models.sandwich import SandwichDense

SHAPE, IMAGE = (4,), (1, 4, 4)


@dataclass(frozen=True)
class Mischief:
    make: Callable[[pytest.MonkeyPatch], nn.Module]
    refused: str | None
    shape: tuple[int, ...]


CATALOGUE: dict[str, Mischief] = {}
Maker = Callable[[pytest.MonkeyPatch], nn.Module]


def refused(sentence: str, shape: tuple[int, ...] = SHAPE) -> Callable[[Maker], Maker]:
    def add(make: Maker) -> Maker:
        CATALOGUE[make.__name__] = Mischief(make, sentence, shape)
        return make

    return add


def bounded(shape: tuple[int, ...] = SHAPE) -> Callable[[Maker], Maker]:
    def add(make: Maker) -> Maker:
        CATALOGUE[make.__name__] = Mischief(make, None, shape)
        return make

    return add


def plain() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))


def images() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))


class Around(nn.Module):
    """A forward pass of one line around the plain network, with a buffer."""

    def __init__(self, line: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.net, self.line = plain(), line
        self.register_buffer("kept", torch.zeros(4))

    def forward(self, x: Tensor) -> Any:
        return self.line(self, x)


def line(sentence: str | None) -> Callable[[Callable[[Any, Tensor], Any]], Callable[[Any, Tensor], Any]]:
    """Add a network whose forward pass is this function."""

    def add(forward: Callable[[Any, Tensor], Any]) -> Callable[[Any, Tensor], Any]:
        CATALOGUE[forward.__name__] = Mischief(lambda patch: Around(forward), sentence, SHAPE)
        return forward

    return add


def real(x: Any) -> bool:
    """Whether this is a tensor, and not the stand-in of a trace."""
    return isinstance(x, Tensor)


# ---- hooks


@refused("the layer 0: it has a pre-forward hook")
def pre_hook_on_a_layer(patch: pytest.MonkeyPatch) -> nn.Module:
    net = plain()
    net[0].register_forward_pre_hook(lambda module, taken: (100 * taken[0],))
    return net


@refused("the layer 0: it has a pre-forward hook")
def pre_hook_with_names(patch: pytest.MonkeyPatch) -> nn.Module:
    net = plain()
    net[0].register_forward_pre_hook(lambda module, taken, named: ((100 * taken[0],), named), with_kwargs=True)
    return net


@refused("the layer 2: it has forward hooks")
def hook_on_a_layer(patch: pytest.MonkeyPatch) -> nn.Module:
    net = plain()
    net[2].register_forward_hook(lambda module, taken, answer: 100 * answer)
    return net


@refused("the layer itself: it has forward hooks")
def hook_on_the_network(patch: pytest.MonkeyPatch) -> nn.Module:
    net = plain()
    net.register_forward_hook(lambda module, taken, answer: 100 * answer)
    return net


@refused("Preprocessed is not known, .* it has forward hooks", IMAGE)
def hook_on_the_normalisation(patch: pytest.MonkeyPatch) -> nn.Module:
    net = Preprocessed(images(), [0.5], [0.5])
    net.register_forward_hook(lambda module, taken, answer: 100 * answer)
    return net


@refused("the layer 1.parametrizations.weight.0: it has forward hooks")
def hook_on_a_parametrization(patch: pytest.MonkeyPatch) -> nn.Module:
    net = nn.Sequential(nn.Flatten(), parametrizations.spectral_norm(nn.Linear(4, 4)))
    net[1].parametrizations.weight[0].register_forward_hook(lambda module, taken, answer: 100 * answer)
    return net


@refused("global forward hooks")
def global_hook(patch: pytest.MonkeyPatch) -> nn.Module:
    patch.setitem(nn.modules.module._global_forward_hooks, -1, lambda module, taken, answer: 10 * answer)
    return plain()


@refused("global forward hooks")
def global_pre_hook(patch: pytest.MonkeyPatch) -> nn.Module:
    patch.setitem(nn.modules.module._global_forward_pre_hooks, -1, lambda module, taken: (10 * taken[0],))
    return plain()


@bounded()
def backward_hook(patch: pytest.MonkeyPatch) -> nn.Module:
    net = plain()
    net[0].register_full_backward_hook(lambda module, into, out: None)
    return net


# ---- methods that are replaced, on the object


@refused("the layer 0: its forward was replaced")
def forward_of_a_layer(patch: pytest.MonkeyPatch) -> nn.Module:
    net, old = plain(), nn.Linear.forward
    net[0].forward = lambda x: 100 * old(net[0], x)
    return net


@refused("the layer itself: its forward was replaced")
def forward_of_the_network(patch: pytest.MonkeyPatch) -> nn.Module:
    net = plain()
    net.forward = lambda x: 100 * nn.Sequential.forward(net, x)
    return net


@refused("the layer 0: its forward was replaced")
def forward_of_a_container(patch: pytest.MonkeyPatch) -> nn.Module:
    inner = plain()
    inner.forward = lambda x: 100 * nn.Sequential.forward(inner, x)
    return nn.Sequential(inner)


@refused("the layer 0: its _conv_forward was replaced", IMAGE)
def convolution_inside(patch: pytest.MonkeyPatch) -> nn.Module:
    net = images()
    net[0]._conv_forward = lambda x, weight, bias: functional.conv2d(x, 100 * weight, bias, padding=1)
    return net


@refused("the layer 0: its _call_impl was replaced")
def call_of_a_layer(patch: pytest.MonkeyPatch) -> nn.Module:
    net = plain()
    net[0]._call_impl = lambda x: 100 * nn.Linear.forward(net[0], x)
    return net


@refused("the layer 0: it is compiled")
def compiled_call(patch: pytest.MonkeyPatch) -> nn.Module:
    net = plain()
    net[0]._compiled_call_impl = lambda x: 100 * nn.Linear.forward(net[0], x)
    return net


@refused("the layer 0: its _check_input_dim was replaced")
def check_of_a_normalisation(patch: pytest.MonkeyPatch) -> nn.Module:
    net = nn.Sequential(nn.BatchNorm1d(4))
    net[0]._check_input_dim = lambda x: x.mul_(100)
    return net


# ---- classes that are not torch's


class Steep(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 100 * super().forward(x)


class SteepConv(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return 10 * super().forward(x)


class Called(nn.Linear):
    def __call__(self, x: Tensor) -> Tensor:
        return 100 * super().__call__(x)


@refused("the function linear")
def subclass_of_linear(patch: pytest.MonkeyPatch) -> nn.Module:
    return nn.Sequential(Steep(4, 3))


@refused("Called replaces __call__")
def subclass_with_a_call(patch: pytest.MonkeyPatch) -> nn.Module:
    return nn.Sequential(Called(4, 3))


@refused("replaces __call__")
def container_with_a_call(patch: pytest.MonkeyPatch) -> nn.Module:
    class Loud(nn.Sequential):
        def __call__(self, x: Tensor) -> Tensor:
            return 100 * super().__call__(x)

    return Loud(*plain())


@refused("replaces _call_impl")
def container_with_an_inner_call(patch: pytest.MonkeyPatch) -> nn.Module:
    class Loud(nn.Sequential):
        def _call_impl(self, *args: Any, **named: Any) -> Any:
            return 100 * super()._call_impl(*args, **named)

    return nn.Sequential(Loud(*plain()))


@refused("replaces __getattribute__")
def attributes_that_lie(patch: pytest.MonkeyPatch) -> nn.Module:
    class Liar(nn.Sequential):
        def __getattribute__(self, name: str) -> Any:
            found = super().__getattribute__(name)
            return (lambda x: 100 * found(x)) if name == "forward" else found

    return Liar(*plain())


@refused(r"the layer 0 \(Steep")
def class_that_says_it_is_torchs(patch: pytest.MonkeyPatch) -> nn.Module:
    patch.setattr(Steep, "__module__", "torch.nn.modules.linear")
    return nn.Sequential(Steep(4, 3))


@refused(r"the layer 0 \(Linear\)")
def class_with_the_name_of_torchs(patch: pytest.MonkeyPatch) -> nn.Module:
    linear = type("Linear", (Steep,), {"__module__": "torch.nn.modules.linear"})
    return nn.Sequential(linear(4, 3))


@bounded()
def sequential_with_a_forward(patch: pytest.MonkeyPatch) -> nn.Module:
    class Loud(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            return 100 * super().forward(x)

    return nn.Sequential(Loud(*plain()), nn.ReLU())


@bounded()
def subclass_of_relu(patch: pytest.MonkeyPatch) -> nn.Module:
    class SteepRelu(nn.ReLU):
        def forward(self, x: Tensor) -> Tensor:
            return 7 * torch.relu(x)

    return nn.Sequential(nn.Linear(4, 4), SteepRelu())


@bounded()
def layer_with_the_name_of_a_method(patch: pytest.MonkeyPatch) -> nn.Module:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.size, self.dim = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return 30 * self.dim(self.size(x))

    return Named()


# ---- parametrizations


@refused(r"the layer 0 \(Steep\)")
def spectral_norm_of_a_subclass(patch: pytest.MonkeyPatch) -> nn.Module:
    return nn.Sequential(parametrizations.spectral_norm(Steep(4, 3)))


@refused(r"the layer 0 \(Steep\)")
def weight_norm_of_a_subclass(patch: pytest.MonkeyPatch) -> nn.Module:
    return nn.Sequential(parametrizations.weight_norm(Steep(4, 3)))


@refused(r"the layer 0 \(SteepConv\)", IMAGE)
def spectral_norm_of_a_convolution(patch: pytest.MonkeyPatch) -> nn.Module:
    return nn.Sequential(parametrizations.spectral_norm(SteepConv(1, 3, 3)), nn.Flatten())


class Growing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.times = 1.0

    def forward(self, weight: Tensor) -> Tensor:
        self.times *= 2
        return self.times * weight


@refused("its weight is parametrized by Growing, which is not torch's own|its times changes")
def own_parametrization(patch: pytest.MonkeyPatch) -> nn.Module:
    net = plain()
    parametrize.register_parametrization(net[0], "weight", Growing(), unsafe=True)
    return net


@refused("its weight is parametrized by Growing|its times changes")
def own_parametrization_after_torchs(patch: pytest.MonkeyPatch) -> nn.Module:
    net = plain()
    parametrizations.spectral_norm(net[0])
    parametrize.register_parametrization(net[0], "weight", Growing(), unsafe=True)
    return net


@refused("its forward was replaced")
def torchs_parametrization_changed(patch: pytest.MonkeyPatch) -> nn.Module:
    net = nn.Sequential(parametrizations.spectral_norm(nn.Linear(4, 4)))
    growing = Growing()
    net[0].parametrizations.weight[0].forward = growing.forward
    return net


@refused(r"the layer itself \(ParametrizedAround|the layer itself \(Around\)|Around\)")
def container_with_a_parametrization(patch: pytest.MonkeyPatch) -> nn.Module:
    net = Around(lambda net, x: net.net(x) + net.kept[:3])
    parametrize.register_parametrization(net, "kept", Growing(), unsafe=True)
    return net


@bounded()
def torchs_own_parametrizations(patch: pytest.MonkeyPatch) -> nn.Module:
    net = nn.Sequential(
        parametrizations.spectral_norm(nn.Linear(4, 4)), nn.ReLU(), parametrizations.weight_norm(nn.Linear(4, 4))
    )
    with torch.no_grad():
        net[0].parametrizations.weight.original.mul_(torch.arange(1, 5)[:, None])  # its stored vectors are now old
    return nn.Sequential(copy.deepcopy(net), parametrizations.orthogonal(nn.Linear(4, 4)))


def weight_hook(layer: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.utils.weight_norm(layer)


@bounded()
def older_weight_norm(patch: pytest.MonkeyPatch) -> nn.Module:
    net = nn.Sequential(weight_hook(nn.Linear(4, 4)), nn.ReLU(), nn.utils.spectral_norm(nn.Linear(4, 4)))
    with torch.no_grad():
        net[0].weight_g.mul_(9)
    return net


@refused("the layer 0: it has a pre-forward hook|the function linear")
def older_weight_norm_of_a_subclass(patch: pytest.MonkeyPatch) -> nn.Module:
    return nn.Sequential(weight_hook(Steep(4, 4)))


@refused("its hook WeightNorm was changed")
def older_weight_norm_changed(patch: pytest.MonkeyPatch) -> nn.Module:
    layer = weight_hook(nn.Linear(4, 4))
    (hook,) = layer._forward_pre_hooks.values()
    weight = 100 * torch.eye(4, dtype=torch.float64)
    hook.compute_weight = lambda module: weight
    return nn.Sequential(layer)


# ---- weights and settings


class Scaled(Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = super().__torch_function__(func, types, args, kwargs or {})
        return 100 * found.as_subclass(Tensor) if func is functional.linear else found


@refused("its weight is a .*, not a plain tensor")
def weight_of_another_class(patch: pytest.MonkeyPatch) -> nn.Module:
    net = plain().double()
    net[0].weight = nn.Parameter(net[0].weight.detach().as_subclass(Scaled))
    return net


@refused("sparse")
def sparse_weight(patch: pytest.MonkeyPatch) -> nn.Module:
    net = plain().double()
    net[0].weight = nn.Parameter(torch.eye(4, dtype=torch.float64).to_sparse())
    return net


@refused("fails on inputs|complex")
def complex_weight(patch: pytest.MonkeyPatch) -> nn.Module:
    net = plain().double()
    net[0].weight = nn.Parameter(torch.eye(4, dtype=torch.complex128))
    return net


class SmallOnTheOutside(float):
    def __abs__(self) -> float:
        return 0.0


@refused("its negative_slope is not a plain number")
def number_that_lies(patch: pytest.MonkeyPatch) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.LeakyReLU(SmallOnTheOutside(50.0)))


@refused("its negative_slope is not a plain number")
def number_that_is_none(patch: pytest.MonkeyPatch) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.LeakyReLU(float("nan")))


@refused("function mul")
def factor_that_lies(patch: pytest.MonkeyPatch) -> nn.Module:
    return Around(lambda net, x: net.net(x) * SmallOnTheOutside(50.0))


@bounded()
def tied_weights(patch: pytest.MonkeyPatch) -> nn.Module:
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.Tanh(), layer, layer)


@bounded()
def expanded_weights(patch: pytest.MonkeyPatch) -> nn.Module:
    net = plain().double()
    net[0].weight = nn.Parameter(torch.rand(1, 4, dtype=torch.float64).expand(4, 4))
    return net


@bounded(IMAGE)
def settings_changed_later(patch: pytest.MonkeyPatch) -> nn.Module:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Conv2d(2, 2, 3, padding="same"), nn.Flatten())
    net[0].dilation, net[0].padding, net[0].stride, net[0].kernel_size = (2, 2), (3, 3), (1, 2), (1, 1)
    net[1].kernel_size = (9, 9)
    return net


@refused("does not wrap evenly", IMAGE)
def circle_changed_later(patch: pytest.MonkeyPatch) -> nn.Module:
    layer = nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular")
    layer._reversed_padding_repeated_twice = [3, 3, 3, 3]
    return nn.Sequential(layer, nn.Flatten())


@refused("padding 'replicate'", IMAGE)
def padding_changed_later(patch: pytest.MonkeyPatch) -> nn.Module:
    layer = nn.Conv2d(1, 2, 3, padding=1, padding_mode="replicate")
    return nn.Sequential(layer, nn.Flatten())


@refused("does not return a tensor", IMAGE)
def pooling_with_indices(patch: pytest.MonkeyPatch) -> nn.Module:
    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pool = nn.MaxPool2d(2, return_indices=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.pool(x)[1].float()

    return First()


@refused("whose variance is negative")
def negative_variance(patch: pytest.MonkeyPatch) -> nn.Module:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    net[1].running_var.fill_(-1.0)
    return net


@bounded(IMAGE)
def negative_deviation(patch: pytest.MonkeyPatch) -> nn.Module:
    net = Preprocessed(images(), [0.5], [0.5])
    net.std.fill_(-0.01)
    return net


# ---- what layers say of themselves


class Word(nn.Conv2d):
    """A user's layer, which is 10 times as steep as its weights say, and says so."""

    def forward(self, x: Tensor) -> Tensor:
        return 10 * super().forward(x)

    @property
    def lipschitz(self) -> float:
        return 10 * float(self.weight.detach().abs().sum())


@bounded(IMAGE)
def stated_constant_before_a_normalisation(patch: pytest.MonkeyPatch) -> nn.Module:
    return nn.Sequential(Word(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.Flatten())


@bounded()
def constant_that_is_passed_on(patch: pytest.MonkeyPatch) -> nn.Module:
    class Passing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = plain()
            self.inner.lipschitz = 1.0

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

        def forward(self, x: Tensor) -> Tensor:
            return 100 * self.inner(x)

    return Passing()


@refused("it changes a value that is used again")
def stated_constant_of_a_layer_that_writes(patch: pytest.MonkeyPatch) -> nn.Module:
    class Writing(nn.Module):
        lipschitz = 1.0

        def forward(self, x: Tensor) -> Tensor:
            answer = x.clone()
            x.mul_(100)
            return answer

    net = Around(lambda net, x: net.writing(h := net.net(x)) + h)
    net.writing = Writing()
    return net


@refused(r"the layer 0 \(Linear: it has forward hooks\)")
def hook_on_a_layer_that_states_a_constant(patch: pytest.MonkeyPatch) -> nn.Module:
    net = plain()
    net[0].lipschitz = 5.0
    net[0].register_forward_hook(lambda module, taken, answer: 100 * answer)
    return net


@bounded()
def argument_with_a_default(patch: pytest.MonkeyPatch) -> nn.Module:
    class Optional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = plain()

        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            return 9 * self.net(x)[:, 0]

    return Optional()


# ---- sandwich networks


def sandwich_network() -> SandwichNetwork:
    return SandwichNetwork(SHAPE, [], dense=[4, 4], classes=3).double()


@refused("SandwichNetwork is not known.*forward hooks")
def hook_on_a_sandwich_network(patch: pytest.MonkeyPatch) -> nn.Module:
    net = sandwich_network()
    net.register_forward_hook(lambda module, taken, answer: 20 * answer)
    return net


@refused("SandwichNetwork is not known.*pre-forward hook")
def sandwich_network_inside(patch: pytest.MonkeyPatch) -> nn.Module:
    net = sandwich_network()
    net.register_forward_pre_hook(lambda module, taken: (20 * taken[0],))
    return nn.Sequential(nn.Linear(4, 4), net)


@refused("its forward was replaced")
def forward_of_a_sandwich_network(patch: pytest.MonkeyPatch) -> nn.Module:
    net = sandwich_network()
    net.forward = lambda x: 20 * SandwichNetwork.forward(net, x)
    return net


@refused("its folded was replaced")
def folding_of_a_sandwich_network(patch: pytest.MonkeyPatch) -> nn.Module:
    net = sandwich_network()
    net.folded = lambda: lambda x: 20 * SandwichNetwork.folded(net)(x)
    return net


@refused("the layer last: its maps was replaced")
def maps_of_a_sandwich_layer(patch: pytest.MonkeyPatch) -> nn.Module:
    net = sandwich_network()
    net.last.maps = lambda dtype=None: (20 * type(net.last).maps(net.last, dtype)[0], None)
    return net


@refused("a subclass of SandwichNetwork")
def subclass_of_a_sandwich_network(patch: pytest.MonkeyPatch) -> nn.Module:
    class Steeper(SandwichNetwork):
        def forward(self, x: Tensor) -> Tensor:
            return 20 * super().forward(x)

    return Steeper(SHAPE, [], dense=[4], classes=3)


@refused("the layer dense.0: .* is not a layer that lvmrs put there")
def subclass_of_a_sandwich_layer(patch: pytest.MonkeyPatch) -> nn.Module:
    class Steeper(SandwichDense):
        def maps(self, dtype: torch.dtype | None = None, *, checked: bool = False) -> tuple[Tensor, Tensor]:
            into, out = super().maps(dtype, checked=checked)
            return 20 * into, out

    net = sandwich_network()
    net.dense[0] = Steeper(4, 4)
    return net


@refused("the layer dense.1: .* is not a layer that lvmrs put there")
def parametrization_of_a_sandwich_layer(patch: pytest.MonkeyPatch) -> nn.Module:
    net = sandwich_network()
    parametrizations.weight_norm(net.dense[1])
    return net


@refused("a subclass of Preprocessed", IMAGE)
def subclass_of_the_normalisation(patch: pytest.MonkeyPatch) -> nn.Module:
    class Steeper(Preprocessed):
        def forward(self, x: Tensor) -> Tensor:
            return 20 * super().forward(x)

    return Steeper(images(), [0.5], [0.5])


# ---- wrappers


@refused(r"\(DataParallel\)")
def data_parallel(patch: pytest.MonkeyPatch) -> nn.Module:
    return nn.Sequential(nn.DataParallel(plain()))


@refused("ScriptModule")
def scripted(patch: pytest.MonkeyPatch) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.Sequential(torch.jit.script(plain().double()))


@refused(r"\(OptimizedModule\)|OptimizedModule")
def compiled(patch: pytest.MonkeyPatch) -> nn.Module:
    return nn.Sequential(torch.compile(plain(), backend="eager"))


@refused("replaces __call__")
def traced_before(patch: pytest.MonkeyPatch) -> nn.Module:
    return nn.Sequential(fx.symbolic_trace(plain()))


@refused("LazyLinear|pre-forward hook")
def lazy(patch: pytest.MonkeyPatch) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.Sequential(nn.LazyLinear(3))


# ---- forward passes


@line("view")
def bits_as_integers(net: Any, x: Tensor) -> Tensor:
    return x.view(torch.int64).double()


@line("function view")
def bits_as_other_floats(net: Any, x: Tensor) -> Tensor:
    return x.view(torch.float32).double()


@line("function view")
def bits_by_name(net: Any, x: Tensor) -> Tensor:
    return x.view(dtype=torch.float32)


@line("does not keep the batch first")
def mean_over_the_batch(net: Any, x: Tensor) -> Tensor:
    return net.net(x) + 50 * net.net(x).mean(0)


@line("depends on the size of the batch")
def batch_transposed(net: Any, x: Tensor) -> Tensor:
    return 9 * x[:, : x.size(0)].transpose(0, 1)


@line("depends on the size of the batch")
def size_of_the_batch_as_a_factor(net: Any, x: Tensor) -> Tensor:
    return net.net(x) * x.size(0)


@line("depends on the size of the batch")
def hidden_size_of_the_batch(net: Any, x: Tensor) -> Tensor:
    return net.net(x) * (x.shape[0] // 100 * 100 + 1)


@line("depends on the size of the batch")
def size_of_the_batch_as_a_limit(net: Any, x: Tensor) -> Tensor:
    return net.net(x).clamp(-x.shape[0], x.shape[0])


@line("does not keep the batch first")
def rows_mixed_by_a_shape(net: Any, x: Tensor) -> Tensor:
    return net.net(x.reshape(-1).reshape(4, -1).transpose(0, 1))


@line("does not keep the batch first")
def batch_of_one(net: Any, x: Tensor) -> Tensor:
    return net.net(x)[:, None].squeeze().mean(-1, keepdim=True)


@refused("does not keep the batch first")
def flattened_batch(patch: pytest.MonkeyPatch) -> nn.Module:
    return nn.Sequential(nn.Flatten(0), nn.Unflatten(0, (-1, 4)), nn.Linear(4, 3))


@line(None)
def honest_shapes(net: Any, x: Tensor) -> Tensor:
    return net.net(x.view(x.shape[0], 2, -1).reshape(x.size(0), x.shape[1])) * x.shape[-1]


@line("may change what the network stores|its kept changes")
def kept_in_a_buffer(net: Any, x: Tensor) -> Tensor:
    net.kept.add_(x.mean(0))
    return net.net(x) + 50 * net.kept[:3]


@line("may change what the network stores")
def weights_as_a_go_between(net: Any, x: Tensor) -> Tensor:
    net.net[2].bias.add_(100).sub_(100)
    return net.net(x)


@line("it changes a value that is used again")
def written_through_a_view(net: Any, x: Tensor) -> Tensor:
    h = net.net(x)
    h[:, :2].mul_(100)
    return h


@line("it changes a value that is used again")
def written_by_a_function(net: Any, x: Tensor) -> Tensor:
    h = net.net(x)
    functional.leaky_relu(h, 100.0, True)
    return h


@line(None)
def written_and_read(net: Any, x: Tensor) -> Tensor:
    return net.net(x).mul_(30)


@line("its _parameters|its weight changes|differ from its trace")
def weights_that_grow(net: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        net.net[0]._parameters["weight"].mul_(1.5)
    return net.net(x)


@line("differ from its trace")
def weights_that_grow_for_a_moment(net: Any, x: Tensor) -> Tensor:
    weight = net.net[0]._parameters["weight"]
    weight.data.mul_(64)
    answer = net.net(x)
    weight.data.div_(64)
    return answer


@line("its list changes while the network runs|may change what the network stores")
def kept_in_a_list(net: Any, x: Tensor) -> Tensor:
    net.list = getattr(net, "list", [torch.zeros(3, dtype=torch.float64)])
    net.list[0].add_(1.0)
    return net.net(x) + net.list[0]


@line("its calls changes while the network runs")
def calls_that_are_counted(net: Any, x: Tensor) -> Tensor:
    net.calls = getattr(net, "calls", 0) + 1
    return net.net(x) * (1.0 if net.calls < 1000 else 100.0)


@line("its seen changes while the network runs")
def list_that_grows(net: Any, x: Tensor) -> Tensor:
    net.seen = [*getattr(net, "seen", []), 1]
    return net.net(x) * (1.0 if len(net.seen) < 1000 else 100.0)


@line("differ from its trace")
def chance(net: Any, x: Tensor) -> Tensor:
    return net.net(x) * (100.0 if random.random() < 0.5 else 1.0)  # noqa: S311


@line("differ from its trace")
def other_path_for_tensors(net: Any, x: Tensor) -> Tensor:
    return 100 * net.net(x) if real(x) else net.net(x)


@line("reads values")
def other_path_for_large_inputs(net: Any, x: Tensor) -> Tensor:
    return 100 * net.net(x) if real(x) and bool(x.max() > 1e6) else net.net(x)


@line("function abs|reads values")
def other_path_in_a_handler(net: Any, x: Tensor) -> Tensor:
    try:
        large = float(x.abs().max()) > 1e9
    except Exception:
        large = False
    return 100 * net.net(x) if large else net.net(x)


@line("reads values")
def other_path_by_a_mask(net: Any, x: Tensor) -> Tensor:
    return 100 * net.net(x) if real(x) and len(x[x > 1e9]) > 0 else net.net(x)


@line("reads values")
def other_path_by_numpy(net: Any, x: Tensor) -> Tensor:
    return 100 * net.net(x) if real(x) and x.numpy().max() > 1e9 else net.net(x)


@line(None)
def number_from_a_buffer(net: Any, x: Tensor) -> Tensor:
    return net.net(x) * (30 + net.kept[0].item())


@line("differ from its trace")
def other_path_for_large_batches(net: Any, x: Tensor) -> Tensor:
    return 100 * net.net(x) if real(x) and len(x) > 16 else net.net(x)


@line("cannot be traced")
def other_path_for_sizes(net: Any, x: Tensor) -> Tensor:
    return 100 * net.net(x) if x.shape[0] > 500 else net.net(x)


@line(None)
def other_path_for_training(net: Any, x: Tensor) -> Tensor:
    return net.net(x) if net.training else 100 * net.net(x)


@line("dropout|differ from its trace|training changes")
def dropout_in_training_mode(net: Any, x: Tensor) -> Tensor:
    return functional.dropout(net.net(x), 0.9, True)


@refused("training changes while the network runs|differ from its trace")
def dropout_that_is_switched_on(patch: pytest.MonkeyPatch) -> nn.Module:
    def forward(net: Any, x: Tensor) -> Tensor:
        net.drop.train()
        return net.drop(net.net(x))

    net = Around(forward)
    net.drop = nn.Dropout(0.9)
    return net


@refused("replaces training")
def always_in_training_mode(patch: pytest.MonkeyPatch) -> nn.Module:
    class Stubborn(nn.Dropout):
        @property
        def training(self) -> bool:
            return True

        @training.setter
        def training(self, mode: bool) -> None:
            pass

    return nn.Sequential(nn.Linear(4, 4), Stubborn(0.9))


@bounded()
def eval_that_does_nothing(patch: pytest.MonkeyPatch) -> nn.Module:
    class Stubborn(nn.Sequential):
        def train(self, mode: bool = True) -> Stubborn:
            return super().train(True)

    return Stubborn(nn.Linear(4, 4), nn.Dropout(0.9))


@refused("its bias changes|its _parameters|differ from its trace|cannot be traced")
def bias_that_depends_on_the_input(patch: pytest.MonkeyPatch) -> nn.Module:
    def forward(net: Any, x: Tensor) -> Tensor:
        if real(x):
            net.net[2].bias.data = 50 * x.mean(0)[:3]
        return net.net(x)

    return Around(forward)


class Steepened(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 100 * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return 0 * gradient


@line(None)
def own_gradient(net: Any, x: Tensor) -> Tensor:
    return Steepened.apply(net.net(x))


def hidden(x: Tensor) -> Tensor:
    return 100 * x


fx.wrap("hidden")


@line("function hidden")
def function_that_is_not_traced(net: Any, x: Tensor) -> Tensor:
    return hidden(net.net(x))


@line("function add")
def factor_in_a_sum(net: Any, x: Tensor) -> Tensor:
    return torch.add(net.net(x), net.net(x), alpha=100)


@line("function mul")
def factor_by_name(net: Any, x: Tensor) -> Tensor:
    return torch.mul(net.net(x), other=100)


@line("known for cat: it changes a value")
def result_put_elsewhere(net: Any, x: Tensor) -> Tensor:
    out = 100 * net.net(x)
    torch.cat([net.net(x)], 1, out=out)
    return out


@line("known for tanh: it changes a value")
def result_put_into_another_value(net: Any, x: Tensor) -> Tensor:
    out = net.net(x)
    torch.tanh(100 * net.net(x), out=out)
    return out


@line("function cat")
def result_of_which_the_place_is_lost(net: Any, x: Tensor) -> Tensor:
    return torch.cat([net.net(x)], 1, out=100 * net.net(x))


@line("function flip|flip")
def unknown_order(net: Any, x: Tensor) -> Tensor:
    return net.net(x.flip(0))


@line("function half")
def lower_precision(net: Any, x: Tensor) -> Tensor:
    return net.net(x.half().double())


@line("function div")
def division_that_rounds(net: Any, x: Tensor) -> Tensor:
    return torch.div(net.net(x), 0.01, rounding_mode="floor")


@line("function mean")
def mean_of_another_type(net: Any, x: Tensor) -> Tensor:
    return net.net(x).mean(1, keepdim=True, dtype=torch.float16)


@line("function linear")
def layer_without_its_call(net: Any, x: Tensor) -> Tensor:
    return 100 * net.net[0].forward(x)


CALLS = {"made": 0}


@line("differ from its trace")
def state_of_the_module_file(net: Any, x: Tensor) -> Tensor:
    CALLS["made"] += 1
    return net.net(x) * (100.0 if CALLS["made"] % 4 == 0 else 1.0)
