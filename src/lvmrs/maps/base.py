"""The interface of everything that can be smoothed.

A map gives, for each sample, one score for the top class and one for each rival (a simplex map), or one score for the
top class against each rival (a duel). The proof bounds the means of these *columns*; it asks the map for them, for
its Lipschitz constants and for its words, and never for its name.
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

__all__ = ["Map", "SimplexMap", "Slopes", "below_largest", "usable"]

# How far single precision may carry the sum of a thousand scores from their mass.
_SUM = 1e-3


class Slopes(NamedTuple):
    """Lipschitz constants: of the vector of scores, and of the score of one class."""

    vector: Floats
    one: Floats


@dataclass(frozen=True)
class Map(ABC):
    """What is smoothed, with its temperature and mass."""

    temperature: float = 1.0
    mass: float = 1.0

    name: ClassVar[str]
    simplex: ClassVar[bool] = False
    """Whether it maps each logit vector to the simplex."""
    tempered: ClassVar[bool] = True
    """Whether the temperature has an effect."""
    binary: ClassVar[bool] = False
    """Whether scores are 0 or 1, and columns booleans."""
    paired: ClassVar[bool] = False
    """Whether a column compares the top class with a rival: it then stands for the pair (q, 1 − q)."""

    def __post_init__(self) -> None:
        for name in ("temperature", "mass"):
            value = _checks.positive_number(name, getattr(self, name))
            object.__setattr__(self, name, value if name != "temperature" or self.tempered else 1.0)

    @abstractmethod
    def columns(self, logits: Tensor, top: int, alone: Tensor, pooled: Tensor) -> Tensor:
        """Scores of the samples as shares of the mass: (samples, columns), float64, or bool where they are 0 or 1.

        The columns are the top class (not for a paired map), each class of ``alone``, and one for all of ``pooled``
        together, if there are any. The pooled column is never better for the top class than any of its members.
        """

    @classmethod
    @abstractmethod
    def constants(cls, lipschitz: Numbers, *, temperature: Numbers = 1.0, mass: Numbers = 1.0) -> Slopes:
        """Lipschitz constants of the scores, where ``lipschitz`` is that of the vector of logits; arrays broadcast."""

    def slopes(self, lipschitz: float) -> Slopes:
        """Lipschitz constants of the scores as shares of the mass."""
        found = self.constants(lipschitz, temperature=self.temperature, mass=self.mass)
        return Slopes(*(np.asarray(constant / self.mass) for constant in found))

    @abstractmethod
    def classifier(self, sigma: float) -> str:
        """The smoothed classifier, in words that fit before "answers with class 3"."""

    @property
    def settings(self) -> str:
        """Temperature and mass in words, where they have an effect."""
        at = f" at temperature {self.temperature:.4g}" if self.tempered else ""
        return at if self.mass == 1.0 else f"{at} with mass {self.mass:.4g}"


class SimplexMap(Map):
    """A map of logits to the simplex {p ≥ 0, Σp = mass}. Authors write ``apply`` and ``constants``."""

    simplex: ClassVar[bool] = True

    @abstractmethod
    def apply(self, logits: Tensor) -> Tensor:
        """Scores of every class: the shape of the logits, at least 0, summing to the mass over the last dimension."""

    @classmethod
    def over_temperatures(cls, shifted: Tensor, temperatures: Sequence[float], mass: float) -> Iterator[Tensor]:
        """Scores (classes, samples) of logits (samples, classes) at each temperature; what is yielded may be reused.

        The logits are shifted so that the largest is 0. This is the plain way; maps that share work between
        temperatures have their own.
        """
        return (cls(t, mass).apply(shifted).t().contiguous() for t in temperatures)

    @classmethod
    def family(cls, temperatures: Sequence[float], mass: float) -> tuple[SimplexMap, ...]:
        """One map for each temperature; a single one where the temperature has no effect."""
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

    def classifier(self, sigma: float) -> str:
        """The classifier smoothed with this map."""
        return f"the classifier smoothed with σ = {sigma:g} and {self.name}{self.settings}"


def usable(logits: Tensor, temperature: Numbers, mass: Numbers, *, dims: int = 1) -> tuple[Tensor, float, float]:
    """The logits in single precision or better, and two numbers, once all are known to be usable."""
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
    """Logits minus their largest, kept finite."""
    return (logits - logits.amax(dim=-1, keepdim=True)).clamp(min=torch.finfo(logits.dtype).min)
