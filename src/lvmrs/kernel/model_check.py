"""A check that a model is one fixed function of each input: before a run, and now and then during it.

A certificate is about a function: what the model answers to an input **alone**. Samples are computed in batches, so it
relies on answers in a batch being those alone. A model that looks around in its batch breaks this (one that answers
with the majority of its batch seems to be certain), and so does a model that is random or that remembers.

- **At the beginning**, for each kind of input: noisy copies of an input are run together, again, each alone, at other
  places, in mixed_batches of another class, and together again after all of this. *Strangers* fill these batches: rows that
  are unlike the input.
- **During a run**: at the end of every sample that proves something, and after 2048, 32 768, … rows of it, rows are
  chosen at random from the last ones and run again, one between two unlike_rows and the others alone. The unlike_rows must
  be answered as they were at the beginning. So what has changed for good is found before the certificate is made.

If a share q of the answers in batches differs from those in small ones, m such rows find it with probability
1 − (1 − q)ᵐ, for every input anew; m is 6 for n = 3000 and 24 for n = 10⁵. A model that behaves otherwise when it is
checked cannot be found out by running it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Generator, Tensor, nn

from lvmrs.errors import ModelError
from lvmrs.kernel.agreement import Agreement, measured, moved, precision
from lvmrs.kernel.noise import Stage, Stream
from lvmrs.kernel.sampler import Compare, Sampler, uncompared

__all__ = ["ModelCheck", "check_model"]

_COPIES = 8  # noisy copies of the input that are run at the beginning
_MIXED_SIZE = 64  # rows in the large batches at the beginning
_MIXED_BATCHES = 2  # at most so many classes get a mixed of their own
_NOISIER = (4, 4, 16, 16, 16)  # unlike_rows that are the input under so many times its noise

# Certificates and answers are computed from samples of these stages; the others only help to choose.
_PROVING: tuple[Stage, ...] = ("certification", "prediction")
_FIRST, _SPACING = 2048, 16  # a check comes after so many rows, and then after so many times as many
_AMONG_UNLIKE = 1  # rows that are run again among unlike_rows
_ALONE, _MORE, _MOST = 2, 8192, 16  # rows that are run again alone: one more for each 8192 rows before, at most 16

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
    """Refuse a model whose answers to an input and to rows like it are no logits, or no function of each row.

    Args:
        sampler: a sampler of the model.
        x: the input, without a batch dimension.
        batch: samples in a forward pass, where that is known: larger batches may not fit into the memory.

    Returns:
        The check, to be repeated during the run.
    """
    generator = Generator().manual_seed(0)  # its own: the noise of certificates comes from elsewhere
    copies = x + sampler.sigma * _normal(_COPIES, x, generator)
    first = sampler.answers(_copied(copies, sampler), 0)
    together = _plain(first)
    eps = precision(sampler.model, first.dtype, sampler.autocast, device=first.device)
    unknown = measured(lambda rows: together, copies, together, eps)  # nothing is known of rounding yet
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
    """Rows that are unlike the inputs; the last one is not."""
    known: Tensor
    """The answers to them, each alone, at the beginning."""
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
        """The check with these unlike_rows; those without finite logits are left out, since they are not the user's."""
        *answers, last = [self.run(row[None], finite=False) for row in unlike_rows]
        usable = [number for number, logits in enumerate(answers) if bool(torch.isfinite(logits).all())]
        usable.append(len(answers))  # the last one is a copy of the input
        return replace(self, unlike_rows=torch.stack(unlike_rows)[usable], known=torch.cat([*answers, last])[usable])

    def mixed_batches(self, copies: Tensor, alone: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Compose batches of this size in which copies stand among unlike_rows, with the answers to each row alone.

        In the first ones all unlike_rows are the same row, of another class than most copies. The last has all rows.
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
        """Choose rows of a piece; the function that is returned takes their logits, and compares them with new ones.

        Args:
            stream: the noise of the rows.
            samples: which samples the piece has, from 0 on.
            last: whether it is the last piece.
            inputs: its last rows. Some are copied before the model runs, since it may change them.
        """
        if stream.stage not in _PROVING or not (last or _is_due(samples)):
            return uncompared
        choice = random.Random(f"{stream.seed},{stream.index},{stream.stage},{samples.stop}")  # noqa: S311 (no secret)
        count = _AMONG_UNLIKE + min(_MOST, _ALONE + (samples.stop - 1) // _MORE)
        places = choice.sample(range(len(inputs)), min(len(inputs), count))
        return partial(self._compare, inputs[places].clone(), places, stream.index)

    def _compare(self, rows: Tensor, places: list[int], index: int, logits: Tensor) -> None:
        expected = _plain(logits[places])
        # A program for batches of one size takes as long for a row as for a batch, so that none is run alone.
        few = len(rows) if self._in_parts else _AMONG_UNLIKE
        unlike_row, known = self._of_another_class(_mode(logits))
        mixed = torch.cat([unlike_row, rows[:few].flip(0), unlike_row])
        answers = torch.cat([known, expected[:few].flip(0), known, expected[few:]])
        here = replace(self, agreement=self.agreement.around(_plain(logits)))
        here.require([mixed, *rows[few:, None]], answers, f" (found while input {index} was sampled)")

    def _of_another_class(self, usual: int) -> tuple[Tensor, Tensor]:
        """A unlike_row with another answer than the usual one, if there is one, and its answer."""
        number = int((self.known.argmax(dim=1) != usual).int().argmax())
        return self.unlike_rows[number : number + 1], self.known[number : number + 1]

    def require(self, batches: list[Tensor], expected: Tensor, where: str = "") -> None:
        """Run batches, and raise if their logits are not those of the same rows in other company."""
        found = torch.cat([self.run(rows) for rows in batches])
        if self.agreement.agree(found, expected):
            return
        again = torch.cat([self.run(rows) for rows in batches])
        if not self.agreement.agree(again, found):
            raise ModelError(_RANDOM + where)
        now = [self.run(row[None]) for row in self.unlike_rows]
        if now and not self.agreement.agree(torch.cat(now), self.known):
            raise ModelError(_CHANGED + where)
        differing = self.agreement.differing(found, expected)
        rows = torch.cat(batches)[differing]  # rounding may do more to these rows than to those of the beginning
        together = self.run(rows)
        if not self.agreement.widened(self.measured(rows, together), together).agree(found, expected):
            other = self.fast and self.agreement.agree(together, found[differing])
            raise ModelError((_NOT_THE_MODEL if other else _DEPENDS_ON_BATCH) + where)

    def require_the_same(self, rows: Tensor, expected: Tensor) -> None:
        """Run a batch again, and refuse other answers than before."""
        if not self.agreement.agree(self.run(rows), expected):
            raise ModelError(_RANDOM)

    def measured(self, rows: Tensor, logits: Tensor) -> Agreement:
        """Measure what rounding does to the logits of these rows, twice, since a random model would seem to round."""
        other = replace(self.sampler, model=moved(self.sampler.model, self.agreement.eps))
        run = replace(self, sampler=other).run
        found, again = (measured(run, rows, logits, self.agreement.eps) for _ in range(2))
        if not torch.equal(found.sensitivity, again.sensitivity):
            apart = (found.sensitivity - again.sensitivity).abs()
            if bool((apart > self.agreement.allowance(logits).amax(dim=0)).any()):
                raise ModelError(_RANDOM)
        return found

    def run(self, rows: Tensor, *, finite: bool = True) -> Tensor:
        """The logits of a batch, in float64; the model is given a copy, since it may change its inputs."""
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
    """Rows that are unlike an input, in its range: other values, the same ones elsewhere, and much more noise."""
    low, high = x.aminmax()
    shuffled = x.flatten()[torch.randperm(x.numel(), generator=generator).to(x.device)].reshape(x.shape)
    anything = low + (high - low) * torch.rand(x.shape, generator=generator).to(x)
    unlike = [anything, low + high - x, shuffled, torch.full_like(x, float(low)), torch.full_like(x, float(high))]
    times = torch.tensor([1.0] * len(unlike) + list(_NOISIER)).to(x).reshape(-1, *[1] * x.dim())
    rows = torch.stack(unlike + [x] * len(_NOISIER))
    return rows + sigma * times * _normal(len(rows), x, generator)


def _normal(count: int, x: Tensor, generator: Generator) -> Tensor:
    return torch.randn(count, *x.shape, generator=generator).to(x)
