"""Scores that know where they come from.

The proof relies on scores being fresh: not those that the plan was made on, each sample once, in the order in which
they were drawn, with the noise that the radius is computed for. So scores carry the stream, kind and σ of their
noise and the number of each sample, and are made in two places only: by the sampler, and by the reader of kept scores.
(``lvmrs.testing`` makes some up, for simulations.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import InitVar, dataclass

import torch
from torch import Tensor

from lvmrs.errors import LvmrsError, ProofError
from lvmrs.noise import Noise, Stream

__all__ = ["Portion", "Regrouping", "Scores", "check_scores", "in_portions", "scores_of"]

_BY_A_SOURCE = object()


@dataclass(frozen=True, eq=False)
class Portion:
    """Logits (samples, classes) of consecutive samples of a stream at one σ, from sample number ``first`` on."""

    stream: Stream
    noise: Noise
    sigma: float
    first: int
    logits: Tensor
    made_by: InitVar[object] = None

    def __post_init__(self, made_by: object) -> None:
        _check_source(made_by)


class Scores:
    """Logits of ``count`` noisy copies of one input, in batches, with the stream and σ of their noise; read once."""

    def __init__(
        self, stream: Stream, noise: Noise, sigma: float, count: int, batches: Iterable[Tensor], made_by: object = None
    ) -> None:
        _check_source(made_by)
        self._stream, self._noise, self._sigma, self._count = stream, noise, sigma, count
        self._batches, self._first, self._read = iter(batches), 0, False

    @property
    def stream(self) -> Stream:
        """Where the noise came from."""
        return self._stream

    @property
    def noise(self) -> Noise:
        """The kind of noise."""
        return self._noise

    @property
    def sigma(self) -> float:
        """The scale of the noise."""
        return self._sigma

    @property
    def count(self) -> int:
        """How many samples there are."""
        return self._count

    def __repr__(self) -> str:
        """One line."""
        return f"<Scores of {self.count} samples, {self.stream}>"

    def __iter__(self) -> Iterator[Portion]:
        """The batches, each with the number of its first sample."""
        if self._read:
            raise ProofError("these scores were read already, and are read only once; make them again")
        for logits in self._batches:
            first, self._first = self._first, self._first + len(logits)
            yield Portion(self.stream, self.noise, self.sigma, first, logits, made_by=_BY_A_SOURCE)
        self._read = True
        if self._first != self.count:
            raise ProofError(f"{self._first} samples came of {self!r}; its source is broken")

    def logits(self) -> Iterator[Tensor]:
        """The batches as plain tensors, for planners; they prove nothing."""
        return (portion.logits for portion in self)


def scores_of(stream: Stream, noise: Noise, sigma: float, count: int, batches: Iterable[Tensor]) -> Scores:
    """Scores from their source: to be called by what draws noise of that stream, or has kept what came of it."""
    return Scores(stream, noise, sigma, count, batches, made_by=_BY_A_SOURCE)


def check_scores(scores: object, *, error: type[LvmrsError]) -> None:
    """Refuse anything but Scores: plain tensors do not say which noise they come from."""
    if not isinstance(scores, Scores):
        raise error(f"scores must be Scores, which know their stream, got {type(scores).__name__}")


def _check_source(made_by: object) -> None:
    if made_by is not _BY_A_SOURCE:
        raise ProofError("scores are made by a sampler or read from a run that kept them, not by hand")


class Regrouping:
    """Rows that come in batches of any size, given out in portions of one size, so that batches leave no trace."""

    def __init__(self, rows: int) -> None:
        self.rows, self._count = rows, 0
        self._waiting: list[Tensor] = []

    def add(self, batch: Tensor) -> Iterator[Tensor]:
        """The portions that the batch completes."""
        start = 0
        while self._count + len(batch) - start >= self.rows:
            stop = start + self.rows - self._count
            portion = torch.cat([*self._waiting, batch[start:stop]])
            self._waiting, self._count, start = [], 0, stop
            yield portion
        if start < len(batch):
            # Copied, since whoever made the batch may use its memory again.
            self._waiting.append(batch[start:].clone())
            self._count += len(batch) - start

    def rest(self) -> Iterator[Tensor]:
        """The last portion, which may be smaller; none if nothing is left."""
        if self._waiting:
            yield torch.cat(self._waiting)
            self._waiting, self._count = [], 0


def in_portions(batches: Iterable[Tensor], rows: int) -> Iterator[Tensor]:
    """The same rows in portions of one size (the last may be smaller)."""
    regrouping = Regrouping(rows)
    for batch in batches:
        yield from regrouping.add(batch)
    yield from regrouping.rest()
