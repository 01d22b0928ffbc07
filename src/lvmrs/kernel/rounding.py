"""The rounding of logits: an allowance for certificates that rely on a Lipschitz constant.

A Lipschitz constant holds for a network in exact arithmetic, and a network runs in float32 or less. So a certificate
that relies on the constant needs a bound on the difference between computed and exact logits. Float64 serves as exact
arithmetic: a copy of the network runs in float64, and every operation is checked to keep 64 bits. The difference is
*measured* at some points and doubled; it is not proved for all points (docs/theory.md, "Rounding"). A model that cannot
run in float64 is rejected.
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
from lvmrs.kernel.sampler import Model, Sampler, check_logits, evaluating
from lvmrs.kernel.scores import statistics_device

# The factor on measured rounding, for points that are not measured.
_SAFETY = 2.0
# The numbers of points around an input, and of its noisy copies, at which rounding is measured.
_POINTS, _COPIES = 16, 64
# Roundings of an input under noise, in units in the last place: the sum x + σδ has one half for each of its terms, the
# product σδ another half, and the number δ, as a generator computes it, no more than two.
_OF_INPUT, _OF_NOISE = 0.5, 3.0
# Measurements differ between machines in their last digits, so they are rounded up to this many digits.
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
    """Raises for every operation that returns less than 64 bits for arguments of 64 bits.

    So every number that depends on the input has 64 bits. Constants may have fewer.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        rounded = [each for each in _inexact(result) if each.dtype not in _64_BITS]
        if rounded and any(each.dtype in _64_BITS for each in _inexact((args, kwargs))):
            raise ModelError(f"the model rounds to {rounded[0].dtype} inside ({func}), {_SO}")
        return result


class _WithinTorch(TorchFunctionMode):
    """Raises if values leave torch, for example to NumPy, where their rounding cannot be observed."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _CONVERSIONS and _inexact(args):
            raise ModelError(f"the model computes outside of torch, where float64 cannot be followed, {_SO}")
        return func(*args, **(kwargs or {}))


def _inexact(values: object) -> list[Tensor]:
    """The floating-point tensors among values of any kind."""
    found = (each for each in tree_leaves(values) if isinstance(each, Tensor))
    return [each for each in found if each.is_floating_point() or each.is_complex() or each.is_quantized]


def _not_compiled() -> AbstractContextManager[object]:
    """Run compiled functions uncompiled, without loading torch's compiler."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


class InFloat64:
    """A model in float64. A module is copied, and copied again when its parameters have changed.

    >>> InFloat64(nn.Identity())(torch.ones(1, 2)).dtype
    torch.float64
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._kept: tuple[object, nn.Module] | None = None

    def __call__(self, inputs: Tensor) -> Tensor:
        """The logits of a batch in float64; raises ``ModelError`` if the model cannot run in float64."""
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
    """The attributes of a module that are numbers or strings, except its mode."""
    kinds = (int, float, str, NoneType)
    return {name: value for name, value in vars(module).items() if name != "training" and isinstance(value, kinds)}


def _same_numbers(model: nn.Module, copied: nn.Module) -> bool:
    """Whether a float64 copy has the present parameters and buffers of a model, compared by value."""
    ours, theirs = ([*each.parameters(), *each.buffers()] for each in (model, copied))
    return len(ours) == len(theirs) and all(
        mine.shape == other.shape and torch.equal(mine, other.to(mine))
        for mine, other in zip(ours, theirs, strict=True)
    )


class _Samplers(Protocol):
    """Provides samplers of inputs."""

    def of(self, x: Tensor) -> Sampler:
        """The sampler with which certificates are computed."""

    def plain(self, x: Tensor) -> Sampler:
        """A sampler that runs the model itself."""


class Rounding:
    """How far rounding moves the logits of a model.

    Args:
        model: the model itself, not a compiled one.
        lipschitz: its constant in the Euclidean norm; if infinite, nothing is measured.
        samplers: run the model as for certificates.
        prepared: moves an input to the device and precision of the model.
        given: the user's bound on how far rounding moves the vector of logits; None to measure it.

    ``settled`` is the measurement on one input, used as the least allowance of all inputs; None before ``settle``.
    Every other input is measured too; an input that cannot be measured raises, unless the user gave a bound.
    """

    def __init__(
        self,
        model: Model,
        lipschitz: float,
        samplers: _Samplers,
        prepared: Callable[[Tensor], Tensor],
        given: float | None = None,
    ) -> None:
        plain = None if given is None else checks.nonnegative_number("rounding", given)
        self.given = plain
        self.settled: float | None = None
        self._model, self._lipschitz, self._samplers = model, lipschitz, samplers
        self._exact, self._prepared = InFloat64(model), prepared

    @property
    def least(self) -> float | None:
        """The least allowance of every input; None if it is not known yet."""
        return max((known for known in (self.given, self.settled) if known is not None), default=None)

    def of_samples(self, x: Tensor, sigma: float) -> float:
        """How far rounding moves the logits of noisy copies of x, in the Euclidean norm.

        It is twice the measurement on noisy copies of this input, plus an allowance for the rounding of the copies, and
        at least the given or settled value. If nothing can be measured, the given value is used; without one, a
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
        """Fix the least allowance of all inputs: the known value, or the measurement on this input."""
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
        """The logits of x in float64, and how far rounding moves each logit within the radius that their margin gives.

        The allowance is twice the measurement at x and around it, at least one unit in the last place of the largest
        logit in the lowest precision of input and weights, and at least the given value. If nothing can be measured, it
        is the given value, with the logits as the model computes them.
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
        """The distance between the logits of the sampler and those in float64, of shape (points, classes)."""
        found = []
        for part in torch.split(points, sampler.batch):
            logits = sampler.answers_as_run(part.clone())  # a model may change its input
            check_logits(logits, len(part), 0)
            found.append(logits.to(statistics_device(logits.device), torch.float64) - self._exact(part))
        return torch.cat(found)


def _rounded_up(value: float) -> float:
    return float(_DIGITS.create_decimal_from_float(value))


def points_around(x: Tensor, reach: float) -> Tensor:
    """Points around x in fixed pseudo-random directions, at distances up to ``reach``.

    >>> points_around(torch.zeros(2), 8.0).norm(dim=1)[[0, 7, 15]]
    tensor([0.5000, 4.0000, 8.0000])
    """
    generator = torch.Generator().manual_seed(0)
    steps = torch.randn(_POINTS, max(1, x.numel()), generator=generator, dtype=torch.float64)
    steps *= reach * torch.arange(1, _POINTS + 1)[:, None] / _POINTS / steps.norm(dim=1, keepdim=True)
    return (x.cpu().double() + steps.view(_POINTS, *x.shape)).to(x)
