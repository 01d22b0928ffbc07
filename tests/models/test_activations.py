"""Torch computes each function that has a Lipschitz bound to within a few roundings of its input.

A bound is proved for a mathematical function, and torch runs another one: it is rounded, it switches between formulas,
and it overflows. What rounding does to logits is measured at a few points (``lvmrs.kernel.rounding``). This is sound
only if torch's function is everywhere as close to the mathematical one as rounding is, and jumps nowhere. Both are
measured here, in units of the rounding of an input, ``eps · max(1, |x|)``, times the bound. Settings for which torch's
function is further away must be refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import pytest
import torch
from mpmath import mpf
from torch import Tensor, nn
from torch.nn import functional

from lvmrs.errors import ModelError
from lvmrs.models import lipschitz_bound
from lvmrs.models.lipschitz.layers import FUNCTIONS, LAYERS, METHODS

ALLOWED = 8.0
"""How many units a function of torch may be off, or jump between neighbouring numbers."""
HALVES = (torch.float16, torch.bfloat16)
TYPES = (*HALVES, torch.float32, torch.float64)


class Applied(nn.Module):
    """A network that applies one function; its parameter says in which precision."""

    def __init__(self, function: Callable[[Tensor], Tensor], dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.function, self.unused = function, nn.Parameter(torch.zeros((), dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def sigmoid(x: mpf) -> mpf:
    return 1 / (1 + mpmath.exp(-x))


def softplus(x: mpf, beta: float = 1.0) -> mpf:
    return mpmath.log1p(mpmath.exp(mpf(beta) * x)) / mpf(beta)


def exponential(x: mpf, alpha: float, length: float = 1.0) -> mpf:
    return x if x > 0 else mpf(alpha) * mpmath.expm1(x / mpf(length))


def limited(x: mpf, low: float, high: float) -> mpf:
    return min(max(x, mpf(low)), mpf(high))


def gelu_by_tanh(x: mpf) -> mpf:
    return x / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + mpf("0.044715") * x**3)))


SELU = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
Entry = tuple[Callable[[Tensor], Tensor], Callable[[mpf], mpf]]
ONE: dict[str, Entry] = {
    "ReLU": (nn.ReLU(), lambda x: max(x, mpf(0))),
    "ReLU6": (nn.ReLU6(), lambda x: limited(x, 0, 6)),
    "Hardtanh": (nn.Hardtanh(-0.1, 0.3), lambda x: limited(x, -0.1, 0.3)),
    "Hardtanh, far": (nn.Hardtanh(-1e4, 0.1), lambda x: limited(x, -1e4, 0.1)),
    "Tanh": (nn.Tanh(), mpmath.tanh),
    "Softsign": (nn.Softsign(), lambda x: x / (1 + abs(x))),
    "LogSigmoid": (nn.LogSigmoid(), lambda x: -softplus(-x)),
    "Softshrink": (nn.Softshrink(0.1), lambda x: x - limited(x, -0.1, 0.1)),
    "Softshrink, wide": (nn.Softshrink(1e4), lambda x: x - limited(x, -1e4, 1e4)),
    "Sigmoid": (nn.Sigmoid(), sigmoid),
    "Hardsigmoid": (nn.Hardsigmoid(), lambda x: limited(x + 3, 0, 6) / 6),
    "Hardswish": (nn.Hardswish(), lambda x: x * limited(x + 3, 0, 6) / 6),
    "SELU": (nn.SELU(), lambda x: SELU[0] * exponential(x, SELU[1])),
    "GELU": (nn.GELU(), lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2),
    "GELU by tanh": (nn.GELU("tanh"), gelu_by_tanh),
    "SiLU": (nn.SiLU(), lambda x: x * sigmoid(x)),
    "Mish": (nn.Mish(), lambda x: x * mpmath.tanh(softplus(x))),
    "LeakyReLU": (nn.LeakyReLU(0.3), lambda x: x * (1 if x > 0 else mpf(0.3))),
    "LeakyReLU, steep": (nn.LeakyReLU(-10.0), lambda x: x * (1 if x > 0 else -10)),
    "LeakyReLU, tiny": (nn.LeakyReLU(1e-44), lambda x: x * (1 if x > 0 else mpf(1e-44))),
    "ELU": (nn.ELU(), lambda x: exponential(x, 1)),
    "ELU, steep": (nn.ELU(-1e4), lambda x: exponential(x, -1e4)),
    "ELU, tiny": (nn.ELU(1e-7), lambda x: exponential(x, 1e-7)),
    "CELU": (nn.CELU(), lambda x: exponential(x, 1)),
    "CELU, long": (nn.CELU(1e4), lambda x: exponential(x, 1e4, 1e4)),
    "CELU, short": (nn.CELU(1e-4), lambda x: exponential(x, 1e-4, 1e-4)),
    "CELU, of no length": (nn.CELU(1e-37), lambda x: exponential(x, 1e-37, 1e-37)),
    "clamp": (lambda x: x.clamp(-0.1, 0.3), lambda x: limited(x, -0.1, 0.3)),
    "clamp, one side": (lambda x: torch.clamp(x, max=0.3), lambda x: limited(x, -math.inf, 0.3)),
    "hardtanh": (lambda x: functional.hardtanh(x, -0.1, 0.3), lambda x: limited(x, -0.1, 0.3)),
    "sigmoid": (torch.sigmoid, sigmoid),
    "gelu": (functional.gelu, lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2),
    "gelu by tanh": (lambda x: functional.gelu(x, approximate="tanh"), gelu_by_tanh),
    "silu": (functional.silu, lambda x: x * sigmoid(x)),
    "leaky_relu": (lambda x: functional.leaky_relu(x, 3.0), lambda x: x * (1 if x > 0 else 3)),
    "elu": (lambda x: functional.elu(x, 1.7), lambda x: exponential(x, 1.7)),
    "times": (lambda x: 0.3 * x, lambda x: mpf(0.3) * x),
    "divided": (lambda x: x / 0.3, lambda x: x / mpf(0.3)),
    "times, tiny": (lambda x: torch.mul(x, 1e-4), lambda x: mpf(1e-4) * x),
    "divided, tiny": (lambda x: x.div(1e4), lambda x: x / mpf(1e4)),
}
"""The functions that take one number to one number, with the settings at the ends of what is accepted."""


def numbers(dtype: torch.dtype, dense: bool) -> Tensor:
    """Numbers at all scales and their neighbours; all that there are of a type of 16 bits, if ``dense``."""
    if dense and dtype in HALVES:
        bits = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(dtype)
        found = bits[bits.isfinite()]
    else:
        most = 3 if dtype == torch.float16 else 12
        scales = torch.logspace(-12, most, 8000 if dense else 120, dtype=torch.float64)
        places = torch.linspace(0, 180, 40_001 if dense else 181, dtype=torch.float64)
        # Where functions change their formula: limits, and softplus at threshold/beta.
        corners = torch.tensor([0.1, 0.3, 1, 3, 6, 1e4, 34, 80, 160, 272, 640, 700, 5600], dtype=torch.float64)
        found = torch.cat([sign * each for each in (scales, places, corners) for sign in (1, -1)]).to(dtype)
    found = found[found.abs() < torch.finfo(dtype).max / 16]
    around = [torch.nextafter(found, torch.full_like(found, end)) for end in (math.inf, -math.inf)]
    return torch.cat([found, *around]).sort().values


def units(x: Tensor, bound: float) -> Tensor:
    return torch.finfo(x.dtype).eps * x.double().abs().clamp_min(1) * bound


def largest_jump(function: Callable[[Tensor], Tensor], bound: float, dtype: torch.dtype) -> float:
    """By how many units the function changes more between two numbers than the bound allows."""
    x = numbers(dtype, dense=True)
    y = function(x.clone()).double()
    beyond = (y[1:] - y[:-1]).abs() - bound * (x.double()[1:] - x.double()[:-1])
    return float((beyond / units(x[1:], bound)).nan_to_num(math.inf).max())


def largest_deviation(entry: Entry, bound: float, dtype: torch.dtype) -> float:
    """By how many units torch's function differs from the exact formula, which is computed with 50 digits."""
    x = numbers(dtype, dense=False)
    y = entry[0](x.clone()).double().tolist()
    with mpmath.workdps(50):
        apart = [float(abs(mpf(b) - entry[1](mpf(a)))) for a, b in zip(x.double().tolist(), y, strict=True)]
    return float((torch.tensor(apart, dtype=torch.float64) / units(x, bound)).nan_to_num(math.inf).max())


def error(entry: Entry, bound: float, dtype: torch.dtype) -> float:
    """The largest jump or deviation, in units."""
    with torch.no_grad():
        return max(largest_jump(entry[0], bound, dtype), largest_deviation(entry, bound, dtype))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", ONE)
def test_torch_computes_what_is_bounded(name: str, dtype: torch.dtype) -> None:
    bound = lipschitz_bound(Applied(ONE[name][0], dtype), (5,))
    assert error(ONE[name], bound, dtype) <= ALLOWED


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("end", ["least", "most"])
@pytest.mark.parametrize("beta", [0.125, 1.0, 4.0, 1e3])
def test_torch_computes_softplus_where_it_is_bounded(beta: float, end: str, dtype: torch.dtype) -> None:
    threshold = {"least": 20, "most": 80} if dtype != torch.float64 else {"least": 34, "most": 700}
    entry: Entry = (nn.Softplus(beta, threshold[end]), lambda x: softplus(x, beta))
    assert lipschitz_bound(Applied(entry[0], dtype), (5,)) == 1
    assert error(entry, 1.0, dtype) <= ALLOWED


def times(factor: float) -> Callable[[mpf], mpf]:
    return lambda x: mpf(factor) * x


BADLY_COMPUTED: dict[str, tuple[Entry, torch.dtype, float, str]] = {
    "small beta": ((nn.Softplus(1e-6), lambda x: softplus(x, 1e-6)), torch.float32, 1.0, "beta 1e-06"),
    "beta below 1/8": ((nn.Softplus(0.05), lambda x: softplus(x, 0.05)), torch.float32, 1.0, "beta 0.05"),
    "infinite beta": ((nn.Softplus(math.inf), lambda x: max(x, mpf(0))), torch.float32, 1.0, "beta inf"),
    "overflow": ((nn.Softplus(threshold=100), softplus), torch.float32, 1.0, "threshold 100"),
    "never linear": ((nn.Softplus(threshold=math.inf), softplus), torch.float32, 1.0, "threshold inf"),
    "a jump": ((nn.Softplus(threshold=5), softplus), torch.float32, 1.0, "threshold 5"),
    "a jump in float64": ((nn.Softplus(), softplus), torch.float64, 1.0, "threshold 20"),
    "overflow in float64": ((nn.Softplus(1, 720), softplus), torch.float64, 1.0, "threshold 720"),
    "infinite length": ((nn.CELU(math.inf), lambda x: x), torch.float32, 1.0, "alpha inf"),
    "a subnormal factor": ((lambda x: 1e-44 * x, times(1e-44)), torch.float32, 1e-44, "function mul"),
    "a factor of nothing": ((lambda x: 1e-50 * x, times(1e-50)), torch.float32, 1e-50, "function mul"),
    "a large factor": ((lambda x: x * 1e39, times(1e39)), torch.float32, 1e39, "function mul"),
    "a small divisor": ((lambda x: x / 1e-39, times(1e39)), torch.float32, 1e39, "function truediv"),
    "a large divisor": ((lambda x: torch.div(x, 1e39), times(1e-39)), torch.float32, 1e-39, "function div"),
}


@pytest.mark.parametrize("name", BADLY_COMPUTED)
def test_what_torch_computes_badly_is_refused_by_name(name: str) -> None:
    entry, dtype, slope, said = BADLY_COMPUTED[name]
    assert error(entry, slope, dtype) > ALLOWED
    with pytest.raises(ModelError, match=rf"no Lipschitz bound is known for .*{said}.*; give the constant yourself"):
        lipschitz_bound(Applied(entry[0], dtype), (5,))


def normalisation(variance: float, eps: float) -> nn.BatchNorm1d:
    layer = nn.BatchNorm1d(1, eps=eps).eval()
    with torch.no_grad():
        layer.running_var.fill_(variance)  # type: ignore[union-attr]
    return layer


def applied_to_columns(layer: nn.Module) -> Callable[[Tensor], Tensor]:
    return lambda x: layer(x[:, None])[:, 0]


@pytest.mark.parametrize(("variance", "eps"), [(1.0, 1e-5), (0.0, 1e-5), (1e-37, 0.0), (0.0, 1e-37), (1e37, 1e-5)])
def test_torch_computes_normalisation_where_it_is_bounded(variance: float, eps: float) -> None:
    layer = normalisation(variance, eps)
    bound = lipschitz_bound(layer, (1,))
    scale = 1 / mpmath.sqrt(mpf(torch.tensor(variance).item()) + mpf(eps))
    assert error((applied_to_columns(layer), lambda x: scale * x), bound, torch.float32) <= ALLOWED


@pytest.mark.parametrize(("variance", "eps"), [(0.0, 1e-50), (-0.5, 0.5000001), (-1.0, 1e-5), (0.0, 0.0)])
def test_normalisation_that_torch_computes_badly_is_refused(variance: float, eps: float) -> None:
    layer = normalisation(variance, eps)
    scale = 1 / mpmath.sqrt(abs(mpf(variance) + mpf(eps)) + mpf(10) ** -60)
    assert error((applied_to_columns(layer), lambda x: scale * x), float(scale), torch.float32) > ALLOWED
    with pytest.raises(ModelError, match=r"the layer 0 \(BatchNorm1d whose variance"):
        lipschitz_bound(nn.Sequential(layer), (1,))


@pytest.mark.parametrize("slope", [math.nan, math.inf])
def test_a_slope_that_is_no_number_is_refused(slope: float) -> None:
    layer = nn.PReLU()
    layer.weight.data.fill_(slope)
    with pytest.raises(ModelError, match="the weights hold NaN or infinity"):
        lipschitz_bound(nn.Sequential(layer), (5,))


AVERAGES: dict[str, Callable[[Tensor], Tensor]] = {
    "AvgPool2d": nn.AvgPool2d(8),
    "AvgPool2d, overlapping": nn.AvgPool2d(3, 1, 1),
    "AvgPool2d, divided by little": nn.AvgPool2d(16, divisor_override=1),
    "AvgPool2d, divided by much": nn.AvgPool2d(16, divisor_override=10**15),
    "AdaptiveAvgPool2d": nn.AdaptiveAvgPool2d(1),
    "mean": lambda x: x.mean((2, 3)),
}


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("name", AVERAGES)
def test_torch_computes_averages_in_proportion_to_their_numbers(name: str, scale: float) -> None:
    x = scale * torch.randn(8, 2, 16, 16, generator=torch.Generator().manual_seed(0))
    bound = lipschitz_bound(Applied(AVERAGES[name]), (2, 16, 16))
    apart = (AVERAGES[name](x).double() - AVERAGES[name](x.double())).flatten(1).norm(dim=1)
    assert float((apart / units(x.flatten(1).norm(dim=1), bound)).max()) <= ALLOWED


LINEAR = {
    nn.Linear, nn.Conv2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d,
    nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout, nn.Dropout2d, nn.ZeroPad2d, nn.PixelShuffle, nn.PixelUnshuffle,
}  # fmt: skip
"""Layers that sum and move numbers. Their rounding is in proportion to what they add up, at every point alike."""
EXACT = {nn.MaxPool2d, nn.PReLU}
"""Layers that choose among numbers, or multiply one by a weight."""
FUNCTIONS_OF_LAYERS = {"relu", "relu_", "relu6", "tanh", "adaptive_avg_pool2d", "avg_pool2d", "max_pool2d", "softplus"}
LINEAR_FUNCTIONS = {
    "flatten", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "neg", "view", "contiguous", "float",
    "double", "clone", "add", "add_", "sub", "sub_", "iadd", "isub", "mean", "pixel_shuffle", "pixel_unshuffle", "cat",
    "getitem", "pad", "_pad", "dropout", "repeat",
}  # fmt: skip
MEASURED = {
    "clamp", "hardtanh", "sigmoid", "gelu", "silu", "leaky_relu", "elu", "mul", "mul_", "imul", "truediv", "div",
}  # fmt: skip


def test_every_rule_is_measured_or_linear() -> None:
    kinds = {type(entry[0]) for entry in ONE.values() if isinstance(entry[0], nn.Module)}
    assert set(LAYERS) == kinds | LINEAR | EXACT | {nn.Softplus}
    names = {*METHODS, *(getattr(one, "__name__", str(one)) for one in FUNCTIONS)}
    assert names - MEASURED - LINEAR_FUNCTIONS == names & FUNCTIONS_OF_LAYERS
