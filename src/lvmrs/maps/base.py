"""The interface of everything that can be smoothed.

A map gives, for each sample, one score for the top class and one for each rival (a simplex map), or one score for the
top class against each rival (a duel). The proof bounds the means of these *columns*. It asks the map for its columns,
its Lipschitz constants and its words, and makes no decision by its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lvmrs import _checks, _torch_checks
from lvmrs._checks import Floats, Numbers
from lvmrs.errors import InvalidArgumentError, ProofError
from lvmrs.moments import statistics_device
from lvmrs.scope import map_settings, smoothed_with

__all__ = ["Map", "SimplexMap", "Slopes", "below_largest", "usable"]

# How far single precision may carry the sum of a thousand scores from their mass.
_SUM = 1e-3


class Slopes(NamedTuple):
    """Lipschitz constants of scores; infinite where there are none."""

    vector: Floats
    """Constant of the vector of all scores."""
    one: Floats
    """Constant that holds for the score of each single class."""


@dataclass(frozen=True)
class Map(ABC):
    """What is smoothed, with its temperature and mass."""

    temperature: float = 1.0
    """What the logits are divided by."""
    mass: float = 1.0
    """What the scores of all classes sum to."""

    name: ClassVar[str]
    simplex: ClassVar[bool] = False
    """Whether it maps each logit vector to the simplex."""
    tempered: ClassVar[bool] = True
    """Whether the temperature has an effect."""
    binary: ClassVar[bool] = False
    """Whether scores are 0 or 1, and columns booleans; such scores have no Lipschitz constant."""
    paired: ClassVar[bool] = False
    """Whether a column compares the top class with a rival: it then stands for the pair (q, 1 − q)."""

    def __post_init__(self) -> None:
        for name in ("temperature", "mass"):
            value = _checks.positive_number(name, getattr(self, name))
            object.__setattr__(self, name, value if name != "temperature" or self.tempered else 1.0)

    @abstractmethod
    def columns(self, logits: Tensor, top: int, alone: Tensor, pooled: Tensor) -> Tensor:
        """The scores that are bounded, one column each.

        Args:
            logits: finite logits of shape (samples, classes).
            top: the class that is to be certified.
            alone: rivals that have a column each.
            pooled: rivals that share one column, which is never better for the top class than that of any of them;
                may be empty.

        Returns:
            Scores as shares of the mass, of shape (samples, columns): float64, or bool where they are 0 or 1. The
            columns are the top class (not for a paired map), each class of ``alone``, and one for ``pooled`` if it is
            not empty.
        """

    @classmethod
    @abstractmethod
    def constants(cls, lipschitz: Numbers, *, temperature: Numbers = 1.0, mass: Numbers = 1.0) -> Slopes:
        """Lipschitz constants of the scores.

        Args:
            lipschitz: a constant of the vector of logits; ``inf`` if none is known.
            temperature: what the logits are divided by.
            mass: what the scores sum to. All three broadcast.
        """

    def slopes(self, lipschitz: float) -> Slopes:
        """Lipschitz constants of the scores as shares of the mass, for logits with the constant ``lipschitz``."""
        found = self.constants(lipschitz, temperature=self.temperature, mass=self.mass)
        return Slopes(*(np.asarray(constant / self.mass) for constant in found))

    @abstractmethod
    def classifier(self, noise: str) -> str:
        """The smoothed classifier, in words that fit before "answers with class 3"; ``noise`` is that in words."""

    @property
    def settings(self) -> str:
        """Temperature and mass in words, where they have an effect."""
        return map_settings(self.temperature if self.tempered else None, self.mass)


class SimplexMap(Map):
    """A map of logits to the simplex {p ≥ 0, Σp = mass}. Authors write ``apply`` and ``constants``."""

    simplex: ClassVar[bool] = True

    @abstractmethod
    def apply(self, logits: Tensor) -> Tensor:
        """Scores of every class.

        Args:
            logits: finite logits; the last dimension is the classes.

        Returns:
            Scores of the same shape, at least 0; over the last dimension they sum to the mass.
        """

    @classmethod
    def over_temperatures(cls, shifted: Tensor, temperatures: Sequence[float], mass: float) -> Iterator[Tensor]:
        """Scores at each temperature, one after another.

        This applies the map at each temperature; maps that can share work between temperatures override it.

        Args:
            shifted: logits of shape (samples, classes), shifted so that the largest of each sample is 0.
            temperatures: the temperatures.
            mass: what the scores sum to.

        Yields:
            Scores of shape (classes, samples). The next one may overwrite the memory of this one.
        """
        return (cls(t, mass).apply(shifted).t().contiguous() for t in temperatures)

    @classmethod
    def family(cls, temperatures: Sequence[float], mass: float) -> tuple[SimplexMap, ...]:
        """One map for each temperature, or a single map if the temperature has no effect."""
        return tuple(cls(t, mass) for t in (temperatures if cls.tempered else (1.0,)))

    def columns(self, logits: Tensor, top: int, alone: Tensor, pooled: Tensor) -> Tensor:
        """The shares of the top class, of each class of ``alone``, and of all of ``pooled`` together."""
        p = self.apply(logits)
        shares = p.to(statistics_device(p.device)).to(torch.float64) / self.mass
        sums = shares.sum(dim=1, keepdim=True)
        right = (sums - 1).abs().max() <= _SUM and shares.min() >= 0  # false where a score is NaN
        if shares.shape != logits.shape or not right:
            raise ProofError(f"the map {self.name} gives scores that are not at least 0 with sum {self.mass:g}")
        shares /= sums  # rivals are bounded by what the top class leaves, so what rounding added must go
        parts = [shares[:, top : top + 1], shares[:, alone.to(shares.device)]]
        if len(pooled):
            parts.append(shares[:, pooled.to(shares.device)].sum(dim=1, keepdim=True))
        return torch.cat(parts, dim=1).clamp_(max=1.0)

    def classifier(self, noise: str) -> str:
        """The classifier smoothed with this map."""
        return smoothed_with(noise, self.name, self.settings)


def usable(logits: Tensor, temperature: Numbers, mass: Numbers, *, dims: int = 1) -> tuple[Tensor, float, float]:
    """Check logits, temperature and mass, and return them in the form that the maps compute with.

    Args:
        logits: floating tensor of at least ``dims`` dimensions, finite and not empty.
        temperature: a single positive number.
        mass: a single positive number.
        dims: how many dimensions the logits must have at least.

    Returns:
        The logits in float32 or better, the temperature and the mass. Temperature, mass and their product lie in the
        range of normal numbers of the logits' precision.
    """
    _torch_checks.finite_tensor("logits", logits, dims=dims)
    if logits.dtype.itemsize < 4:
        logits = logits.float()
    t, r = _checks.positive_number("temperature", temperature), _checks.positive_number("mass", mass)
    limits = torch.finfo(logits.dtype)
    for name, value in (("temperature", t), ("mass", r), ("temperature × mass", t * r)):
        if not limits.tiny <= value <= limits.max:
            span = f"[{limits.tiny:.2g}, {limits.max:.2g}] of {logits.dtype}"
            raise InvalidArgumentError(f"{name} must lie within {span}, got {value:.3g}")
    return logits, t, r


def below_largest(logits: Tensor) -> Tensor:
    """Logits minus the largest of each row (last dimension), kept finite.

    >>> below_largest(torch.tensor([1.0, 3.0])).tolist()
    [-2.0, 0.0]
    """
    return (logits - logits.amax(dim=-1, keepdim=True)).clamp(min=torch.finfo(logits.dtype).min)
