"""When two computations of the same logits agree: the one definition of "equal up to rounding".

The same network rounds otherwise in another batch, as a list of steps, in another layout, on another processor. How
far rounding goes is measured, and for each class by itself, so that one class of huge logits (a class that is masked
with −10⁹) hides nothing in the others. Compared are *margins*: the logits of each class minus those of the usual class,
the one that wins most often. Every duel, vote and map depends on margins alone.

The margin of class k in a row may differ by ``units`` times the sum of

- *sensitivity*: how far the logits of k and of the usual class move when each number of the input is changed by one
  unit of its last place;
- eps times how far the margin of this row lies from the middle one, or a usual margin does;
- eps times the two logits themselves.

On convolutional networks up to 110 layers deep, folded or not, at σ from .001 to .25, actual differences were below 6
times this sum; 64 units are allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor, nn

from lvmrs.logits import LOGITS

__all__ = ["Agreement", "measured", "precision"]

# Numbers of 16 bits are multiplied and added up in float32, so that only results are rounded.
_UNITS, _UNITS_16_BITS = 64.0, 8.0
_COARSE = 2.0**-11
# Three quarters of the rows are within what is taken for usual: one row at a jump of the network does not count.
_USUAL = 0.75


@dataclass(frozen=True)
class Agreement:
    """How far logits of the same inputs may lie apart; ``measured`` makes it."""

    eps: float
    """The relative precision that the model computes in."""
    sensitivity: Tensor
    """How far the logits of each class move with the last digit of the input."""
    usual: int
    """The class that wins most often."""
    middle: Tensor
    """The middle margin of each class over the usual one."""
    spread: Tensor
    """How far margins of each class usually lie from the middle one."""

    @property
    def units(self) -> float:
        """How many units of rounding are allowed."""
        return _UNITS if self.eps < _COARSE else _UNITS_16_BITS

    def around(self, logits: Tensor) -> Agreement:
        """The same for another input, given logits of its noisy copies (rows, classes)."""
        usual, middle, spread = _margins(logits.double())
        return replace(self, usual=usual, middle=middle, spread=spread)

    def widened(self, other: Agreement, most: float = math.inf) -> Agreement:
        """Allow what another agreement allows, too, but at most ``most`` times the sensitivity that this one knows."""
        sensitivity = torch.minimum(torch.maximum(self.sensitivity, other.sensitivity), most * self.sensitivity)
        return replace(self, eps=max(self.eps, other.eps), sensitivity=sensitivity)

    def allowance(self, logits: Tensor) -> Tensor:
        """How far each margin of these rows may be moved by rounding, in float64 (rows, classes)."""
        logits = logits.double()
        usual = logits[:, self.usual, None]
        away = torch.maximum((logits - usual - self.middle.to(logits)).abs(), self.spread.to(logits))
        sensitivity = (self.sensitivity + self.sensitivity[self.usual]).to(logits)
        return self.units * (sensitivity + self.eps * (away + logits.abs() + usual.abs()))

    def differing(self, found: Tensor, expected: Tensor) -> Tensor:
        """Which rows of logits differ from those expected by more than rounding explains; NaN always does.

        >>> expected = torch.tensor([[1.0, 0.5, -1e9], [0.0, 0.5, -1e9]])
        >>> known = Agreement(2.0**-23, torch.full((3,), 1e-7), 0, torch.zeros(3), torch.tensor([0.0, 1.0, 0.0]))
        >>> known.differing(expected + torch.tensor([0.0, 1e-3, 0.0]), expected)
        tensor([True, True])
        >>> known.differing(expected + torch.tensor([1e-6, 0.0, 100.0]), expected)
        tensor([False, False])
        """
        found, expected = found.double(), expected.double()
        apart = (found - found[:, self.usual, None]) - (expected - expected[:, self.usual, None])
        return ~(apart.abs() <= self.allowance(expected)).all(dim=1)

    def shifted(self, found: Tensor, expected: Tensor) -> Tensor:
        """Which rows have logits that are all shifted, which no margin shows, by more than rounding explains."""
        return ~((found.double() - expected.double()).abs() <= self.allowance(expected)).all(dim=1)

    def agree(self, found: Tensor, expected: Tensor) -> bool:
        """Whether no row differs by more than rounding explains."""
        return found.shape == expected.shape and not bool(self.differing(found, expected).any())


def measured(run: Callable[[Tensor], Tensor], rows: Tensor, logits: Tensor, eps: float) -> Agreement:
    """Measure what rounding does to the logits of noisy copies of an input.

    Args:
        run: gives the logits of a batch; it must not change the batch.
        rows: noisy copies of an input.
        logits: their logits.
        eps: the relative precision that the model computes in, see ``precision``.
    """
    logits = logits.double()
    usual, middle, spread = _margins(logits)
    moved = (run(_jiggled(rows, eps)).double() - logits).abs().nan_to_num(nan=0.0, posinf=0.0)
    return Agreement(eps, _usual_size(moved), usual, middle, spread)


def precision(model: object, *kinds: torch.dtype | None, device: torch.device) -> float:
    """The relative precision of the coarsest numbers that a model is known to compute with.

    Args:
        model: the model, whose weights are looked at if it is a module.
        kinds: other types of numbers, such as that of its logits.
        device: where it runs.
    """
    weights = {weight.dtype for weight in model.parameters()} if isinstance(model, nn.Module) else set()
    # Elsewhere than on the CPU, float32 numbers may be multiplied with ten bits (TF32).
    hidden = 0.0 if device.type == "cpu" else 2.0**-10
    return max(hidden, *(torch.finfo(kind).eps for kind in {*weights, *kinds} if kind in LOGITS))


def _jiggled(rows: Tensor, eps: float) -> Tensor:
    """The rows with each number moved by about one unit of its last place, up or down."""
    signs = torch.randint(0, 2, rows.shape, generator=Generator().manual_seed(7)).to(rows) * 2 - 1
    moved: Tensor = rows * (1 + max(eps, torch.finfo(rows.dtype).eps) * signs)
    return moved


def _margins(logits: Tensor) -> tuple[int, Tensor, Tensor]:
    """The usual class, the middle margin of each class over it, and how far margins usually are from that."""
    usual = int(logits.argmax(dim=1).mode().values)
    margins = logits - logits[:, usual, None]
    middle = margins.median(dim=0).values
    return usual, middle, _usual_size((margins - middle).abs())


def _usual_size(sizes: Tensor) -> Tensor:
    """For each column, what three quarters of the rows do not exceed."""
    return sizes.kthvalue(max(1, round(_USUAL * len(sizes))), dim=0).values
