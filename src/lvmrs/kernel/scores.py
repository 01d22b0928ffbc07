"""Scores: logits of noisy copies of an input, with the stream of their noise; and their running mean and variance.

Moments are mergeable, in float64, in memory that does not grow with the sample. Batches merge by the pairwise update of
Chan, Golub and LeVeque (1979): the mean and variance of a sample that came in parts are those of the whole sample, to a
relative 10⁻¹², for any parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import InitVar, dataclass

import torch
from torch import Tensor

from lvmrs.errors import InvalidArgumentError, LvmrsError, ProofError
from lvmrs.kernel import checks
from lvmrs.kernel.noise import Noise, Stream

# Samples converted to float64 at a time: small enough to stay in cache, large enough to hide the call overhead.
_CHUNK = 1 << 18


def statistics_device(device: torch.device) -> torch.device:
    """The device for float64 statistics of tensors on ``device``: the same one, or the CPU where it has no float64.

    >>> statistics_device(torch.device("mps"))
    device(type='cpu')
    """
    return torch.device("cpu") if device.type == "mps" else device


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and sum of squared deviations of ``count`` samples of an array-valued variable.

    ``a + b`` are the moments of both samples together; any split and any order of merging agree to rounding.

    >>> first, second = Moments.of(torch.tensor([1.0, 2.0])), Moments.of(torch.tensor([6.0]))
    >>> both = first + second
    >>> both.count, float(both.mean), float(both.variance)
    (3, 3.0, 7.0)
    """

    count: int
    mean: Tensor
    squares: Tensor
    """Sum over the samples of (value − mean)²."""

    @classmethod
    def of(cls, samples: Tensor) -> Moments:
        """Moments of samples that are stacked along the first dimension.

        Args:
            samples: floating tensor of shape (n, …) without NaN and infinities, of any precision.

        Returns:
            Moments in float64, of shape (…).
        """
        checks.finite_tensor("samples", samples, dims=1)
        samples = samples.detach()
        rows = max(1, _CHUNK // max(1, samples[0].numel()))
        total = cls.empty(samples.shape[1:], device=samples.device)
        for chunk in torch.split(samples, rows):
            total = total + cls._of_chunk(chunk)
        return total

    @classmethod
    def _of_chunk(cls, chunk: Tensor) -> Moments:
        values = chunk.to(statistics_device(chunk.device)).to(torch.float64)
        mean = values.mean(dim=0)
        return cls(len(chunk), mean, (values - mean).square_().sum(dim=0))

    @classmethod
    def empty(cls, shape: torch.Size | tuple[int, ...] = (), *, device: torch.device | None = None) -> Moments:
        """Moments of no samples, from which a running total starts."""
        where = statistics_device(device or torch.device("cpu"))
        zeros = torch.zeros(shape, dtype=torch.float64, device=where)
        return cls(0, zeros, zeros)

    def __add__(self, other: Moments) -> Moments:
        """Moments of the two samples together."""
        if self.mean.shape != other.mean.shape:
            shapes = f"{tuple(self.mean.shape)} and {tuple(other.mean.shape)}"
            raise InvalidArgumentError(f"moments of different shapes cannot be merged: {shapes}")
        if other.count == 0 or self.count == 0:
            return self if other.count == 0 else other
        count = self.count + other.count
        gap = other.mean - self.mean
        mean = self.mean + gap * (other.count / count)
        squares = self.squares + other.squares + gap.square() * (self.count * (other.count / count))
        return Moments(count, mean, squares)

    @property
    def variance(self) -> Tensor:
        """The unbiased variance of the samples; it needs at least two."""
        if self.count < 2:
            raise InvalidArgumentError(f"variance needs at least 2 samples, got {self.count}")
        return self.squares / (self.count - 1)


# ---------------------------------------------------------------------------------------------------------------------
# Scores: logits of noisy copies of an input, with the stream of their noise.
#
# The proof relies on fresh scores. The plan was not made on them, each sample comes once and in the order in which it
# was drawn, and the noise is that of the terms. So scores carry the stream, kind and σ of their noise and the number of
# each sample. Only the sampler and the reader of kept scores make them. (``lvmrs.testing`` makes some for simulations.)


_BY_A_SOURCE = object()


@dataclass(frozen=True, eq=False)
class Portion:
    """Logits of consecutive samples of a stream."""

    stream: Stream
    noise: Noise
    sigma: float
    dimensions: int
    """Number of dimensions of the input, each with its own noise."""
    first: int
    """Number of the first of these samples in the stream."""
    logits: Tensor
    """Shape (samples, classes)."""
    made_by: InitVar[object] = None

    def __post_init__(self, made_by: object) -> None:
        _check_source(made_by)


class Scores:
    """Logits of noisy copies of one input, in batches, with the noise that they come from. They can be read once.

    ``SmoothedClassifier.scores`` makes them.

    >>> import torch, lvmrs
    >>> smoothed = lvmrs.SmoothedClassifier(torch.nn.Identity(), sigma=0.5, batch=60)
    >>> scores = smoothed.scores(torch.tensor([1.0, 0.0]), 100)
    >>> [(portion.first, tuple(portion.logits.shape)) for portion in scores]
    [(0, (60, 2)), (60, (40, 2))]
    """

    def __init__(
        self,
        stream: Stream,
        noise: Noise,
        sigma: float,
        dimensions: int,
        count: int,
        batches: Iterable[Tensor],
        made_by: object = None,
    ) -> None:
        _check_source(made_by)
        self._stream, self._noise, self._sigma, self._count = stream, noise, sigma, count
        self._dimensions = dimensions
        self._batches, self._first, self._read = iter(batches), 0, False

    @property
    def stream(self) -> Stream:
        """The stream that the noise was drawn from."""
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
    def dimensions(self) -> int:
        """How many numbers the input has."""
        return self._dimensions

    @property
    def count(self) -> int:
        """How many samples there are."""
        return self._count

    def __repr__(self) -> str:
        """One-line summary for people."""
        return f"<Scores of {self.count} samples, {self.stream}>"

    def __iter__(self) -> Iterator[Portion]:
        """Give the batches in order, each with the number of its first sample."""
        if self._read:
            raise ProofError("these scores were read already, and can be read only once; make them again")
        for logits in self._batches:
            first, self._first = self._first, self._first + len(logits)
            yield Portion(self.stream, self.noise, self.sigma, self.dimensions, first, logits, made_by=_BY_A_SOURCE)
        self._read = True
        if self._first != self.count:
            raise ProofError(f"the source of {self!r} gave {self._first} samples; it is broken")

    def logits(self) -> Iterator[Tensor]:
        """Yield the batches as plain tensors (samples, classes), for planners; a proof does not accept them."""
        return (portion.logits for portion in self)


def scores_of(
    stream: Stream, noise: Noise, sigma: float, dimensions: int, count: int, batches: Iterable[Tensor]
) -> Scores:
    """Make Scores; only code that drew the noise, or that kept the logits, may call this.

    Args:
        stream: the stream that the noise was drawn from.
        noise: the kind of noise.
        sigma: the scale of the noise.
        dimensions: how many numbers the input has.
        count: how many samples there are.
        batches: logits (samples, classes), from the first sample of the stream on.
    """
    return Scores(stream, noise, sigma, dimensions, count, batches, made_by=_BY_A_SOURCE)


def held(scores: Scores) -> tuple[Scores, Tensor]:
    """Read scores into memory: the same scores, which can be read once, and their logits (samples, classes)."""
    batches = [logits.clone() for logits in scores.logits()]
    about = scores.stream, scores.noise, scores.sigma, scores.dimensions, scores.count
    return scores_of(*about, iter(batches)), torch.cat(batches)


def check_scores(scores: object, *, error: type[LvmrsError]) -> None:
    """Raise if an object is not Scores: plain tensors do not carry their stream."""
    if not isinstance(scores, Scores):
        raise error(f"scores must be Scores, which know their stream, got {type(scores).__name__}")


def _check_source(made_by: object) -> None:
    if made_by is not _BY_A_SOURCE:
        raise ProofError("scores are made by a sampler or read from a run that kept them, not by hand")


class Regrouping:
    """Regroups rows from batches of any size into portions of one size, so that the batch size changes no sum."""

    def __init__(self, rows: int) -> None:
        self.rows, self._count = rows, 0
        self._waiting: list[Tensor] = []

    def add(self, batch: Tensor) -> Iterator[Tensor]:
        """Take a batch, and give the portions that are complete now."""
        start = 0
        while self._count + len(batch) - start >= self.rows:
            stop = start + self.rows - self._count
            portion = torch.cat([*self._waiting, batch[start:stop]])
            self._waiting, self._count, start = [], 0, stop
            yield portion
        if start < len(batch):
            # A copy, since the memory of the batch may be reused.
            self._waiting.append(batch[start:].clone())
            self._count += len(batch) - start

    def rest(self) -> Iterator[Tensor]:
        """Give the last portion, which may be smaller; nothing if no rows are left."""
        if self._waiting:
            yield torch.cat(self._waiting)
            self._waiting, self._count = [], 0


def in_portions(batches: Iterable[Tensor], rows: int) -> Iterator[Tensor]:
    """Regroup batches into portions of ``rows`` rows; the last portion may be smaller."""
    regrouping = Regrouping(rows)
    for batch in batches:
        yield from regrouping.add(batch)
    yield from regrouping.rest()
