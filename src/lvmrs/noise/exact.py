"""Gaussian noise for inputs on a grid, such as images of 8 bits, without any rounding of floating-point numbers.

In floating point, x + δ keeps traces of x in its last bits, and a classifier can be built that reads them and makes
certificates false (Voráček and Hein 2022). Here the classifier that is smoothed sees its inputs *rounded to the grid*:
the network runs on round(x + δ). That is a function of x + δ like any other, so every theorem about Gaussian noise
holds for it, at all real x'. For an x on the grid, round(x + δ) = x + round(δ). So the noise is a whole number of
steps: it is drawn exactly (``lvmrs.noise.grid_normal``), added to x in whole numbers, and converted once.

Rounding jumps, so what is smoothed has no Lipschitz constant, whatever the network has.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmrs import _checks
from lvmrs.errors import InvalidArgumentError
from lvmrs.noise.base import Noise
from lvmrs.noise.gaussian import Gaussian
from lvmrs.noise.grid_normal import GridNormal, grid_normal

__all__ = ["ExactGaussian"]

_BYTE = 255
# An input may be off its point of the grid by so many units in the last place: 0.1 is not a floating-point number.
_UNITS = 4


@dataclass(frozen=True)
class ExactGaussian(Noise):
    """Gaussian noise for inputs that are multiples of 1/levels, which are rounded to such multiples after the noise.

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", _checks.count("levels", self.levels, least=1))

    @property
    def centre(self) -> str:
        """The point of the grid: floating point has no number for most multiples of 1/levels."""
        return f"the input, each number of which stands for the nearest multiple of 1/{self.levels}"

    @property
    def setting(self) -> str:
        """The levels, unless they are those of 8 bits."""
        return "" if self.levels == _BYTE else str(self.levels)

    @classmethod
    def of(cls, setting: str) -> ExactGaussian:
        """The noise with this many levels, written as in ``exact:16``."""
        if not setting:
            return cls()
        if not (setting.isascii() and setting.isdecimal() and len(setting) < 10):
            raise InvalidArgumentError(
                f"noise must be exact, or exact:LEVELS with the number of steps from 0 to 1, got exact:{setting:.20}"
            )
        return cls(int(setting))

    def words(self, sigma: float) -> str:
        """The standard deviation and the grid, in words."""
        return f"{Gaussian().words(sigma)}, after which inputs are rounded to multiples of 1/{self.levels}"

    def error(self, sigma: float) -> float:
        """Bound on the total variation distance between one number that is drawn and one of the distribution."""
        return self._numbers(sigma).error

    def kind(self, sigma: float, dtype: torch.dtype) -> torch.dtype:
        """Whole numbers of 16 bits, or of 32 where these do not suffice."""
        return torch.int16 if self._numbers(sigma).table.dtype == np.int16 else torch.int32

    def fill(self, out: NDArray[Any], generator: np.random.Generator, sigma: float) -> None:
        """Overwrite ``out`` with whole numbers of steps."""
        self._numbers(sigma).fill(out, generator)

    def base(self, x: Tensor) -> Tensor:
        """The input in steps of the grid; refused if it is not on the grid."""
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
        """Add in whole numbers, which floating point does without rounding here, and convert once."""
        return torch.add(base, drawn, out=out).div_(self.levels)

    def _numbers(self, sigma: float) -> GridNormal:
        return _in_steps(sigma, self.levels)


@functools.lru_cache(maxsize=16)
def _in_steps(sigma: float, levels: int) -> GridNormal:
    """It is asked for with every block of noise, and fractions are slow."""
    return grid_normal(Fraction(sigma) * levels)
