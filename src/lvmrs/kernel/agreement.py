"""The definition of "equal up to rounding" for two computations of the same logits.

The rounding of a network changes with the batch, the memory layout, the processor, and tracing. Its size is measured
for each class separately, so that one class of huge logits (a class masked with −10⁹) hides no difference in the
others. Two quantities are compared: the logit of each class, and its *margin*, on which every duel, vote and map
depends: the logit minus that of the usual class, the one that wins most often. So a large number added to all logits of
a row hides no difference either. Each of these may differ by

- 64 times its *sensitivity*: how far it moves when each number of the input, and each weight, changes by one unit in
  the last place;
- 64 eps times its distance from the median over the noisy copies, or the usual distance if that is larger;
- 16 eps times the size of the logits.

On convolutional networks of up to 110 layers, folded or not, at σ from .001 to .25, differences were at most a third of
this.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor, nn

from lvmrs.kernel.sampler import LOGITS

__all__ = ["REPEATED", "Agreement", "measured", "moved", "precision"]

Model = Callable[[Tensor], Tensor]

# Allowed units of rounding. 16-bit types accumulate in float32 and round only results, so they get fewer units.
_UNITS, _UNITS_16_BITS, _COARSE = 64.0, 8.0, 2.0**-11
REPEATED = 4.0
"""Units by which a batch may differ when it is run again: libraries round otherwise in memory aligned otherwise."""
# The share of _UNITS for the size of logits: the rounding of a result, which the sensitivity does not include.
_OF_SIZE = 0.25
# The quantile over rows that counts as usual, so that a single row at a discontinuity has no effect.
_USUAL = 0.75
# The number of random changes of the last digits in a measurement.
_TIMES = 2
# A larger move than spread/_JUMP + _JUMP units in the last place counts as a discontinuity, not as rounding.
_JUMP = 1024.0
# The largest factor between the sensitivity of other rows and that of noisy copies of the first input.
_WIDER = 16.0


@dataclass(frozen=True)
class Agreement:
    """How far two computations of the same logits may differ; ``measured`` makes it.

    Tensors have one column for the logit of each class, followed by one for the margin of each class.
    """

    eps: float
    """The relative precision of the model."""
    usual: int
    """The class that wins most often, to which margins refer."""
    sensitivity: Tensor
    """How far each column moves when the last digits of input and weights change."""
    middle: Tensor
    """The median of each column."""
    spread: Tensor
    """The usual distance of values from the median."""

    @property
    def units(self) -> float:
        """The allowed number of units of rounding."""
        return _UNITS if self.eps < _COARSE else _UNITS_16_BITS

    def around(self, logits: Tensor) -> Agreement:
        """The agreement for another input, given logits of its noisy copies (rows, classes)."""
        usual = _usual(logits)
        classes = logits.shape[1]
        sensitivity = self.sensitivity.clone()
        sensitivity[classes:] += float(sensitivity[classes + usual])  # margins now refer to another class
        middle, spread = _spread(_columns(logits, usual))
        return replace(self, usual=usual, sensitivity=sensitivity, middle=middle, spread=spread)

    def widened(self, other: Agreement, logits: Tensor | None = None) -> Agreement:
        """Allow in addition the differences that another agreement allows.

        Args:
            other: the other agreement.
            logits: the logits on which the other agreement was measured, if they are not those of noisy copies of the
                input: this limits it to 16 times the known sensitivity plus 16 units in the last place of the logits.
        """
        wider = torch.maximum(self.sensitivity, other.sensitivity)
        if logits is not None:
            known = self.sensitivity + self.eps * _sizes(logits, self.usual).amax(dim=0)
            wider = torch.minimum(wider, _WIDER * known)
        return replace(self, eps=max(self.eps, other.eps), sensitivity=wider)

    def allowance(self, logits: Tensor, units: float | None = None) -> Tensor:
        """How far rounding may move the logits of these rows, and their margins (rows, twice the classes).

        Args:
            logits: the rows.
            units: how many units of rounding to allow, if not ``units``.
        """
        columns, sizes = _columns(logits, self.usual), _sizes(logits, self.usual)
        away = torch.maximum((columns - self.middle.to(columns)).abs(), self.spread.to(columns))
        return (units or self.units) * (self.sensitivity.to(columns) + self.eps * (away + _OF_SIZE * sizes))

    def differing(self, found: Tensor, expected: Tensor, units: float | None = None) -> Tensor:
        """Which rows of logits differ from the expected ones by more than rounding allows; NaN always differs.

        >>> expected = torch.tensor([[1.0, 0.5, -1e9], [0.0, 0.5, -1e9], [0.3, 0.4, -1e9]])
        >>> known = measured(lambda rows: rows * (1 + 1e-7), expected, expected, torch.finfo(torch.float32).eps)
        >>> known.differing(expected + torch.tensor([0.0, 1e-3, 0.0]), expected)
        tensor([True, True, True])
        >>> known.differing(expected + torch.tensor([1e-6, 0.0, 100.0]), expected)
        tensor([False, False, False])
        """
        apart = _columns(found, self.usual) - _columns(expected, self.usual)
        return ~(apart.abs() <= self.allowance(expected, units)).all(dim=1)

    def agree(self, found: Tensor, expected: Tensor) -> bool:
        """Whether no row differs by more than rounding allows."""
        return found.shape == expected.shape and not bool(self.differing(found, expected).any())

    def repeats(self, found: Tensor, expected: Tensor) -> bool:
        """Whether the same batch has the same logits again: it is computed in the same order, and rounded alike."""
        return not bool(self.differing(found, expected, REPEATED).any())


def measured(run: Callable[[Tensor], Tensor], rows: Tensor, logits: Tensor, eps: float) -> Agreement:
    """Measure how far rounding moves the logits of noisy copies of an input.

    Args:
        run: returns the logits of a batch by the model with changed last digits (``moved``), without changing the
             batch.
        rows: noisy copies of an input.
        logits: their logits.
        eps: the relative precision of the model, see ``precision``.
    """
    usual = _usual(logits)
    columns = _columns(logits, usual)
    found = [_columns(run(_perturbed(rows, eps, seed)), usual) for seed in range(_TIMES)]
    moves = [_usual_size((each - columns).abs().nan_to_num(nan=0.0, posinf=0.0)) for each in found]
    middle, spread = _spread(columns)
    sizes = _usual_size(_sizes(logits, usual))
    # A larger move is a discontinuity, such as a comparison of weights for equality, and no rounding.
    most = spread / _JUMP + _JUMP * eps * sizes
    sensitivity, sizes = torch.stack(moves).amax(dim=0).minimum(most).reshape(2, -1), sizes.reshape(2, -1)
    # A logit may stay the same by chance. It then gets the median sensitivity of the classes, relative to the size of
    # their logits, since most classes may be masked.
    relative = (sensitivity / sizes).nan_to_num(nan=0.0, posinf=0.0).median(dim=1, keepdim=True).values * sizes
    others = torch.minimum(sensitivity.median(dim=1, keepdim=True).values, relative)
    return Agreement(eps, usual, torch.maximum(sensitivity, others).flatten(), middle, spread)


def moved(model: Model, eps: float) -> Model:
    """A copy of a module with each weight changed by about one unit in the last place, up or down.

    Integers are not changed: they are exact, and may be indices, classes or masks. The model itself is returned if it
    is no module, or cannot be copied.
    """
    if not isinstance(model, nn.Module):
        return model
    try:
        made = copy.deepcopy(model)
    except Exception:  # copying may fail in any way; then only the input is changed
        return model
    with torch.no_grad():
        for held in {id(each): each for each in (*made.parameters(), *made.buffers())}.values():
            if held.dtype in LOGITS:
                held.data = torch.where(held.data == held.data.round(), held.data, _perturbed(held.data, eps))
    return made


def precision(model: object, *kinds: torch.dtype | None, device: torch.device) -> float:
    """The relative precision of the coarsest type of numbers in a model.

    Args:
        model: the model; the weights of a module are examined.
        kinds: further types, such as that of its logits.
        device: where it runs.
    """
    weights = {weight.dtype for weight in model.parameters()} if isinstance(model, nn.Module) else set()
    # On other devices than the CPU, float32 products may use ten bits (TF32).
    hidden = 0.0 if device.type == "cpu" else 2.0**-10
    return max(hidden, *(torch.finfo(kind).eps for kind in {*weights, *kinds} if kind in LOGITS))


def _perturbed(rows: Tensor, eps: float, seed: int = 0) -> Tensor:
    """The tensor with each number changed by about one unit in the last place, up or down."""
    signs = torch.randint(0, 2, rows.shape, generator=Generator().manual_seed(seed)).to(rows) * 2 - 1
    moved: Tensor = rows * (1 + max(eps, torch.finfo(rows.dtype).eps) * signs)
    return moved


def _columns(logits: Tensor, usual: int) -> Tensor:
    """The logits of each class, and its margins over the usual class, in float64."""
    logits = logits.double()
    return torch.cat([logits, logits - logits[:, usual, None]], dim=1)


def _sizes(logits: Tensor, usual: int) -> Tensor:
    """The size of the logits from which each column is computed."""
    sizes = logits.double().abs()
    return torch.cat([sizes, sizes + sizes[:, usual, None]], dim=1)


def _usual(logits: Tensor) -> int:
    return int(logits.argmax(dim=1).mode().values)


def _spread(columns: Tensor) -> tuple[Tensor, Tensor]:
    """The median of each column, and the usual distance of values from it."""
    middle = columns.median(dim=0).values
    return middle, _usual_size((columns - middle).abs())


def _usual_size(sizes: Tensor) -> Tensor:
    """For each column, the third quartile over the rows."""
    return sizes.kthvalue(max(1, round(_USUAL * len(sizes))), dim=0).values
