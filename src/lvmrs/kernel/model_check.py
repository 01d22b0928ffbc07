"""The definition of "equal up to rounding" for two computations of the same logits.

The rounding of a network changes with the batch, the memory layout, the processor, and tracing. Its size is measured
for each class separately, so that one class of huge logits (a class masked with −10⁹) hides no difference in the
others. Two quantities are compared: the logit of each class, and its *margin*, on which every duel, vote and map
depends: the logit minus that of the usual class, the one that wins most often. So a large number added to all logits of
a row hides no difference either. Each of these may differ by

- 64 times its *sensitivity*: how far it moves when each number of the input, and each weight, changes by one unit in
  the last place;
- 64 eps times its distance from the median over the noisy copies, or the third quartile of these distances if larger;
- 16 eps times the size of the logits.

On convolutional networks of up to 110 layers, folded or not, at σ from .001 to .25, differences were at most a third of
this.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Generator, Tensor, nn

from lvmrs.errors import ModelError
from lvmrs.kernel.noise import Stage, Stream
from lvmrs.kernel.sampler import LOGITS, Compare, Sampler, uncompared

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
        eps: the relative precision of the model, see ``precision_of``.
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


def precision_of(model: object, *kinds: torch.dtype | None, device: torch.device) -> float:
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


# ---------------------------------------------------------------------------------------------------------------------
# Checks that a model is one fixed function of each input, before a run and repeatedly during it.
#
# A certificate is about a function: the answer of the model to an input **alone**. Samples are computed in batches, so
# a certificate relies on equal logits for a row in a batch and alone. A model whose logits depend on the rest of the
# batch violates this (a model that answers with the majority of its batch seems to be certain), and so does a model
# with randomness or state.
#
# - **At the beginning**, for each kind of input: noisy copies of an input run together, again, each alone, in other
#   positions, in batches mixed with rows of another class, and together again at the end. *Unlike rows*, rows that
#   differ much from the input, fill these batches.
# - **During a run**: at the end of every certification or prediction sample, and after 2048, 32 768, … of its rows,
#   some of the last rows are chosen at random and run again, one between two unlike rows and the others alone. The
#   logits of the unlike rows must be those of the beginning. So a lasting change of the model is found before the
#   certificate is made.
#
# If a share q of the rows in batches has other logits than in small batches, m such rows find it with probability 1 −
# (1 − q)ᵐ, independently for every input; m is 6 for n = 3000 and 24 for n = 10⁵. A model that detects the check and
# behaves differently cannot be found by running it.


_COPIES = 8  # noisy copies of the input in the first check
_MIXED_SIZE, _MIXED_NUMBERS = 64, 1 << 21  # rows of a mixed batch in the first check, fewer of large inputs
_MIXED_BATCHES = 2  # the largest number of classes with a mixed batch each
_NOISIER = (4, 4, 16, 16, 16)  # unlike rows that are the input under multiples of its noise

# Certificates and predictions are computed from samples of these stages; the others only help to choose.
_PROVING: tuple[Stage, ...] = ("certification", "prediction")
_FIRST, _SPACING = 2048, 16  # row number of the first check in a sample, and the factor to the next
_AMONG_UNLIKE = 1  # rows that run again among unlike rows
_ALONE, _MORE, _MOST = 2, 8192, 16  # rows that run again alone: one more for every 8192 rows, at most 16

_RANDOM = (
    "the model gives different answers to the same inputs; a certificate is about one fixed function: switch off what "
    "is random in its forward pass, and what it keeps from earlier calls"
)
_CHANGED = (
    "the model gives other answers than at the beginning; a certificate is about one fixed function: keep its weights "
    "and what it remembers as they are, and make a new SmoothedClassifier after a change"
)
_DEPENDS_ON_BATCH = (
    "the model's answer to an input depends on the other inputs in its batch, or on its place among them, and cannot "
    "be certified: put normalisation layers in eval mode, with running statistics (if the model itself computes in a "
    "lower precision than float32, name that with precision)"
)

_NOT_THE_MODEL = (
    "the fast version of the model gives other logits than the model itself, beyond rounding; run the model as it is "
    "(fast=False, or --no-fast)"
)


def check_model(sampler: Sampler, x: Tensor, *, batch: int | None) -> ModelCheck:
    """Raise if the answers of a model to an input and similar rows are no logits, or not a function of each row.

    Args:
        sampler: a sampler of the model.
        x: the input, without a batch dimension.
        batch: samples in a forward pass, if known: larger batches may not fit into memory.

    Returns:
        The check, to be repeated during the run.
    """
    generator = Generator().manual_seed(0)  # separate from the noise of certificates
    copies = _noisy(x, sampler.sigma, generator)
    first = sampler.answers(_copied(copies, sampler), 0)
    together = _plain(first)
    eps = precision_of(sampler.model, first.dtype, sampler.autocast, device=first.device)
    unknown = measured(lambda rows: together, copies, together, eps)  # rounding is not measured yet
    check = ModelCheck(sampler, unknown, copies[:0], together[:0])
    check.require_the_same(copies, together)
    check = replace(check, agreement=check.measured(copies, together))
    check.require([copies[:3].flip(0)], together[:3].flip(0))
    alone = torch.cat([check.run(row[None]) for row in copies])
    check.require([copies], alone)
    check = check.with_unlike_rows([*_unlike_rows(x, sampler.sigma, generator), copies[0]])
    size = min(_MIXED_SIZE, max(2 * _COPIES, _MIXED_NUMBERS // max(1, x.numel())))
    size = size if batch is None else min(size, max(batch, _COPIES))
    for rows, expected in check.mixed_batches(copies, alone, size):
        check.require([rows], expected)
    check.require_the_same(copies, together)
    return check


@dataclass(frozen=True)
class ModelCheck:
    """The check of a model on one kind of input, to be repeated; ``check_model`` makes it."""

    sampler: Sampler
    agreement: Agreement
    """How far rounding may move the logits."""
    unlike_rows: Tensor
    """Rows unlike the inputs, and one noisy copy of the input as the last row."""
    known: Tensor
    """The logits of the unlike rows, each alone, at the beginning."""
    fast: bool = False
    """Whether samples are computed by a fast version of the model."""

    @property
    def classes(self) -> int:
        """How many classes the model has."""
        return self.known.shape[1]

    @property
    def _in_parts(self) -> bool:
        return any(getattr(module, "runs_in_parts_of", 1) != 1 for module in _modules(self.sampler))

    def with_unlike_rows(self, unlike_rows: list[Tensor]) -> ModelCheck:
        """The check with these unlike rows; drops rows without finite logits, which are no inputs of the user."""
        *answers, last = [self.run(row[None], finite=False) for row in unlike_rows]
        usable = [number for number, logits in enumerate(answers) if bool(torch.isfinite(logits).all())]
        usable.append(len(answers))  # the last one is a copy of the input
        return replace(self, unlike_rows=torch.stack(unlike_rows)[usable], known=torch.cat([*answers, last])[usable])

    def mixed_batches(self, copies: Tensor, alone: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Compose batches of copies mixed with unlike rows, with the expected logits of each row.

        In the first batches, all unlike rows are the same row, of another class than most copies. The last batch has
        all rows.
        """
        rows, answers = torch.cat([copies, self.unlike_rows]), torch.cat([alone, self.known])
        usual = _mode(alone)
        others = {int(logits.argmax()): number for number, logits in enumerate(self.known, start=len(copies))}
        others.pop(usual, None)
        order = random.Random(0)  # noqa: S311 (no secret)
        few = max(1, size // 8)
        for number in list(others.values())[:_MIXED_BATCHES]:
            places = order.sample([*range(few), *[number] * (size - few)], size)
            yield rows[places], answers[places]
        every_row = order.sample(range(len(rows)), len(rows))
        places = (every_row * size)[:size]
        yield rows[places], answers[places]

    def recheck(self, stream: Stream, samples: range, last: bool, inputs: Tensor) -> Compare:
        """Choose rows of a piece, and return a function that compares their logits with those of a new run.

        Args:
            stream: the noise of the rows.
            samples: the numbers of the samples of the piece.
            last: whether it is the last piece.
            inputs: its last rows; the chosen ones are copied, since the model may change its input.
        """
        if stream.stage not in _PROVING or not (last or _is_due(samples)):
            return uncompared
        choice = random.Random(f"{stream.seed},{stream.index},{stream.stage},{samples.stop}")  # noqa: S311 (no secret)
        count = _AMONG_UNLIKE + min(_MOST, _ALONE + (samples.stop - 1) // _MORE)
        places = choice.sample(range(len(inputs)), min(len(inputs), count))
        rows = torch.stack([inputs[place] for place in places])  # a list of places would be copied to the device
        return partial(self._compare, rows, places, stream.index)

    def _compare(self, rows: Tensor, places: list[int], index: int, logits: Tensor) -> None:
        expected = _plain(logits[places])
        # A program for one batch size takes as long for a row as for a batch, so no row runs alone.
        few = len(rows) if self._in_parts else _AMONG_UNLIKE
        unlike_row, known = self._of_another_class(_mode(logits))
        mixed = torch.cat([unlike_row, rows[:few].flip(0), unlike_row])
        answers = torch.cat([known, expected[:few].flip(0), known, expected[few:]])
        here = replace(self, agreement=self.agreement.around(_plain(logits)))
        here.require([mixed, *rows[few:, None]], answers, f" (found while input {index} was sampled)")

    def _of_another_class(self, usual: int) -> tuple[Tensor, Tensor]:
        """An unlike row of another class than ``usual``, if there is one, and its logits."""
        number = int((self.known.argmax(dim=1) != usual).int().argmax())
        return self.unlike_rows[number : number + 1], self.known[number : number + 1]

    def require(self, batches: list[Tensor], expected: Tensor, where: str = "") -> None:
        """Run batches, and raise if logits change with the rest of the batch."""
        found = torch.cat([self.run(rows) for rows in batches])
        if self.agreement.agree(found, expected):
            return
        again = torch.cat([self.run(rows) for rows in batches])
        if not self.agreement.repeats(again, found):
            raise ModelError(_RANDOM + where)
        now = [self.run(row[None]) for row in self.unlike_rows]
        if now and not self.agreement.agree(torch.cat(now), self.known):
            raise ModelError(_CHANGED + where)
        differing = self.agreement.differing(found, expected)
        rows = torch.cat(batches)[differing]  # rounding may be larger for these rows than for those of the first check
        together = self.run(rows)
        if not self.agreement.widened(self.measured(rows, together), together).agree(found, expected):
            other = self.fast and self.agreement.agree(together, found[differing])
            raise ModelError((_NOT_THE_MODEL if other else _DEPENDS_ON_BATCH) + where)

    def require_the_same(self, rows: Tensor, expected: Tensor) -> None:
        """Run a batch again, and raise if its logits have changed."""
        if not self.agreement.repeats(self.run(rows), expected):
            raise ModelError(_RANDOM)

    def measured(self, rows: Tensor, logits: Tensor) -> Agreement:
        """Measure rounding on these rows, twice, to distinguish it from randomness of the model."""
        other = replace(self.sampler, model=moved(self.sampler.model, self.agreement.eps))
        run = replace(self, sampler=other).run
        found, again = (measured(run, rows, logits, self.agreement.eps) for _ in range(2))
        apart = (found.sensitivity - again.sensitivity).abs()
        if bool((apart > self.agreement.allowance(logits, REPEATED).amax(dim=0)).any()):
            raise ModelError(_RANDOM)
        return found

    def coarser(self, x: Tensor, kind: torch.dtype | None) -> ModelCheck:
        """The check for samples that are computed in a 16-bit type, and compared with the model in its own precision.

        Args:
            x: the input, without a batch dimension.
            kind: the 16-bit type.
        """
        copies = _noisy(x, self.sampler.sigma, Generator().manual_seed(0))
        eps = precision_of(self.sampler.model, kind, device=x.device)
        check = replace(self, agreement=replace(self.agreement, eps=eps))
        return replace(check, agreement=check.measured(copies, self.run(copies)))

    def run(self, rows: Tensor, *, finite: bool = True) -> Tensor:
        """The logits of a copy of a batch, in float64; a copy, since the model may change its input."""
        return _plain(self.sampler.answers(_copied(rows, self.sampler), self.classes, finite=finite))


def _modules(sampler: Sampler) -> list[nn.Module]:
    return list(sampler.model.modules()) if isinstance(sampler.model, nn.Module) else []


def _copied(rows: Tensor, sampler: Sampler) -> Tensor:
    return rows.clone(memory_format=sampler.memory_format)


def _plain(logits: Tensor) -> Tensor:
    return logits.cpu().double()


def _mode(logits: Tensor) -> int:
    """The most frequent answer."""
    return int(logits.argmax(dim=1).mode().values)


def _is_due(samples: range) -> bool:
    """Whether a piece has the 2048th sample, the 32 768th, and so on."""
    count = _FIRST
    while count <= samples.start:
        count *= _SPACING
    return count <= samples.stop


def _unlike_rows(x: Tensor, sigma: float, generator: Generator) -> Tensor:
    """Rows unlike an input, in its range: other values, shuffled values, and much more noise."""
    low, high = x.aminmax()
    shuffled = x.flatten()[torch.randperm(x.numel(), generator=generator).to(x.device)].reshape(x.shape)
    anything = low + (high - low) * torch.rand(x.shape, generator=generator).to(x)
    unlike = [anything, low + high - x, shuffled, torch.full_like(x, float(low)), torch.full_like(x, float(high))]
    times = torch.tensor([1.0] * len(unlike) + list(_NOISIER)).to(x).reshape(-1, *[1] * x.dim())
    rows = torch.stack(unlike + [x] * len(_NOISIER))
    return rows + sigma * times * _normal(len(rows), x, generator)


def _noisy(x: Tensor, sigma: float, generator: Generator) -> Tensor:
    return x + sigma * _normal(_COPIES, x, generator)


def _normal(count: int, x: Tensor, generator: Generator) -> Tensor:
    return torch.randn(count, *x.shape, generator=generator).to(x)
