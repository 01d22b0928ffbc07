"""Mean and variance of streamed scores: mergeable, in float64, in memory that does not grow with the sample.

Batches merge by the pairwise update of Chan, Golub and LeVeque (1979): the mean and variance of a sample that came in
parts are those of the whole sample, to a relative 10⁻¹², whatever the parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import torch_checks

__all__ = ["Moments", "statistics_device"]

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
        torch_checks.finite_tensor("samples", samples, dims=1)
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
