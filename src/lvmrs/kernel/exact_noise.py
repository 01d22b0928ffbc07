"""Gaussian noise for inputs on a grid, drawn exactly from random integers.

If Z is normal with standard deviation ``scale``, in steps of the grid, then round(Z) is the whole number k with the
probability Φ((k + ½)/scale) − Φ((k − ½)/scale). A uniform 64-bit integer U gives it: k is decided by how many of the
*thresholds* 2⁶⁴ Φ((k + ½)/scale) are at most U. The thresholds are computed with 40 digits and rounded to whole
numbers, so each is off by less than 1. This is the only deviation from the exact distribution, and
``GridNormal.error`` bounds it.

Most numbers need only the first 16 bits of U, which are looked up in a table. Where a threshold has the same first 16
bits, the table leaves the number open, and 48 more bits are drawn for it. Nearly always it is the only such threshold,
and one comparison decides; in the far tails there are several, which are searched.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks, philox
from lvmrs.kernel.noise import GAUSSIAN, Gaussian, Noise, Stream, samples_per_block

_BITS, _FIRST = 64, 16
_DIGITS = 40
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
# Beyond this many standard deviations, the tail is less than 2⁻⁶⁴.
_BEYOND = 10
# The time to compute the thresholds grows with the scale: about 5 seconds at this limit.
_LARGEST_SCALE = 10_000


@dataclass(frozen=True, eq=False)
class GridNormal:
    """Draws whole numbers round(Z), Z normal; ``grid_normal`` makes it."""

    thresholds: NDArray[np.uint64]
    """The smallest U of each number but the first, in ascending order."""
    table: NDArray[Any]
    """The number for the first 16 bits of U, or the smallest value of the type if more bits are needed."""
    place: NDArray[np.int32]
    """For each value v of the first 16 bits, the index of the first threshold of at least v · 2⁴⁸."""
    several: NDArray[np.bool_]
    """For each threshold, whether the next one has the same first 16 bits."""
    largest: int
    """The largest number that is drawn; the smallest is minus this."""
    error: float
    """Bound on the total variation distance between one number and round(Z)."""

    def fill(self, out: NDArray[Any], generator: np.random.Generator) -> None:
        """Overwrite an array of the table's type with independent numbers."""
        raw, numbers = generator.bit_generator.random_raw, out.reshape(-1)
        first = raw(-(-numbers.size * _FIRST // _BITS)).view(np.uint16)[: numbers.size]
        np.take(self.table, first, out=numbers, mode="clip")  # no index is out of range, and "clip" avoids a copy
        undecided = np.flatnonzero(numbers == np.iinfo(self.table.dtype).min)
        if undecided.size:
            rest = raw(undecided.size) >> np.uint64(_FIRST)
            known = first[undecided]
            numbers[undecided] = self._decided(known, (known.astype(np.uint64) << np.uint64(_BITS - _FIRST)) | rest)

    def _decided(self, first: NDArray[np.uint16], uniform: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The numbers for integers that share their first 16 bits with a threshold."""
        place = self.place[first]
        numbers: NDArray[np.int64] = place + np.int64(-self.largest) + (self.thresholds[place] <= uniform)
        far = np.flatnonzero(self.several[place])
        if far.size:
            numbers[far] = self.numbers_of(uniform[far])
        return numbers

    def numbers_of(self, uniform: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The numbers for uniform 64-bit integers, computed without the table."""
        return np.searchsorted(self.thresholds, uniform, side="right") - self.largest

    @functools.cached_property
    def _open(self) -> float:
        """The share of values of the first 16 bits that need more bits."""
        return float(np.mean(self.table == np.iinfo(self.table.dtype).min))

    def drawn(self, words: Callable[[int, int], Tensor], size: int, tables: tuple[Tensor, Tensor]) -> Tensor:
        """The numbers that ``fill`` draws, computed by torch for many blocks at once, without waiting for the device.

        Args:
            words: ``words(begin, end)`` gives the words begin, …, end − 1 of all blocks, as int64 (blocks, words).
            size: how many numbers to draw for each block.
            tables: those of ``tables_on``.

        Returns:
            The numbers of shape (blocks, size), in the type of the table.
        """
        table, thresholds = tables
        used = -(-size * _FIRST // _BITS)
        first = words(0, used).view(torch.int16)[:, :size].long() & ((1 << _FIRST) - 1)
        numbers = table[first]
        undecided = numbers == torch.iinfo(table.dtype).min
        # Undecided numbers take one more word each, in order. Their count is not read, since that would wait for the
        # device: there is room for twelve standard deviations more than expected, exceeded with probability < 10⁻³⁰.
        expected = size * self._open
        room = min(size, math.ceil(expected + 12 * math.sqrt(expected) + 32))
        rank = undecided.cumsum(dim=1)
        torch._assert_async((rank[:, -1] <= room).all())
        slot = torch.where(undecided, rank - 1, room)  # the last slot is for decided numbers, and not used
        known = first.new_zeros(len(first), room + 1).scatter_(1, slot, first)
        more = functional.pad(philox.shifted(words(used, used + room), _FIRST), (0, 1))
        uniform = (known << (_BITS - _FIRST)) | more
        found = torch.searchsorted(thresholds, uniform ^ philox.signed(1 << (_BITS - 1)), right=True) - self.largest
        return torch.where(undecided, found.to(table.dtype).gather(1, slot), numbers)


@functools.lru_cache(maxsize=16)
def tables_on(numbers: GridNormal, device: torch.device) -> tuple[Tensor, Tensor]:
    """The table, and the thresholds as signed integers of the same order, on a device."""
    order = torch.from_numpy((numbers.thresholds ^ np.uint64(1 << (_BITS - 1))).view(np.int64))
    return torch.from_numpy(numbers.table).to(device), order.to(device)


@functools.lru_cache(maxsize=16)
def grid_normal(scale: Fraction) -> GridNormal:
    """Make a generator of round(Z), where Z is normal.

    Args:
        scale: standard deviation of Z, in steps of the grid; a fraction, so that it is exact.

    Returns:
        The generator.

    >>> grid_normal(Fraction(255, 2)).largest
    1158
    """
    if not 0 < scale <= _LARGEST_SCALE:
        raise InvalidArgumentError(
            f"the standard deviation of the noise is {float(scale):g} steps of the grid, and at most {_LARGEST_SCALE} "
            "are possible; take a coarser grid"
        )
    tails = _tails(scale)
    below = tails[::-1]
    above = [(1 << _BITS) - tail for tail in tails]
    thresholds = np.array([*below, *above], dtype=np.uint64)
    # Each threshold is off by less than 1 in 2⁶⁴, and so is the probability beyond the last one on either side.
    error = (len(thresholds) + 3) * 2.0**-_BITS
    kind: type[np.signedinteger[Any]] = np.int16 if len(tails) < np.iinfo(np.int16).max else np.int32
    starts = np.arange(1 << _FIRST, dtype=np.uint64) << np.uint64(_BITS - _FIRST)
    found = [
        np.searchsorted(thresholds, uniform, side="right") - len(tails)
        for uniform in (starts, starts | np.uint64((1 << (_BITS - _FIRST)) - 1))
    ]
    table = np.where(found[0] == found[1], found[0], np.iinfo(kind).min).astype(kind)
    prefixes = thresholds >> np.uint64(_BITS - _FIRST)
    several = np.append(prefixes[1:] == prefixes[:-1], False)
    place = np.searchsorted(thresholds, starts, side="left").astype(np.int32)
    return GridNormal(thresholds, table, place, several, len(tails), error)


def _tails(scale: Fraction) -> list[int]:
    """2⁶⁴ P(Z > k + ½), rounded down, for k = 0, 1, … as long as it is not 0."""
    found: list[int] = []
    with localcontext(prec=_DIGITS):
        unit = Decimal(scale.denominator) / Decimal(scale.numerator)
        while True:
            tail = int(_upper_tail((len(found) + Decimal("0.5")) * unit) * (1 << _BITS))
            if tail == 0:
                return found
            found.append(tail)


def _upper_tail(z: Decimal) -> Decimal:
    """P(N > z) of a standard normal N, for z ≥ 0: ½ − φ(z) Σ z^(2j+1)/(1·3·…·(2j+1)), whose terms are positive."""
    if z > _BEYOND:
        return Decimal(0)
    square = z * z
    term = total = z
    odd = 1
    while term > total.scaleb(-_DIGITS):
        odd += 2
        term = term * square / odd
        total += term
    return Decimal("0.5") - (-square / 2).exp() / (2 * _PI).sqrt() * total


# ---------------------------------------------------------------------------------------------------------------------
# The noise: Gaussian noise for inputs on a grid, such as 8-bit images, without floating-point rounding.
#
# In floating point, the last bits of x + δ depend on x, and a classifier can be built that reads them and makes
# certificates false (Voráček and Hein 2022). Here the classifier that is smoothed sees its inputs *rounded to the
# grid*: the network runs on round(x + δ). That is a function of x + δ like any other, so every theorem about Gaussian
# noise holds for it, at all real x'. For an x on the grid, round(x + δ) = x + round(δ). So the noise is a whole number
# of steps: it is drawn exactly, added to x in whole numbers, and converted once.
#
# Rounding is discontinuous, so the network after it has no Lipschitz constant, even if the network itself has one.


_BYTE = 255
# An input may differ from its grid point by this many units in the last place: 0.1 is not a floating-point number.
_UNITS = 4


@dataclass(frozen=True)
class ExactGaussian(Noise):
    """Gaussian noise for inputs that are multiples of 1/levels; noisy inputs are rounded to such multiples.

    >>> ExactGaussian().words(0.5)
    'Gaussian noise of σ = 0.5, after which inputs are rounded to multiples of 1/255'
    """

    levels: int = _BYTE
    """Number of steps from 0 to 1: 255 for images of 8 bits."""

    name: ClassVar[str] = "exact"
    law: ClassVar[str] = Gaussian.name
    rounds: ClassVar[bool] = True
    distance: ClassVar[str] = Gaussian.distance
    length: ClassVar[str] = Gaussian.length
    drawn_on_device: ClassVar[bool] = True
    same_everywhere: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", checks.count("levels", self.levels, least=1))

    @property
    def centre(self) -> str:
        """The grid point, since most multiples of 1/levels are not floating-point numbers."""
        return f"the input, each number of which stands for the nearest multiple of 1/{self.levels}"

    @property
    def setting(self) -> str:
        """The levels; empty for those of 8 bits."""
        return "" if self.levels == _BYTE else str(self.levels)

    @classmethod
    def of(cls, setting: str) -> ExactGaussian:
        """The noise with this number of levels, written as in ``exact:16``."""
        if not setting:
            return cls()
        if not (setting.isascii() and setting.isdecimal() and len(setting) < 10):
            raise InvalidArgumentError(
                f"noise must be exact, or exact:LEVELS with the number of steps from 0 to 1, got exact:{setting:.20}"
            )
        return cls(int(setting))

    def words(self, sigma: float) -> str:
        """Describes the standard deviation and the grid."""
        return f"{Gaussian().words(sigma)}, after which inputs are rounded to multiples of 1/{self.levels}"

    def error(self, sigma: float) -> float:
        """Bound on the total variation distance between one drawn number and the exact distribution."""
        return self._numbers(sigma).error

    def kind(self, sigma: float, dtype: torch.dtype) -> torch.dtype:
        """16-bit integers, or 32-bit integers if 16 bits do not suffice."""
        return torch.int16 if self._numbers(sigma).table.dtype == np.int16 else torch.int32

    def fill(self, out: NDArray[Any], generator: np.random.Generator, sigma: float) -> None:
        """Overwrite ``out`` with whole numbers of steps."""
        self._numbers(sigma).fill(out, generator)

    def draw_on_device(self, stream: Stream, samples: range, shape: torch.Size, sigma: float, like: Tensor) -> Tensor:
        """Draw the numbers that ``fill`` draws on the CPU, bit for bit, by torch's operations."""
        each, device = samples_per_block(shape), like.device
        blocks = range(samples.start // each, (samples.stop - 1) // each + 1)
        places = torch.arange(blocks.start, blocks.stop, device=device)[:, None]

        def words(begin: int, end: int) -> Tensor:
            groups = torch.arange(begin // 4, (end + 3) // 4, device=device)
            found = philox.words(stream.seed, stream.index, stream.stage_number, places, groups)
            return found.flatten(1)[:, begin % 4 :][:, : end - begin].contiguous()

        numbers = self._numbers(sigma)
        drawn = numbers.drawn(words, each * shape.numel(), tables_on(numbers, device))
        return drawn.reshape(-1, *shape)[samples.start - blocks.start * each :][: len(samples)]

    def base(self, x: Tensor) -> Tensor:
        """The input in steps of the grid; raises if it is not on the grid."""
        given = x.cpu().double()
        steps = torch.round(given * self.levels)
        off = (given - steps / self.levels).abs() > _UNITS * torch.finfo(x.dtype).eps * given.abs()
        if bool(off.any()):
            value = float(given[off].flatten()[0])
            raise InvalidArgumentError(
                f"the input is not on the grid of this noise: {value:.9g} is not a multiple of 1/{self.levels}; round "
                "inputs to the grid, take exact:LEVELS for multiples of 1/LEVELS, or take gaussian noise"
            )
        if float(steps.abs().max()) >= 1 / torch.finfo(x.dtype).eps:
            raise InvalidArgumentError(f"the input is larger than {x.dtype} counts in steps of 1/{self.levels}")
        return steps.to(x)

    def combine(self, base: Tensor, drawn: Tensor, sigma: float, out: Tensor) -> Tensor:
        """Add integers, which floating point does exactly here, and convert once."""
        return torch.add(base, drawn, out=out).div_(self.levels)

    def _numbers(self, sigma: float) -> GridNormal:
        return _in_steps(sigma, self.levels)


@functools.lru_cache(maxsize=16)
def _in_steps(sigma: float, levels: int) -> GridNormal:
    """The generator for σ and levels, cached because fractions are slow."""
    return grid_normal(Fraction(sigma) * levels)


# ---------------------------------------------------------------------------------------------------------------------
# The default noise.


def suited_noise(levels: int | None, lipschitz: float | None = None) -> Noise:
    """The default noise: exact noise for inputs on a grid, unless a Lipschitz constant is known.

    Rounding to the grid has no Lipschitz constant, so exact noise would lose the radius gained by the constant.

    Args:
        levels: inputs are multiples of 1/levels; None if they are not known to be on a grid.
        lipschitz: a Lipschitz constant of the network that certificates may use; None or infinite if there is none.

    Returns:
        Exact noise on that grid, or Gaussian noise in floating point.

    >>> suited_noise(255), suited_noise(None), suited_noise(255, lipschitz=2.0)
    (ExactGaussian(levels=255), Gaussian(), Gaussian())
    """
    constant = lipschitz is not None and math.isfinite(lipschitz)
    return GAUSSIAN if levels is None or constant else ExactGaussian(levels)
