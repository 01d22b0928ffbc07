"""Checks that a model is one fixed function of each input, before a run and repeatedly during it.

A certificate is about a function: the answer of the model to an input **alone**. Samples are computed in batches, so a
certificate relies on equal logits for a row in a batch and alone. A model whose logits depend on the rest of the batch
violates this (a model that answers with the majority of its batch seems to be certain), and so does a model with
randomness or state.

- **At the beginning**, for each kind of input: noisy copies of an input run together, again, each alone, in other
  positions, in batches mixed with rows of another class, and together again at the end. *Unlike rows*, rows that differ
  much from the input, fill these batches.
- **During a run**: at the end of every certification or prediction sample, and after 2048, 32 768, … of its rows, some
  of the last rows are chosen at random and run again, one between two unlike rows and the others alone. The logits of
  the unlike rows must be those of the beginning. So a lasting change of the model is found before the certificate is
  made.

If a share q of the rows in batches has other logits than in small batches, m such rows find it with probability
1 − (1 − q)ᵐ, independently for every input; m is 6 for n = 3000 and 24 for n = 10⁵. A model that detects the check and
behaves differently cannot be found by running it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Generator, Tensor, nn

from lvmrs.errors import ModelError
from lvmrs.kernel.agreement import REPEATED, Agreement, measured, moved, precision
from lvmrs.kernel.noise import Stage, Stream
from lvmrs.kernel.sampler import Compare, Sampler, uncompared

__all__ = ["ModelCheck", "check_model"]

_COPIES = 8  # noisy copies of the input in the first check
_MIXED_SIZE = 64  # rows of a mixed batch in the first check
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
    "lower precision than float32, name that with autocast)"
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
    copies = x + sampler.sigma * _normal(_COPIES, x, generator)
    first = sampler.answers(_copied(copies, sampler), 0)
    together = _plain(first)
    eps = precision(sampler.model, first.dtype, sampler.autocast, device=first.device)
    unknown = measured(lambda rows: together, copies, together, eps)  # rounding is not measured yet
    check = ModelCheck(sampler, unknown, copies[:0], together[:0])
    check.require_the_same(copies, together)
    check = replace(check, agreement=check.measured(copies, together))
    check.require([copies[:3].flip(0)], together[:3].flip(0))
    alone = torch.cat([check.run(row[None]) for row in copies])
    check.require([copies], alone)
    check = check.with_unlike_rows([*_unlike_rows(x, sampler.sigma, generator), copies[0]])
    size = _MIXED_SIZE if batch is None else min(_MIXED_SIZE, max(batch, _COPIES))
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
        return partial(self._compare, inputs[places].clone(), places, stream.index)

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


def _normal(count: int, x: Tensor, generator: Generator) -> Tensor:
    return torch.randn(count, *x.shape, generator=generator).to(x)
