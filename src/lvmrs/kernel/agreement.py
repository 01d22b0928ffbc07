"""When two computations of the same logits agree: the one definition of "equal up to rounding".

The same network rounds otherwise in another batch, as a list of steps, in another layout, on another processor. How
far rounding goes is measured, and for each class by itself, so that one class of huge logits (a class that is masked
with −10⁹) hides nothing in the others. Compared are the logits of each class, and the *margins* that every duel, vote
and map depends on: the logits of each class minus those of the usual class, the one that wins most often. So a large
number that is added to all logits of a row hides nothing either. Each of these may differ by

- 64 times its *sensitivity*: how far it moves when each number of the input, and each weight, is changed by one unit of
  its last place;
- 64 eps times its distance from the middle one of the noisy copies, or the distance that is usual there;
- 16 eps times the logits themselves.

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

__all__ = ["Agreement", "measured", "moved", "precision"]

Model = Callable[[Tensor], Tensor]

# Numbers of 16 bits are multiplied and added up in float32, so that only results are rounded.
_UNITS, _UNITS_16_BITS, _COARSE = 64.0, 8.0, 2.0**-11
# The share of _UNITS that is for the size of logits: it is for rounding a result, which the sensitivity does not show.
_OF_SIZE = 0.25
# Three quarters of the rows are within what is taken for usual: one row at a jump of the network does not count.
_USUAL = 0.75
# How often the last digits are changed, in other ways, to see how far the logits move.
_TIMES = 2
# Last digits move logits at most by this share of their spread, or by so many units of their last place.
_JUMP = 1024.0
# Rounding may do so many times as much to other rows as to noisy copies of the first input.
_WIDER = 16.0


@dataclass(frozen=True)
class Agreement:
    """How far logits of the same inputs may lie apart; ``measured`` makes it.

    Tensors have a column for the logit of each class, and then one for the margin of each class.
    """

    eps: float
    """The relative precision that the model computes in."""
    usual: int
    """The class that wins most often, which margins are over."""
    sensitivity: Tensor
    """How far each column moves with the last digits of input and weights."""
    middle: Tensor
    """The middle value of each column."""
    spread: Tensor
    """How far values usually lie from the middle one."""

    @property
    def units(self) -> float:
        """How many units of rounding are allowed."""
        return _UNITS if self.eps < _COARSE else _UNITS_16_BITS

    def around(self, logits: Tensor) -> Agreement:
        """The same for another input, given logits of its noisy copies (rows, classes)."""
        usual = _usual(logits)
        classes = logits.shape[1]
        sensitivity = self.sensitivity.clone()
        sensitivity[classes:] += float(sensitivity[classes + usual])  # of a margin over another class
        middle, spread = _spread(_columns(logits, usual))
        return replace(self, usual=usual, sensitivity=sensitivity, middle=middle, spread=spread)

    def widened(self, other: Agreement, logits: Tensor | None = None) -> Agreement:
        """Allow what another agreement allows, too.

        Args:
            other: the other agreement.
            logits: the rows that the other one was measured on, if they are not noisy copies of the input: then at most
                16 times the sensitivity that is known is allowed, and 16 units of the last place of the logits.
        """
        wider = torch.maximum(self.sensitivity, other.sensitivity)
        if logits is not None:
            known = self.sensitivity + self.eps * _sizes(logits, self.usual).amax(dim=0)
            wider = torch.minimum(wider, _WIDER * known)
        return replace(self, eps=max(self.eps, other.eps), sensitivity=wider)

    def allowance(self, logits: Tensor) -> Tensor:
        """How far rounding may move the logits of these rows, and their margins (rows, twice the classes)."""
        columns, sizes = _columns(logits, self.usual), _sizes(logits, self.usual)
        away = torch.maximum((columns - self.middle.to(columns)).abs(), self.spread.to(columns))
        return self.units * (self.sensitivity.to(columns) + self.eps * (away + _OF_SIZE * sizes))

    def differing(self, found: Tensor, expected: Tensor) -> Tensor:
        """Which rows of logits differ from those expected by more than rounding explains; NaN always does.

        >>> expected = torch.tensor([[1.0, 0.5, -1e9], [0.0, 0.5, -1e9], [0.3, 0.4, -1e9]])
        >>> known = measured(lambda rows: rows * (1 + 1e-7), expected, expected, torch.finfo(torch.float32).eps)
        >>> known.differing(expected + torch.tensor([0.0, 1e-3, 0.0]), expected)
        tensor([True, True, True])
        >>> known.differing(expected + torch.tensor([1e-6, 0.0, 100.0]), expected)
        tensor([False, False, False])
        """
        apart = _columns(found, self.usual) - _columns(expected, self.usual)
        return ~(apart.abs() <= self.allowance(expected)).all(dim=1)

    def agree(self, found: Tensor, expected: Tensor) -> bool:
        """Whether no row differs by more than rounding explains."""
        return found.shape == expected.shape and not bool(self.differing(found, expected).any())


def measured(run: Callable[[Tensor], Tensor], rows: Tensor, logits: Tensor, eps: float) -> Agreement:
    """Measure what rounding does to the logits of noisy copies of an input.

    Args:
        run: gives the logits of a batch by the model with other last digits (``moved``), and leaves the batch as it is.
        rows: noisy copies of an input.
        logits: their logits.
        eps: the relative precision that the model computes in, see ``precision``.
    """
    usual = _usual(logits)
    columns = _columns(logits, usual)
    found = [_columns(run(_perturbed(rows, eps, seed)), usual) for seed in range(_TIMES)]
    moves = [_usual_size((each - columns).abs().nan_to_num(nan=0.0, posinf=0.0)) for each in found]
    middle, spread = _spread(columns)
    sizes = _usual_size(_sizes(logits, usual))
    # What moves further than this jumps, such as after a comparison of weights for equality. A jump is no rounding.
    most = spread / _JUMP + _JUMP * eps * sizes
    sensitivity, sizes = torch.stack(moves).amax(dim=0).minimum(most).reshape(2, -1), sizes.reshape(2, -1)
    # A logit may stay the same by chance. Then it is taken to move as those of most other classes do, and not more than
    # they do for their size: most classes may be masked.
    relative = (sensitivity / sizes).nan_to_num(nan=0.0, posinf=0.0).median(dim=1, keepdim=True).values * sizes
    others = torch.minimum(sensitivity.median(dim=1, keepdim=True).values, relative)
    return Agreement(eps, usual, torch.maximum(sensitivity, others).flatten(), middle, spread)


def moved(model: Model, eps: float) -> Model:
    """A copy of a module with each weight changed by about a unit of its last place, up or down.

    Whole numbers stay: they are exact, and may be indices, classes or masks, where a small change is a jump. The model
    itself is returned if it is no module, or cannot be copied.
    """
    if not isinstance(model, nn.Module):
        return model
    try:
        made = copy.deepcopy(model)
    except Exception:  # a model may hold anything; then the input alone is changed
        return model
    with torch.no_grad():
        for held in {id(each): each for each in (*made.parameters(), *made.buffers())}.values():
            if held.dtype in LOGITS:
                held.data = torch.where(held.data == held.data.round(), held.data, _perturbed(held.data, eps))
    return made


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


def _perturbed(rows: Tensor, eps: float, seed: int = 0) -> Tensor:
    """The tensor with each number moved by about one unit of its last place, up or down."""
    signs = torch.randint(0, 2, rows.shape, generator=Generator().manual_seed(seed)).to(rows) * 2 - 1
    moved: Tensor = rows * (1 + max(eps, torch.finfo(rows.dtype).eps) * signs)
    return moved


def _columns(logits: Tensor, usual: int) -> Tensor:
    """The logits of each class, and its margins over the usual class, in float64."""
    logits = logits.double()
    return torch.cat([logits, logits - logits[:, usual, None]], dim=1)


def _sizes(logits: Tensor, usual: int) -> Tensor:
    """How large the logits are that each column is computed from."""
    sizes = logits.double().abs()
    return torch.cat([sizes, sizes + sizes[:, usual, None]], dim=1)


def _usual(logits: Tensor) -> int:
    return int(logits.argmax(dim=1).mode().values)


def _spread(columns: Tensor) -> tuple[Tensor, Tensor]:
    """The middle value of each column, and how far values usually are from it."""
    middle = columns.median(dim=0).values
    return middle, _usual_size((columns - middle).abs())


def _usual_size(sizes: Tensor) -> Tensor:
    """For each column, what three quarters of the rows do not exceed."""
    return sizes.kthvalue(max(1, round(_USUAL * len(sizes))), dim=0).values
