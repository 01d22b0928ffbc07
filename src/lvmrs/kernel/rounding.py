"""What rounding does to logits: an allowance for certificates that rely on a Lipschitz constant.

A Lipschitz constant is that of a network in exact arithmetic, and a network runs in float32 or less. So whoever relies
on the constant has to know how far the logits as they run are from the exact ones. Float64 stands for exact arithmetic:
a copy of the network runs in float64, and every tensor inside is looked at, so that nothing can be rounded further. The
distance between the two is *measured* at some points and doubled; it is not proved for all points (docs/theory.md,
"Rounding"). A model that cannot run in float64 is refused.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from decimal import ROUND_CEILING, Context
from types import NoneType
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lvmrs.errors import ModelError, guarded
from lvmrs.kernel import checks
from lvmrs.kernel.moments import statistics_device
from lvmrs.kernel.sampler import Model, Sampler, check_logits, evaluating

__all__ = ["InFloat64", "Rounding", "points_around"]

# What is measured at some points is multiplied by this, for the points that are not measured.
_SAFETY = 2.0
# Number of points around an input, and of noisy copies of it, at which rounding is measured.
_POINTS, _COPIES = 16, 64
# Roundings of an input under noise, in units in the last place: the sum x + σδ has one half for each of its terms, the
# product σδ another half, and the number δ, as a generator computes it, no more than two.
_OF_INPUT, _OF_NOISE = 0.5, 3.0
# Machines measure numbers that differ in their last digits, so that they are rounded up to this many.
_DIGITS = Context(prec=3, rounding=ROUND_CEILING)
_SO = (
    "so nothing can be certified by its Lipschitz constant: write it so that it runs in the precision of its weights, "
    "or take a method that does not use the constant, such as hard duels or votes"
)
_64_BITS = (torch.float64, torch.complex128)
_CONVERSIONS = (
    *(torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.__dlpack__),
    *(torch.Tensor.item, torch.Tensor.__float__, torch.Tensor.tolist),
)


class _OnlyFloat64(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses every operation that gives less than 64 bits for numbers of 64 bits.

    So whatever depends on the input has 64 bits. Constants may have less: they are what they are in any precision.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        rounded = [each for each in _inexact(result) if each.dtype not in _64_BITS]
        if rounded and any(each.dtype in _64_BITS for each in _inexact((args, kwargs))):
            raise ModelError(f"the model rounds to {rounded[0].dtype} inside ({func}), {_SO}")
        return result


class _WithinTorch(TorchFunctionMode):
    """Refuses to take numbers out of tensors, into NumPy and the like, where their rounding would not be seen."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _CONVERSIONS and _inexact(args):
            raise ModelError(f"the model computes outside of torch, where float64 cannot be followed, {_SO}")
        return func(*args, **(kwargs or {}))


def _inexact(values: object) -> list[Tensor]:
    """The tensors of numbers that are rounded, among values of any kind."""
    found = (each for each in tree_leaves(values) if isinstance(each, Tensor))
    return [each for each in found if each.is_floating_point() or each.is_complex() or each.is_quantized]


def _not_compiled() -> AbstractContextManager[object]:
    """Run what was compiled as it is written. Torch's compiler is not loaded for that, which takes long."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


class InFloat64:
    """A model in float64. A module is copied, and copied again when its numbers have changed.

    >>> InFloat64(nn.Identity())(torch.ones(1, 2)).dtype
    torch.float64
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._kept: tuple[object, nn.Module] | None = None

    def __call__(self, inputs: Tensor) -> Tensor:
        """The logits of a batch in float64; a model that cannot give them is refused with a ``ModelError``."""
        where = statistics_device(inputs.device)
        exact = self._copied(where)
        with (
            guarded(f"the model cannot run in float64, {_SO}", error=ModelError),
            _not_compiled(),
            evaluating(exact),
            _WithinTorch(),
            _OnlyFloat64(),  # type: ignore[no-untyped-call]
        ):
            logits = exact(inputs.to(where, torch.float64))
        check_logits(logits, len(inputs), 0)
        if logits.dtype != torch.float64:
            raise ModelError(f"the model gives {logits.dtype} logits for inputs in float64, {_SO}")
        return logits

    def _copied(self, where: torch.device) -> Model:
        model = self._model
        if not isinstance(model, nn.Module):
            return model
        state = [(id(module), _plain_values(module)) for module in model.modules()]
        if self._kept is None or self._kept[0] != state or not _same_numbers(model, self._kept[1]):
            failing = f"the model cannot be copied to run in float64, {_SO}"
            with guarded(failing, error=ModelError), torch.inference_mode(False), torch.no_grad():
                self._kept = state, copy.deepcopy(model).to(where).double()
        return self._kept[1]


def _plain_values(module: nn.Module) -> dict[str, object]:
    """The attributes of a module that are numbers or texts, without its mode."""
    kinds = (int, float, str, NoneType)
    return {name: value for name, value in vars(module).items() if name != "training" and isinstance(value, kinds)}


def _same_numbers(model: nn.Module, copied: nn.Module) -> bool:
    """Whether a copy in float64 has the parameters and buffers of a model; torch does not count all changes."""
    ours, theirs = ([*each.parameters(), *each.buffers()] for each in (model, copied))
    return len(ours) == len(theirs) and all(
        mine.shape == other.shape and torch.equal(mine, other.to(mine))
        for mine, other in zip(ours, theirs, strict=True)
    )


class Samplers(Protocol):
    """Gives the sampler of an input."""

    def of(self, x: Tensor) -> Sampler:
        """The sampler that certificates are computed with."""

    def plain(self, x: Tensor) -> Sampler:
        """A sampler that runs the model as it is."""


class Rounding:
    """How far rounding moves the logits of a model.

    Args:
        model: the model itself, not a compiled one.
        lipschitz: its constant in the Euclidean norm; if it is infinite, nothing relies on it and nothing is measured.
        samplers: run the model as it is run for certificates.
        prepared: puts an input on the device and into the precision that it is run in.
        given: the user's word on how far rounding moves the vector of logits at most; None if it is to be measured.

    ``settled`` is what was measured on one input, as the least that all inputs allow for; None before ``settle``. It is
    believed of no other input: each is measured, and one that cannot be measured is refused unless the user's word is
    there.
    """

    def __init__(
        self,
        model: Model,
        lipschitz: float,
        samplers: Samplers,
        prepared: Callable[[Tensor], Tensor],
        given: float | None = None,
    ) -> None:
        plain = None if given is None else checks.single("rounding", checks.at_least_zero("rounding", given))
        self.given = plain
        self.settled: float | None = None
        self._model, self._lipschitz, self._samplers = model, lipschitz, samplers
        self._exact, self._prepared = InFloat64(model), prepared

    @property
    def least(self) -> float | None:
        """What every input allows for at least; None if nothing is known yet."""
        return max((known for known in (self.given, self.settled) if known is not None), default=None)

    def of_samples(self, x: Tensor, sigma: float) -> float:
        """How far rounding moves the logits of noisy copies of x, in the Euclidean norm.

        It is twice what is measured on noisy copies of this input, with enough for the rounding of the copies, and at
        least what was given or settled. Where nothing can be measured, the user's word is believed; without it, a
        ``ModelError`` says why.
        """
        if math.isinf(self._lipschitz):
            return 0.0
        x = self._prepared(x)
        inputs = self._of_inputs(x, float(torch.linalg.vector_norm(x.flatten())), sigma)
        try:
            measured = self._of_logits(x, sigma)
        except ModelError:
            if self.given is None:
                raise
            measured = 0.0
        return max(self.least or 0.0, _rounded_up(measured + inputs))

    def settle(self, x: Tensor, sigma: float, known: float | None = None) -> None:
        """Settle the least that all inputs allow for from now on: what is known, or what is measured on this input."""
        if known is not None:
            self.settled = known
        elif self.least is None:
            x = self._prepared(x)
            largest = max(1.0, float(x.abs().max()))
            inputs = self._of_inputs(x, largest * math.sqrt(x.numel()), sigma)
            self.settled = _rounded_up(self._of_logits(x, sigma) + inputs)

    def _of_logits(self, x: Tensor, sigma: float) -> float:
        noise = torch.randn(_COPIES, *x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        apart = self._apart(self._samplers.of(x), x + (sigma * noise).to(x))
        return _SAFETY * float(torch.linalg.vector_norm(apart, dim=1).max())

    def _of_inputs(self, x: Tensor, size: float, sigma: float) -> float:
        """L times the mean distance of noisy copies, as they are computed, from x + σδ in exact arithmetic.

        Each number is rounded in proportion to its size; ``size`` is the length of x, and the mean length of σδ is at
        most σ√d.
        """
        unit = torch.finfo(x.dtype).eps
        return self._lipschitz * unit * (_OF_INPUT * size + _OF_NOISE * sigma * math.sqrt(x.numel()))

    def of_margin(self, x: Tensor) -> tuple[Tensor, float]:
        """The logits of x in float64, and how far rounding moves each logit of points as near as their margin allows.

        The allowance is twice what is measured at x and around it, and at least one unit in the last place of the
        largest logit, in the least precision of the input and the weights, and at least what was given. Where nothing
        can be measured, it is what was given, for the logits as the model runs.
        """
        x = self._prepared(x)
        if self.given is not None and not self._measurable(x):
            return self._samplers.plain(x).answers(x[None].clone(), 0)[0], self.given
        logits = self._exact(x[None])[0]
        first, second = logits.topk(2).values.tolist()
        points = points_around(x, (first - second) / (math.sqrt(2) * self._lipschitz))
        plain = self._samplers.plain(x)
        measured = float(self._apart(plain, torch.cat([x[None], points])).abs().max())
        return logits, max(self.given or 0.0, _SAFETY * measured, self._unit(x) * float(logits.abs().max()))

    def _measurable(self, x: Tensor) -> bool:
        try:
            self._exact(x[None])
        except ModelError:
            return False
        return True

    def _unit(self, x: Tensor) -> float:
        held = [*self._model.parameters(), *self._model.buffers()] if isinstance(self._model, nn.Module) else []
        return max(torch.finfo(tensor.dtype).eps for tensor in (x, *held) if tensor.is_floating_point())

    def _apart(self, sampler: Sampler, points: Tensor) -> Tensor:
        """How far the logits of points, as the sampler runs the model, are from those in float64 (points, classes)."""
        found = []
        for part in torch.split(points, sampler.batch):
            logits = sampler.answers_as_run(part.clone())  # a model may change its input
            check_logits(logits, len(part), 0)
            found.append(logits.to(statistics_device(logits.device), torch.float64) - self._exact(part))
        return torch.cat(found)


def _rounded_up(value: float) -> float:
    return float(_DIGITS.create_decimal_from_float(value))


def points_around(x: Tensor, reach: float) -> Tensor:
    """Points around x in random directions, the same each time, the last as far away as ``reach``.

    >>> points_around(torch.zeros(2), 8.0).norm(dim=1)[[0, 7, 15]]
    tensor([0.5000, 4.0000, 8.0000])
    """
    generator = torch.Generator().manual_seed(0)
    steps = torch.randn(_POINTS, max(1, x.numel()), generator=generator, dtype=torch.float64)
    steps *= reach * torch.arange(1, _POINTS + 1)[:, None] / _POINTS / steps.norm(dim=1, keepdim=True)
    return (x.cpu().double() + steps.view(_POINTS, *x.shape)).to(x)
