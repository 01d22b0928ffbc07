"""Random networks of ordinary torch code, run fast and as they are on the same noise, at inputs where they differ most.

A network is a chain: steps on images or vectors, a linear head, and steps on logits. Each step is an *ingredient* with
a name. Some ingredients make the network something else than a function of each row; these are marked with what the
logits then depend on: the batch, chance, or earlier calls.

``python -m tests.engine.fuzzing FIRST [STOP]`` examines the networks of these seeds and prints what was found.
"""

# mypy: disable-error-code="no-any-return,no-untyped-call,operator,union-attr,arg-type,assignment,attr-defined,index"

from __future__ import annotations

import copy
import itertools
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize

from lvmrs import Cohen, Duels, SmoothedClassifier
from lvmrs.engine import samplers
from lvmrs.engine.tuning import Tuned
from lvmrs.engine.way import Way
from lvmrs.errors import ModelError
from lvmrs.kernel.certificate import Certificate
from lvmrs.kernel.noise import Stage, Stream

__all__ = [
    "NOT_FUNCTIONS", "ON_ANYTHING", "ON_IMAGES", "ON_LOGITS", "ON_VECTORS", "Fuzzed", "Outcome", "examine", "fuzzed",
    "summary", "unexplained",
]  # fmt: skip

Draw = random.Random
Code = Callable[[Any, Tensor], Tensor]
Fault = Literal["", "batch", "chance", "calls"]

SHAPES = [(3, 8, 8), (1, 6, 6), (2, 5, 7), (12,)]
TERMS: dict[str, Any] = {"n0": 50, "n": 300, "alpha": 0.01}
BATCH = 64
ROWS_COMPARED = 3  # rows of each certificate that are compared with the model again, at least, for these terms
EPS = torch.finfo(torch.float32).eps
_COPIES = 16  # noisy copies of each input between two others
_APART = 1e6  # squared units of rounding that are more than rounding, usually


# --- Ingredients ------------------------------------------------------------------------------------------------------


class Step(nn.Module):
    """A step from a function; what it holds are layers, parameters, buffers (plain tensors) and Python values."""

    def __init__(self, code: Code, **held: Any) -> None:
        super().__init__()
        self.code = code
        for name, value in held.items():
            if type(value) is Tensor:
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, x: Tensor) -> Tensor:
        return self.code(self, x)


class Doubled(nn.Conv2d):
    """A layer that is not what its base class is."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class Shifted(nn.BatchNorm2d):
    """A normalisation that is not what its base class is."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x


class Steep(nn.Module):
    """A parametrization that is not torch's."""

    def forward(self, weight: Tensor) -> Tensor:
        return weight + weight.abs().mean()


class Optional(nn.Module):
    """A network with arguments that nobody gives."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor, mask: Tensor | None = None, *, scale: float = 1.5) -> Tensor:
        return scale * self.inner(x if mask is None else x * mask)


def conv(c: int, **settings: Any) -> nn.Conv2d:
    return nn.Conv2d(c, c, 3, padding=1, **settings)


def norm(c: int, kind: Any = nn.BatchNorm2d, **settings: Any) -> Any:
    """Normalisation with random statistics and factors."""
    made = kind(c, **settings)
    if made.running_mean is not None:
        made.running_mean.normal_()
        made.running_var.uniform_(0.2, 3)
    if made.affine:
        nn.init.normal_(made.weight, std=1.5)
        nn.init.normal_(made.bias)
    return made


def _tied_layers(draw: Draw, c: int) -> nn.Module:
    first, second = conv(c), conv(c, bias=draw.random() < 0.5)
    second.weight = first.weight
    return Step(lambda m, x: m.norm(m.first(x)).relu() + m.second(x), first=first, second=second, norm=norm(c))


def _tied_norms(draw: Draw, c: int) -> nn.Module:
    first, second = norm(c), norm(c)
    second.weight, second.running_mean = first.weight, first.running_mean
    held = {"a": conv(c), "b": conv(c), "first": first, "second": second}
    return Step(lambda m, x: m.first(m.a(x)) + m.second(m.b(x)) + m.first.running_var.view(-1, 1, 1), **held)


def _alias(draw: Draw, c: int) -> nn.Module:
    layer = conv(c)
    return Step(lambda m, x: m.norm(m.one(x)) + m.other(x).tanh(), one=layer, other=layer, norm=norm(c))


def _listed(draw: Draw, c: int) -> nn.Module:
    layer = conv(c)
    return Step(
        lambda m, x: m.norm(m.layers[0](x)) + x * m.weights[0].mean(),
        layers=nn.ModuleList([layer]), weights=[layer.weight], norm=norm(c),
    )  # fmt: skip


def _closure(draw: Draw, c: int) -> nn.Module:
    layer = conv(c)
    return Step(lambda m, x: m.norm(m.conv(x)) + layer.weight.mean() * x, conv=layer, norm=norm(c))


def _plain_attribute(draw: Draw, c: int) -> nn.Module:
    made = Step(lambda m, x: m.norm(m.conv(x)) * m.scale, conv=conv(c), norm=norm(c))
    object.__setattr__(made, "scale", torch.randn(c, 1, 1))
    return made


def _hooked(draw: Draw, c: int) -> nn.Module:
    made = nn.Sequential(conv(c), norm(c))
    made[0].register_forward_hook(lambda module, given, answer: answer * 2)
    return made


def _pre_hooked(draw: Draw, c: int) -> nn.Module:
    made = nn.Sequential(conv(c), norm(c))
    made[1].register_forward_pre_hook(lambda module, given: (given[0].relu(),))
    return made


def _parametrized(draw: Draw, c: int) -> nn.Module:
    layer = conv(c)
    match draw.randrange(3):
        case 0:
            layer = parametrizations.weight_norm(layer)
        case 1:
            layer = parametrizations.spectral_norm(layer)
        case _:
            parametrize.register_parametrization(layer, "weight", Steep())
    return nn.Sequential(layer, norm(c), nn.ReLU())


def _attention(m: Any, x: Tensor) -> Tensor:
    rows, channels, high, wide = x.shape
    tokens = x.flatten(2).transpose(1, 2)
    asked, known, value = m.project(tokens).chunk(3, dim=-1)
    weights = asked @ known.mT / channels**0.5
    if m.causal:
        later = torch.ones(high * wide, high * wide).triu(1).bool()
        weights = weights.masked_fill(later, -1e9)
    return x + (weights.softmax(-1) @ value).transpose(1, 2).reshape(rows, channels, high, wide)


def _into_views(m: Any, x: Tensor) -> Tensor:
    x = m.conv(x)
    first = x[:, 0]
    first += 5 * (first > 0.5)
    return m.norm(x)


def _in_place(m: Any, x: Tensor) -> Tensor:
    hidden = m.norm(m.conv(x))
    hidden += x
    hidden.mul_(0.5).add_(1.0)
    functional.relu(hidden, inplace=True)
    hidden[:, 0] = 0.25
    return hidden


def _changed_input(m: Any, x: Tensor) -> Tensor:
    hidden = m.conv(x)
    x.clamp_(min=0)
    return m.norm(hidden) + x


def _before_norm(m: Any, x: Tensor) -> Tensor:
    hidden = m.conv(x)
    hidden.relu_()
    return m.norm(hidden)


def _given_out(m: Any, x: Tensor) -> Tensor:
    hidden = m.norm(m.conv(x))
    out = torch.empty_like(x)
    torch.add(hidden, x, out=out)
    return out


def _strided(m: Any, x: Tensor) -> Tensor:
    rows, c, high, wide = x.shape
    hidden = m.norm(m.conv(x))
    return hidden.as_strided((rows, c, high, wide), (c * high * wide, high * wide, wide, 1)) * m.scale


def _by_stride(m: Any, x: Tensor) -> Tensor:
    hidden = m.norm(m.conv(x))
    return hidden.flip(1) if hidden.stride(1) == 1 and hidden.stride(3) != 1 else hidden


def _by_layout(m: Any, x: Tensor) -> Tensor:
    hidden = m.norm(m.conv(x))
    return hidden if hidden.is_contiguous() else -hidden


def _weight_strided(m: Any, x: Tensor) -> Tensor:
    c = m.conv.weight.shape[0]
    return m.norm(m.conv(x)) + m.conv.weight.as_strided((c, 1, 1), (1, 1, 1)) * x


def _buffer_strided(m: Any, x: Tensor) -> Tensor:
    c, high, wide = m.table.shape[1:]
    return m.norm(m.conv(x)) + m.table.as_strided((c, high, wide), (high * wide, wide, 1)) * x


def _reshaped(m: Any, x: Tensor) -> Tensor:
    rows, c, high, wide = x.shape
    return m.norm(m.conv(x).permute(0, 2, 3, 1).reshape(rows, c, high, wide))


def _rows_one_by_one(m: Any, x: Tensor) -> Tensor:
    return torch.stack([m.norm(m.conv(row[None]))[0] for row in x])


def _unpacked(m: Any, x: Tensor) -> Tensor:
    rows, c, high, wide = x.size()
    assert c > 1, "no images"
    grid = torch.linspace(-1, 1, wide).expand(high, wide)
    return m.norm(m.conv(x + grid)).view(rows, c, -1).reshape(rows, c, high, wide)


def _cached(m: Any, x: Tensor) -> Tensor:
    shape = tuple(x.shape[1:])
    if shape not in m.tables:
        m.tables[shape] = torch.linspace(-1, 1, shape[-1])
    return m.norm(m.conv(x)) + m.tables[shape]


def _rare_second_reader(draw: Draw, c: int) -> nn.Module:
    bound, big = draw.choice([0.3, 0.6, 1.2, 2.5]), draw.choice([3.0, 30.0])

    def code(m: Any, x: Tensor) -> Tensor:
        other = functional.conv2d(x, 0 + m.conv.weight, padding=1)
        return m.norm(m.conv(x)) + big * functional.relu(other.mean((1, 2, 3), keepdim=True) - bound) * m.sign

    return Step(code, conv=conv(c), norm=norm(c), sign=torch.randn(c, 1, 1))


Build = Callable[[Draw, int], nn.Module]
"""Makes a step for so many channels, entries or classes; a step that fits anywhere, for so many dimensions."""


def _written(code: Code, **more: Callable[[int], Any]) -> Build:
    """A step that has a convolution and a normalisation, and what else is named."""

    def build(draw: Draw, c: int) -> nn.Module:
        return Step(
            code, conv=conv(c, bias=draw.random() < 0.6), norm=norm(c), **{name: make(c) for name, make in more.items()}
        )

    return build


ON_IMAGES: dict[str, Build] = {
    "conv, norm": lambda draw, c: nn.Sequential(
        conv(c, groups=draw.choice([1, 2, c]), padding_mode=draw.choice(["zeros", "circular"])),
        norm(c, affine=draw.random() < 0.7, eps=draw.choice([1e-5, 1e-2, 1.0])),
        draw.choice([nn.ReLU(), nn.GELU(), nn.ReLU(inplace=True), nn.PReLU(c), nn.Hardswish(), nn.Tanh()]),
    ),
    "transposed conv, norm": lambda draw, c: nn.Sequential(
        nn.ConvTranspose2d(c, c, 3, 1, 1, groups=draw.choice([1, 2])), norm(c), nn.SiLU()
    ),
    "conv twice, two norms": lambda draw, c: Step(
        lambda m, x: m.first(m.conv(x)).relu() + m.second(m.conv(x)), conv=conv(c), first=norm(c), second=norm(c)
    ),
    "one norm, two convs": lambda draw, c: Step(
        lambda m, x: m.norm(m.a(x)).relu() + m.norm(m.b(x)), a=conv(c), b=conv(c), norm=norm(c)
    ),
    "conv1d, norm": lambda draw, c: Step(
        lambda m, x: m.norm(m.conv(x.flatten(2))).reshape(x.shape).relu(),
        conv=nn.Conv1d(c, c, 3, padding=1), norm=norm(c, nn.BatchNorm1d),
    ),
    "transposed conv1d, norm": lambda draw, c: Step(
        lambda m, x: m.norm(m.conv(x.flatten(2))).reshape(x.shape).relu(),
        conv=nn.ConvTranspose1d(c, c, 3, padding=1, groups=2), norm=norm(c, nn.BatchNorm1d),
    ),
    "conv3d, norm": lambda draw, c: Step(
        lambda m, x: m.norm(m.conv(x[:, None])).mean(1).relu(),
        conv=nn.Conv3d(1, 2, 3, padding=1), norm=norm(2, nn.BatchNorm3d),
    ),
    "linear of channels, norm": lambda draw, c: Step(
        lambda m, x: m.norm(m.linear(x.permute(0, 2, 3, 1))[:, :, 0]).mean(1)[:, :, None, None] + x,
        linear=nn.Linear(c, c), norm=nn.LayerNorm(c),
    ),
    "linear of three dimensions, norm": lambda draw, c: Step(
        lambda m, x: x + m.norm(m.linear(x.flatten(2)[:, :, :c]))[:, :, :1, None],
        linear=nn.Linear(c, c), norm=norm(c, nn.BatchNorm1d),
    ),
    "functional conv, norm": _written(
        lambda m, x: m.norm(functional.conv2d(x, m.conv.weight, m.conv.bias, padding=1)).relu()
    ),
    "functional conv, by name": _written(
        lambda m, x: m.norm(functional.conv2d(weight=m.conv.weight, input=x, padding="same", stride=1))
    ),
    "functional conv and layer": _written(
        lambda m, x: m.norm(m.conv(x)).relu() + functional.conv2d(x, m.conv.weight, padding=1)
    ),
    "functional conv and its weight": _written(
        lambda m, x: m.norm(functional.conv2d(x, m.conv.weight, padding=1)) + x * m.conv.weight.std()
    ),
    "tied decoder": _written(
        lambda m, x: x + functional.conv_transpose2d(m.norm(m.conv(x)).relu(), m.conv.weight, padding=1)
    ),
    "weight plus zero": _written(lambda m, x: m.norm(m.conv(x)) + functional.conv2d(x, 0 + m.conv.weight, padding=1)),
    "weight detached": _written(
        lambda m, x: m.norm(m.conv(x)) + functional.conv2d(x, m.conv.weight.detach().flip(0), padding=1)
    ),
    "weight's data": _written(lambda m, x: m.norm(m.conv(x)) + functional.conv2d(x, m.conv.weight.data, padding=1)),
    "weight as gate": _written(lambda m, x: m.norm(m.conv(x)) * m.conv.weight.mean().mul(9).sigmoid()),
    "weight as rare gate": _rare_second_reader,
    "norm's factors read": _written(
        lambda m, x: m.norm(m.conv(x)) + x * m.norm.weight.mean() - m.norm.running_mean[:, None, None]
    ),
    "weight in two layers": _tied_layers,
    "norms that share": _tied_norms,
    "layer under two names": _alias,
    "weight in a list": _listed,
    "weight in a closure": _closure,
    "a tensor as attribute": _plain_attribute,
    "functional norm": _written(
        lambda m, x: functional.batch_norm(
            m.conv(x), m.norm.running_mean, m.norm.running_var, m.norm.weight, m.norm.bias, False, 0.1, 0.01
        )
    ),
    "a hook": _hooked,
    "a pre-hook": _pre_hooked,
    "parametrized": _parametrized,
    "a layer of one's own": lambda draw, c: nn.Sequential(Doubled(c, c, 3, padding=1), norm(c), nn.ReLU()),
    "a norm of one's own": lambda draw, c: nn.Sequential(conv(c), norm(c, Shifted), nn.ReLU()),
    "default arguments": lambda draw, c: Optional(nn.Sequential(conv(c), norm(c))),
    "group norm": lambda draw, c: nn.Sequential(conv(c), nn.GroupNorm(2, c), nn.ELU()),
    "instance norm": _written(lambda m, x: functional.instance_norm(m.conv(x)) + m.norm(x)),
    "attention": lambda draw, c: Step(_attention, project=nn.Linear(c, 3 * c), causal=draw.random() < 0.5),
    "into views": _written(_into_views),
    "in place": _written(_in_place),
    "input changed in place": _written(_changed_input),
    "changed before norm": _written(_before_norm),
    "out=": _written(_given_out),
    "as_strided": _written(_strided, scale=lambda c: torch.randn(c, 1, 1)),
    "by stride": _written(_by_stride),
    "by layout": _written(_by_layout),
    "weight as_strided": _written(_weight_strided),
    "buffer as_strided": _written(_buffer_strided, table=lambda c: torch.randn(1, c, 1, 1)),
    "reshaped": _written(_reshaped),
    "channels last": _written(
        lambda m, x: m.norm(m.conv(x).contiguous(memory_format=torch.channels_last)).contiguous()
    ),
    "unfold": _written(lambda m, x: m.norm(m.conv(x)) + functional.pad(x, (1, 0)).unfold(3, 2, 1).amax(-1)),
    "patches": _written(
        lambda m, x: m.norm((m.conv.weight.flatten(1) @ functional.unfold(x, 3, padding=1)).reshape(x.shape))
    ),
    "transposed twice": _written(lambda m, x: m.norm(m.conv(x.transpose(2, 3)).contiguous()).mT.relu().contiguous()),
    "rows one by one": _written(_rows_one_by_one),
    "unpacked shapes": _written(_unpacked),
    "a cache": _written(_cached, tables=lambda c: {}),
    "padded, pooled": _written(
        lambda m, x: functional.max_pool2d(functional.pad(m.norm(m.conv(x)), (1, 1, 1, 1), mode="replicate"), 3, 1)
    ),
    "interpolated": _written(
        lambda m, x: functional.interpolate(functional.avg_pool2d(m.norm(m.conv(x)), 2), size=x.shape[2:])
    ),
    "channels sorted": _written(lambda m, x: m.norm(m.conv(x)).sort(dim=1).values + x.roll(1, 1)),
    "channels chosen": _written(
        lambda m, x: m.norm(m.conv(x))[:, m.order] + x.cumsum(1), order=lambda c: torch.randperm(c)
    ),
    "dropout off": lambda draw, c: nn.Sequential(conv(c), nn.Dropout(0.5), norm(c), nn.Dropout2d(0.5)),
}  # fmt: skip


def _linear_norm(draw: Draw, d: int) -> nn.Module:
    return nn.Sequential(nn.Linear(d, d, bias=draw.random() < 0.6), norm(d, nn.BatchNorm1d), nn.ReLU())


def _of_linear(code: Code) -> Build:
    return lambda draw, d: Step(
        code, linear=nn.Linear(d, d, bias=draw.random() < 0.6), norm=norm(d, nn.BatchNorm1d), gate=nn.Linear(d, 1)
    )


ON_VECTORS: dict[str, Build] = {
    "linear, norm": _linear_norm,
    "tied linear decoder": _of_linear(
        lambda m, x: x + functional.linear(m.norm(m.linear(x)).relu(), m.linear.weight.t())
    ),
    "linear weight plus zero": _of_linear(lambda m, x: m.norm(m.linear(x)) + x @ (0 + m.linear.weight)),
    "linear weight .T": _of_linear(lambda m, x: m.norm(x @ m.linear.weight.T).relu() + m.linear(x)),
    "functional linear": _of_linear(lambda m, x: m.norm(functional.linear(x, m.linear.weight, m.linear.bias)).relu()),
    "linear weight as gate": _of_linear(lambda m, x: m.norm(m.linear(x)) * m.linear.weight.abs().mean()),
    "linear as rare gate": _of_linear(
        lambda m, x: m.norm(m.linear(x)) + 9 * functional.relu((x @ m.linear.weight.view(8, 8)).mean(1, True) - 1)
    ),
    "gate per row": _of_linear(lambda m, x: m.norm(m.linear(x)) * (m.gate(x) > 0).float() + x),
    "linear and einsum": _of_linear(lambda m, x: m.norm(m.linear(x)) + torch.einsum("nd,ed->ne", x, m.linear.weight)),
    "conv1d of vectors": lambda draw, d: Step(
        lambda m, x: m.norm(m.conv(x[:, None])).mean(1),
        conv=nn.Conv1d(1, 3, 3, padding=1), norm=norm(3, nn.BatchNorm1d),
    ),
    "linear of tokens, norm": lambda draw, d: Step(
        lambda m, x: m.norm(m.linear(x[:, :, None].expand(-1, -1, 4))).mean(2),
        linear=nn.Linear(4, 4), norm=norm(d, nn.BatchNorm1d),
    ),
    "layer norm": lambda draw, d: nn.Sequential(nn.Linear(d, d), nn.LayerNorm(d), nn.Mish()),
}  # fmt: skip


def _cast(draw: Draw, dims: int) -> nn.Module:
    kind = draw.choice([torch.float64, torch.float64, torch.bfloat16, torch.float16])
    return Step(lambda m, x: (x.to(m.kind) * 1.5).to(x.dtype), kind=kind)


def _rare_gate(draw: Draw, dims: int) -> nn.Module:
    bound, big, each = draw.choice([0.5, 1.0, 2.0, 4.0]), draw.choice([10.0, 1e3]), tuple(range(1, dims))
    return Step(lambda m, x: x + big * functional.relu(x.mean(each, keepdim=True) - bound) * x.tanh())


def _filled(m: Any, x: Tensor) -> Tensor:
    made = torch.zeros_like(x)
    made.copy_(x).masked_fill_(x < -1, 0.0)
    return made


def _chunks(m: Any, x: Tensor) -> Tensor:
    parts = list(x.split(1, dim=1))
    parts[0] = parts[0].clone().mul_(2)
    return torch.cat(parts[1:] + parts[:1], dim=1)


def _asking(m: Any, x: Tensor) -> Tensor:
    return x.clamp(-1, 1) if isinstance(x, Tensor) else x


def _trying(m: Any, x: Tensor) -> Tensor:
    try:
        each = x.unbind(0)
    except RuntimeError:
        return x
    return torch.stack([row * 1.5 for row in each])


def _by_mode(m: Any, x: Tensor) -> Tensor:
    return x.flip(1) if torch.is_inference_mode_enabled() else x


ON_ANYTHING: dict[str, Build] = {
    "rare gate": _rare_gate,
    "sign": lambda draw, dims: Step(lambda m, x: x + 0.5 * x.sign()),
    "step": lambda draw, dims: Step(
        lambda m, x: torch.where(x > m.bound, x, -0.3 * x), bound=draw.choice([0.0, 1.0, 3.0])
    ),
    "floor": lambda draw, dims: Step(lambda m, x: (4 * x).floor() / 4 + 0.1 * x),
    "masked": lambda draw, dims: Step(lambda m, x: x.masked_fill(x < -0.5, -0.5) + (x > 2) * 3.0),
    "clamped": lambda draw, dims: Step(lambda m, x: x.clamp(-2, 2) + 0.01 * x.pow(3).clamp(-9, 9)),
    "cast": _cast,
    "data": lambda draw, dims: Step(lambda m, x: x + 0.5 * x.data.tanh()),
    "filled": lambda draw, dims: Step(_filled),
    "chunks": lambda draw, dims: Step(_chunks),
    "flat and back": lambda draw, dims: Step(lambda m, x: x.contiguous().view(-1).mul(1.5).view(x.shape)),
    "constants": lambda draw, dims: Step(lambda m, x: (x - torch.tensor(0.3)) / 0.7 + torch.arange(3.0).sum() * 0.1),
    "normalised rows": lambda draw, dims: Step(lambda m, x: functional.normalize(x.flatten(1)).reshape(x.shape) * 4),
    "asks for a tensor": lambda draw, dims: Step(_asking),
    "tries": lambda draw, dims: Step(_trying),
    "by inference mode": lambda draw, dims: Step(_by_mode),
    "dead units": lambda draw, dims: Step(lambda m, x: 0.3 * x + 20 * functional.relu(x - 2.5)),
    "identity": lambda draw, dims: nn.Identity(),
}


# What makes a network something else than a function of each row.


def _majority(m: Any, x: Tensor) -> Tensor:
    return x + m.big * (x - x.median(dim=0, keepdim=True).values)


def _wide_batch(m: Any, x: Tensor) -> Tensor:
    return x if len(x) <= 8 else x.flip(1)


def _first_row(m: Any, x: Tensor) -> Tensor:
    return torch.cat([x[:1], x[1:] + x[:1]])


def _by_sum(m: Any, x: Tensor) -> Tensor:
    return x if x.sum() > 0 else x.flip(1)


def _batch_norm(draw: Draw) -> nn.Module:
    return Step(
        lambda m, x: functional.batch_norm(x, None, None, training=True) if len(x) > 1 else x - x.mean(1, keepdim=True)
    )


def _tossed(m: Any, x: Tensor) -> Tensor:
    return x * (2.0 if random.random() < 0.5 else -1.0)  # noqa: S311


def _counted(m: Any, x: Tensor) -> Tensor:
    m.calls = m.calls + 1
    return x if m.calls <= m.after else x.flip(1)


def _buffered(m: Any, x: Tensor) -> Tensor:
    m.total += 1
    return x + torch.where(m.total > m.after, 3.0, 0.0) * x.flip(1)


def _appended(m: Any, x: Tensor) -> Tensor:
    m.seen.append(len(x))
    return x if len(m.seen) <= m.after else x.flip(1)


def _iterated(m: Any, x: Tensor) -> Tensor:
    return x if next(m.counter) < m.after else x.flip(1)


def _averaged(m: Any, x: Tensor) -> Tensor:
    m.mean.mul_(0.5).add_(x.detach().mean() * 0.5)
    return x + 3 * m.mean * x.flip(1)


def _first_seen(m: Any, x: Tensor) -> Tensor:
    if m.last is None:
        m.last = x.detach()[:1].clone()
    before, m.last = m.last, x.detach()[:1].clone()
    return x + before


def _closed_over(draw: Draw) -> nn.Module:
    calls, after = [0], draw.choice([3, 20, 45, 60])

    def code(m: Any, x: Tensor) -> Tensor:
        calls[0] += 1
        return x if calls[0] <= after else x.flip(1)

    return Step(code)


def _calls(code: Code, **held: Callable[[], Any]) -> Callable[[Draw], nn.Module]:
    def build(draw: Draw) -> nn.Module:
        return Step(code, after=draw.choice([3, 20, 45, 60]), **{name: make() for name, make in held.items()})

    return build


NOT_FUNCTIONS: dict[Fault, dict[str, Callable[[Draw], nn.Module]]] = {
    "batch": {
        "minus the batch": lambda draw: Step(lambda m, x: x - m.part * x.mean(0), part=draw.choice([0.2, 1.0])),
        "majority": lambda draw: Step(_majority, big=draw.choice([1.0, 9.0])),
        "batch norm": _batch_norm,
        "sorted over the batch": lambda draw: Step(lambda m, x: x.sort(dim=0).values),
        "softmax over the batch": lambda draw: Step(lambda m, x: x.softmax(0) * len(x)),
        "rolled": lambda draw: Step(lambda m, x: x + x.roll(1, 0)),
        "summed": lambda draw: Step(lambda m, x: x + x.cumsum(0)),
        "scaled by the batch": lambda draw: Step(lambda m, x: x.tanh() + x / x.norm()),
        "first row": lambda draw: Step(_first_row),
        "wide batches": lambda draw: Step(_wide_batch),
        "sign of the sum": lambda draw: Step(_by_sum),
    },
    "chance": {
        "dropout": lambda draw: Step(
            lambda m, x: functional.dropout(x, m.share, training=True), share=draw.choice([0.1, 0.5])
        ),
        "noise": lambda draw: Step(lambda m, x: x + m.size * torch.randn_like(x), size=draw.choice([0.1, 1.0])),
        "noise of a constant": lambda draw: Step(lambda m, x: x + torch.rand(x.shape[1:])),
        "a toss": lambda draw: Step(_tossed),
        "chance of NumPy": lambda draw: Step(lambda m, x: x * float(np.random.rand())),  # noqa: NPY002
        "bernoulli": lambda draw: Step(lambda m, x: x * torch.bernoulli(torch.full_like(x, 0.8))),
    },
    "calls": {
        "counts in Python": _calls(_counted, calls=lambda: 0),
        "counts in a buffer": _calls(_buffered, total=lambda: torch.zeros(())),
        "appends to a list": _calls(_appended, seen=list),
        "counts in a closure": _closed_over,
        "an iterator": _calls(_iterated, counter=itertools.count),
        "running mean": _calls(_averaged, mean=lambda: torch.zeros(())),
        "the row before": _calls(_first_seen, last=lambda: None),
    },
}  # fmt: skip


def _masked_class(draw: Draw, k: int) -> nn.Module:
    hidden = torch.zeros(k, dtype=torch.bool)
    hidden[draw.randrange(k)] = True
    least = draw.choice([-1e9, -1e9, -1e4, -1e30])
    if draw.random() < 0.5:
        return Step(lambda m, x: x.masked_fill(m.hidden, m.least), hidden=hidden, least=least)
    return Step(lambda m, x: torch.where(m.hidden, m.least, x), hidden=hidden, least=least)


def _offset(draw: Draw, k: int) -> nn.Module:
    offset = torch.zeros(k)
    offset[draw.randrange(k)] = draw.choice([-1e9, -1e6, -100.0, 1e4])
    return Step(lambda m, x: x + m.offset, offset=offset)


ON_LOGITS: dict[str, Build] = {
    "masked class": _masked_class,
    "class with an offset": _offset,
    "scaled": lambda draw, k: Step(lambda m, x: m.scale * x, scale=draw.choice([1e9, 1e-6, 100.0, 1e-3])),
    "log_softmax": lambda draw, k: nn.LogSoftmax(dim=1),
    "softmax": lambda draw, k: Step(lambda m, x: x.div(m.temperature).softmax(-1), temperature=draw.choice([0.1, 1.0])),
    "constant for all": lambda draw, k: Step(lambda m, x: x + 1e4),
    "padded class": lambda draw, k: Step(lambda m, x: functional.pad(x, (0, 1), value=-1e9)),
}


# --- Networks ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fuzzed:
    """A random network, which can be made again."""

    seed: int
    shape: tuple[int, ...]
    sigma: float
    ingredients: tuple[str, ...]
    fault: Fault
    """What else than each row the logits depend on; empty for a function of each row."""
    channels_last: bool
    """Whether its fast version is to run with channels last."""
    kind: torch.dtype
    """The precision of its weights and inputs."""

    def make(self) -> nn.Module:
        """The network, the same each time, with weights and state of its own."""
        return _built(self.seed)[1]

    def __str__(self) -> str:
        how = f"{', channels last' if self.channels_last else ''}{', float64' if self.kind == torch.float64 else ''}"
        return f"seed {self.seed}, {self.shape}, σ = {self.sigma}{how}: {' → '.join(self.ingredients)}"


def fuzzed(seed: int) -> Fuzzed:
    """The random network of a seed."""
    return _built(seed)[0]


def _built(seed: int) -> tuple[Fuzzed, nn.Module]:
    draw = Draw(seed)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        return _chain(seed, draw)


def _chain(seed: int, draw: Draw) -> tuple[Fuzzed, nn.Module]:
    shape, classes, sigma = draw.choice(SHAPES), draw.randint(2, 5), draw.choice([0.12, 0.25, 0.5, 1.0])
    names, steps = list[str](), list[nn.Module]()

    def add(name: str, step: nn.Module) -> None:
        names.append(name)
        steps.append(step)

    if len(shape) == 3:
        width = draw.choice([4, 6])
        add("stem", nn.Conv2d(shape[0], width, 3, padding=1, stride=draw.choice([1, 2])))
        _add(add, draw, ON_IMAGES, width, 4)
        if draw.random() < 0.5:
            add("pool", nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten()))
        else:
            add(
                "flatten",
                draw.choice([nn.Flatten(), Step(lambda m, x: x.view(x.size(0), -1)), Step(lambda m, x: x.flatten(1))]),
            )
    with torch.random.fork_rng(devices=[]):
        features = nn.Sequential(*steps).eval()(torch.zeros(2, *shape)).shape[1]
    width = 8
    add("linear", nn.Linear(features, width))
    if len(shape) == 1 or draw.random() < 0.5:
        _add(add, draw, ON_VECTORS, width, 2)
    head = nn.Linear(width, classes)
    trunk = nn.Sequential(*steps, head).eval()
    if draw.random() < 0.2 and _tied(trunk, draw):
        names[0] += " (a weight is tied)"
    _spread_out(trunk, head, shape, sigma)
    add("head", head)
    fault: Fault = ""
    if draw.random() < 0.25:
        fault = draw.choice(["batch", "chance", "calls"])
        name = draw.choice(list(NOT_FUNCTIONS[fault]))
        place = draw.choice([0, len(steps), draw.randrange(len(steps) + 1)])
        names.insert(place, name)
        steps.insert(place, NOT_FUNCTIONS[fault][name](draw))
    for name in draw.sample(list(ON_LOGITS), draw.choice([0, 0, 1, 1, 2])) if draw.random() < 0.7 else ["masked class"]:
        add(name, ON_LOGITS[name](draw, classes))
    kind = draw.choice([torch.float64, *[torch.float32] * 9])
    network = nn.Sequential(*steps).eval().to(kind)
    return Fuzzed(seed, shape, sigma, tuple(names), fault, draw.random() < 0.5, kind), network


def _add(add: Callable[[str, nn.Module], None], draw: Draw, table: dict[str, Build], width: int, dims: int) -> None:
    """One or two steps of a table, and sometimes one that fits anywhere after them."""
    for _ in range(draw.choice([1, 1, 2])):
        name = draw.choice(list(table))
        add(name, table[name](draw, width))
        if draw.random() < 0.3:
            name = draw.choice(list(ON_ANYTHING))
            add(name, ON_ANYTHING[name](draw, dims))


def _tied(network: nn.Module, draw: Draw) -> bool:
    """Give two layers of a network the same weight, if two fit."""
    layers = [each for each in network.modules() if type(each) in (nn.Conv2d, nn.Linear)]
    pairs = [(a, b) for a, b in itertools.combinations(layers, 2) if a.weight.shape == b.weight.shape]
    if pairs:
        first, second = draw.choice(pairs)
        second.weight = first.weight
    return bool(pairs)


def _spread_out(trunk: nn.Module, head: nn.Linear, shape: tuple[int, ...], sigma: float) -> None:
    """Scale and shift logits, so that noisy copies of an input of the middle have different classes."""
    logits = trunk(0.5 + max(sigma, 0.3) * torch.randn(64, *shape))
    scale = logits.std().clamp(min=1e-3)
    head.weight.div_(scale)
    head.bias.sub_(logits.mean(0)).div_(scale)


# --- Fast and as it is ------------------------------------------------------------------------------------------------


@contextmanager
def _without_trials(channels_last: bool) -> Iterator[None]:
    """Choose how models are run without measuring: one thread, the batch that is given, and this layout."""

    def way(fast: Any, x: Tensor, batch: int | None, threads: int) -> Tuned:
        return Tuned(fast.way(batch or BATCH, channels_last=channels_last), 1e-4)

    def batch(run: Any, x: Tensor, threads: int) -> Tuned:
        return Tuned(Way(BATCH), 1e-4)

    with (
        mock.patch.object(samplers, "chosen_way", way),
        mock.patch.object(samplers, "chosen_batch", batch),
        mock.patch.object(samplers, "cores", return_value=1),
    ):
        yield


def smoothed(model: nn.Module, one: Fuzzed, *, fast: bool, batch: int = BATCH) -> SmoothedClassifier:
    """A smoothed classifier whose way to run is chosen when it gets its first input, within ``_without_trials``."""
    return SmoothedClassifier(model, one.sigma, batch=batch, fast=fast, compile=False)


def fast_network(classifier: SmoothedClassifier, x: Tensor) -> Callable[[Tensor], Tensor] | None:
    """What is run instead of the model for inputs like this one; None if the model runs as it is."""
    return classifier.sampler(x)[0].runner


class Certified(NamedTuple):
    """The certificates of an input by two methods, and the logits that they were computed from."""

    certificates: tuple[Certificate, ...]
    logits: Tensor


def certified(classifier: SmoothedClassifier, x: Tensor, index: int) -> Certified:
    """Certify an input by duels and by votes."""
    logits = list[Tensor]()
    duels = classifier.certify(x, Duels(), index=index, watch=lambda stage, part: logits.append(part.clone()), **TERMS)
    votes = classifier.certify(x, Cohen(), index=index, **TERMS)
    return Certified((duels, votes), torch.cat(logits))


def noisy_rows(classifier: SmoothedClassifier, x: Tensor, index: int) -> Tensor:
    """The noisy copies that these certificates are computed from, in order."""
    sampler = classifier.sampler(x)[0]
    stages: list[tuple[Stage, int]] = [("selection", TERMS["n0"]), ("certification", TERMS["n"])]
    return torch.cat([part for stage, n in stages for part in sampler.copies(x, Stream(0, index, stage), n)])


# --- What rounding explains -------------------------------------------------------------------------------------------


def margins(logits: Tensor) -> Tensor:
    """The margins between all pairs of classes (rows, classes, classes), in float64."""
    logits = logits.double()
    return logits[:, :, None] - logits[:, None, :]


def last_places(logits: Tensor) -> Tensor:
    """How far apart margins of equal logits may be that are rounded at the end, on both sides."""
    size = logits.double().abs()
    return 2 * EPS * (size[:, :, None] + size[:, None, :])


def unexplained(model: nn.Module, rows: Tensor, found: Tensor, expected: Tensor) -> Tensor:
    """Which rows have margins that are not those of the model up to rounding.

    The allowance is what a relative change of some 2⁻²² of each weight and input does to the margins of that row; rows
    beyond it get more and larger changes, since a step function may be changed by few of them.
    """
    distance = (margins(found) - margins(expected)).abs()
    left = ~(distance <= last_places(expected)).all((1, 2))
    for times, size in ((4, 2.0**-22), (16, 2.0**-18)):
        places = left.nonzero()[:, 0]
        if len(places):
            wanted, allowed = margins(expected[places]), last_places(expected[places])
            for number in range(times):
                moved = margins(_perturbed(model, rows[places], size, number)) - wanted
                allowed = torch.maximum(allowed, 16 * moved.abs())
            left[places] = ~(distance[places] <= allowed).all((1, 2))
    return left


def _perturbed(model: nn.Module, rows: Tensor, size: float, seed: int) -> Tensor:
    """The logits of the model with all weights and inputs changed by a small share."""
    generator = torch.Generator().manual_seed(seed)
    other = copy.deepcopy(model)
    for held in (*other.parameters(), *other.buffers()):
        if held.is_floating_point():
            held.data.mul_(1 + size * torch.randn(held.shape, generator=generator))
    with torch.inference_mode():
        return other(rows * (1 + size * torch.randn(rows.shape, generator=generator)))


# --- Examination ------------------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What was found about a network."""

    one: Fuzzed
    run: Literal["fast", "as it is", "refused"] = "refused"
    """How its first input was run."""
    certificates: int = 0
    """How many certificates were made fast, and compared."""
    refusals: int = 0
    """How many inputs were refused after the first."""
    rounded: int = 0
    """How many inputs have other certificates as the model is, where rounding decides who wins."""
    reason: str = ""
    """Why its first input was refused."""
    failures: list[str] = field(default_factory=list)
    """What was certified and is not so."""


def examine(seed: int) -> Outcome:
    """Certify inputs with the network of a seed, fast and as it is, and say where that differs beyond rounding."""
    one = fuzzed(seed)
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(one.shape, generator=generator).to(one.kind)
    outcome = Outcome(one)
    with torch.random.fork_rng(devices=[]), _without_trials(one.channels_last):
        torch.manual_seed(seed)
        classifier = smoothed(one.make(), one, fast=True)
        try:
            network = fast_network(classifier, x)
        except ModelError as error:
            _note_refusal(outcome, x, error)
            return outcome
        outcome.run = "as it is" if network is None else "fast"
        if one.fault:
            _examine_no_function(outcome, classifier, [x, x.flip(-1), 3 * x - 1])
        elif network is not None:
            _examine_fast(outcome, classifier, network, x, generator)
    return outcome


def _examine_fast(
    outcome: Outcome,
    classifier: SmoothedClassifier,
    network: Callable[[Tensor], Tensor],
    x: Tensor,
    generator: torch.Generator,
) -> None:
    one = outcome.one
    model = one.make()
    plain = smoothed(model, one, fast=False)
    _compare(outcome, classifier, plain, x, 0)
    if outcome.run == "refused" or outcome.failures:
        return
    for index, each in enumerate(differing(network, model, one, x, generator), start=1):
        _compare(outcome, classifier, plain, each, index)
    words = _change(model, one.seed)
    _change(classifier.model, one.seed)
    _compare(outcome, classifier, smoothed(model, one, fast=False), x, 0, f" after {words}")


def _compare(
    outcome: Outcome, fast: SmoothedClassifier, plain: SmoothedClassifier, x: Tensor, index: int, when: str = ""
) -> None:
    """Note where certificates of the fast version are not those of the model, beyond rounding."""
    try:
        found = certified(fast, x, index)
    except ModelError as error:
        outcome.refusals += 1
        if not outcome.certificates:
            _note_refusal(outcome, x, error)
        return
    outcome.certificates += len(found.certificates)
    rows = noisy_rows(fast, x, index)
    try:
        expected = certified(plain, x, index)
    except ModelError:  # a false alarm of the check, since it is a function; its logits are compared all the same
        with torch.inference_mode():
            expected = Certified(found.certificates, plain.model(rows.clone()))
    wrong = unexplained(plain.model, rows, found.logits, expected.logits)
    distance = (margins(found.logits) - margins(expected.logits)).abs().amax((1, 2))
    same_order = torch.equal(margins(found.logits).sign(), margins(expected.logits).sign())
    if bool(wrong.any()) or (same_order and found.certificates != expected.certificates):
        worst = int(distance.where(wrong, -1.0).argmax())
        outcome.failures.append(
            f"input {index}{when}: {int(wrong.sum())} of {len(wrong)} rows differ, such as "
            f"{_shown(found.logits[worst])} and {_shown(expected.logits[worst])}; "
            f"fast {_said(found)}, as it is {_said(expected)}"
        )
    elif found.certificates != expected.certificates:
        outcome.rounded += 1


def _note_refusal(outcome: Outcome, x: Tensor, error: ModelError) -> None:
    """Note that the first input of a function was refused, and whether it is also refused as it is."""
    outcome.run, outcome.reason = "refused", str(error)
    if not outcome.one.fault:
        try:
            certified(smoothed(outcome.one.make(), outcome.one, fast=False), x, 0)
        except ModelError:
            return
        outcome.reason = f"only when it may run fast: {error}"


def _said(certified: Certified) -> str:
    return " and ".join(f"class {each.prediction} within {each.radius:.4g}" for each in certified.certificates)


def _shown(logits: Tensor) -> str:
    return f"[{', '.join(f'{each:.6g}' for each in logits.tolist())}]"


def _change(model: nn.Module, seed: int) -> str:
    """Change a weight by three per cent, in a way that torch does not count, and say how."""
    draw = Draw(seed)
    held = [
        (name, each) for name, each in (*model.named_parameters(), *model.named_buffers()) if each.is_floating_point()
    ]
    name, tensor = draw.choice(held)
    if draw.random() < 0.5:
        tensor.data.mul_(1.03)
        return f"{name}.data was changed"
    numbers = tensor.detach().numpy()
    numbers *= 1.03
    return f"{name} was changed through NumPy"


def differing(
    network: Callable[[Tensor], Tensor], model: nn.Module, one: Fuzzed, x: Tensor, generator: torch.Generator
) -> list[Tensor]:
    """Inputs at which a fast version and the model differ most: by random search, and up the gradient from there.

    On the way to the first of them is another one, at which few noisy copies differ: spot checks can miss these.
    """
    column = (-1, *[1] * x.dim())
    scales = torch.tensor([one.sigma, 1.0, 3.0, 10.0]).repeat(6)
    rows = x + scales.view(column) * torch.randn(24, *x.shape, generator=generator)
    rows[:4] = torch.tensor([-3.1, 0.1, 0.9, 3.1]).view(column)
    with torch.no_grad():
        most = _difference(network, model, rows)
    for _ in range(6):
        now = rows.clone().requires_grad_()
        try:
            (slope,) = torch.autograd.grad(_difference(network, model, now * 1.0).sum(), now)
        except RuntimeError:  # autograd does not follow some changes in place; the search goes on at random
            slope = torch.randn(rows.shape, generator=generator)
        slope = functional.normalize(slope.nan_to_num(0, 0, 0).flatten(1)).reshape(rows.shape)
        tried = rows + 0.5 * x.numel() ** 0.5 * scales.view(column) * slope
        with torch.no_grad():
            gained = _difference(network, model, tried)
        rows = torch.where((gained > most).view(column), tried, rows)
        most = torch.maximum(gained, most)
    first, second = rows[most.argsort(descending=True)[:2]]
    parts = torch.linspace(0.05, 1, 20).view(column)
    between = (x + parts * (first - x)).repeat_interleave(_COPIES, 0)
    noise = one.sigma * torch.randn(between.shape, generator=generator)
    with torch.no_grad():
        apart = _difference(network, model, between + noise) > _APART
    shares = apart.view(20, _COPIES).float().mean(1)
    few = [float(part) for part, share in zip(parts.flatten(), shares, strict=True) if 0 < share < 0.5]
    return [first, x + few[0] * (first - x) if few else second]


def _difference(network: Callable[[Tensor], Tensor], model: nn.Module, rows: Tensor) -> Tensor:
    """The squared difference of the margins of each row, in units of what is rounded at the end."""
    found, expected = network(rows.clone()), model(rows.clone())
    units = (margins(found) - margins(expected)) / (last_places(expected.detach()) + 1e-30)
    return units.square().nan_to_num().sum((1, 2))


def _examine_no_function(outcome: Outcome, classifier: SmoothedClassifier, inputs: list[Tensor]) -> None:
    """Note where something that is no function of each row was certified, and comparing rows would have found it."""
    missed = 1.0  # the probability that no row that is compared differs
    for index, x in enumerate(inputs):
        try:
            found = certified(classifier, x, index)
        except ModelError:
            outcome.refusals += 1
            continue
        outcome.certificates += len(found.certificates)
        rows = noisy_rows(classifier, x, index)
        top = found.certificates[0].top
        share = min(_share_apart(found.logits, each, top) for each in _alone(outcome.one, rows))
        missed *= (1 - share) ** (ROWS_COMPARED * len(found.certificates))
        if missed < 1e-6:
            outcome.failures.append(
                f"input {index}: its logits depend on its {outcome.one.fault}, and {_said(found)} was certified, "
                f"though {share:.0%} of rows differ from what the model answers to them alone"
            )
            return


def _alone(one: Fuzzed, rows: Tensor) -> Iterator[Tensor]:
    """The logits of rows by a new network: each row alone; for one with memory, all at its first call, and later."""
    model = one.make()
    with torch.inference_mode():
        if one.fault == "calls":
            yield model(rows.clone())
        alone = torch.cat([model(row[None].clone()) for row in rows])
        yield model(rows.clone()) if one.fault == "calls" else alone


def _share_apart(found: Tensor, expected: Tensor, top: int) -> float:
    """The share of rows where a margin of the top class differs by more than a hundredth of how much it varies."""
    wanted = margins(expected)[:, top]
    apart = (margins(found)[:, top] - wanted).abs() > 0.01 * wanted.std(0) + last_places(expected)[:, top]
    return float(apart.any(1).float().mean())


def summary(outcomes: list[Outcome]) -> str:
    """Count networks by how they were run, and their ingredients."""
    functions = [each for each in outcomes if not each.one.fault]
    lines = [
        f"{len(outcomes)} networks, {len(functions)} of them functions of each row",
        f"functions: {dict(Counter(each.run for each in functions))}",
        f"functions refused only when they may run fast: {sum(each.reason.startswith('only') for each in functions)}",
        f"others: {dict(Counter(each.run for each in outcomes if each.one.fault))}",
        f"{sum(each.certificates for each in outcomes)} certificates compared, "
        f"{sum(each.refusals for each in outcomes)} inputs refused later, "
        f"{sum(each.rounded for each in outcomes)} inputs where rounding decides, "
        f"{sum(bool(each.failures) for each in outcomes)} networks with a failure",
    ]
    runs = Counter((name, each.run) for each in outcomes for name in set(each.one.ingredients))
    for name in sorted({name for name, _ in runs}):
        lines.append(f"  {name}: " + ", ".join(f"{runs[name, run]} {run}" for run in ("fast", "as it is", "refused")))
    return "\n".join(lines)


def main() -> None:
    """Examine the networks of some seeds."""
    first = int(sys.argv[1])
    outcomes = []
    for seed in range(first, int(sys.argv[2]) if len(sys.argv) > 2 else first + 1):
        outcomes.append(examine(seed))
        for words in outcomes[-1].failures:
            print(f"{outcomes[-1].one}\n  {outcomes[-1].run}; {words}", flush=True)
    print(summary(outcomes))
    for each in outcomes:
        if each.reason and not each.one.fault:
            print(f"{each.one}\n  refused: {each.reason}")


if __name__ == "__main__":
    main()
