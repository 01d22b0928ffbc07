"""A map, a bound, a planner, and a noise with its form of the radius: all a user's own, in one file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmrs import Choice, Planner, Terms
from lvmrs.kernel.bounds import Bound, Tally, hoeffding
from lvmrs.kernel.bounds.base import Sides, TallyOfMoments
from lvmrs.kernel.bounds.betting import Betting
from lvmrs.kernel.maps import SimplexMap, Slopes, Softmax
from lvmrs.kernel.noise import Noise
from lvmrs.kernel.radius import R3, Form

Floats = NDArray[np.float64]


class Squares(SimplexMap):
    """Softmax scores squared and normalised: softmax at half the temperature, in other words."""

    name: ClassVar[str] = "squares"

    def apply(self, logits: Tensor) -> Tensor:
        p = torch.softmax(logits / self.temperature, dim=-1).square()
        return self.mass * p / p.sum(dim=-1, keepdim=True)

    @classmethod
    def constants(cls, lipschitz: Any, *, temperature: Any = 1.0, mass: Any = 1.0) -> Slopes:
        return Softmax.constants(lipschitz, temperature=np.asarray(temperature) / 2, mass=mass)


@dataclass(frozen=True)
class Careful(Bound):
    """Hoeffding at half the risk."""

    name: ClassVar[str] = "careful"

    def tally(self, n: int, risks: Floats, upper: Sides) -> Tally:
        return TallyOfMoments(n, risks / 2, upper, _lower, _upper)

    def forecast(self, mean: Floats, variance: Floats, n: int, risk: float) -> Floats:
        return hoeffding.lower(np.clip(mean, 0, 1), n, risk / 2)


def _lower(mean: Floats, _: Floats, n: int, risk: Floats) -> Floats:
    return hoeffding.lower(mean, n, risk)


def _upper(mean: Floats, _: Floats, n: int, risk: Floats) -> Floats:
    return hoeffding.upper(mean, n, risk)


@dataclass(frozen=True)
class LargestMean(Planner):
    """The class with the largest mean logit, softmax at one temperature, betting, R3."""

    temperature: float = 1.0

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        mean = torch.cat(list(logits)).mean(dim=0)
        return Choice(
            top=int(mean.argmax()),
            classes=len(mean),
            map=Softmax(self.temperature),
            bound=Betting(),
            form=R3(),
            risk_top=terms.alpha,
        )


@dataclass(frozen=True)
class Uniform(Noise):
    """Each number is moved by a uniform one in [−σ, σ]; radii are sums of absolute differences."""

    name: ClassVar[str] = "uniform"
    distance: ClassVar[str] = "the sum of absolute differences"
    length: ClassVar[str] = "‖x' − x‖₁"

    def fill(self, out: NDArray[Any], generator: np.random.Generator, sigma: float) -> None:
        out[...] = generator.uniform(-1, 1, out.shape)

    def words(self, sigma: float) -> str:
        return f"uniform noise in [−{sigma:g}, {sigma:g}]"


@dataclass(frozen=True)
class UniformForm(Form):
    """σ (p_a − p_b): a shift by δ moves the mean of scores in [0, 1] by ‖δ‖₁/(2σ) at most (Levine and Feizi 2021)."""

    name: ClassVar[str] = "uniform-l1"
    noises: ClassVar[tuple[str, ...]] = ("uniform",)

    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        return np.maximum(sigma * (p_a - p_b), 0.0)


MINE = LargestMean(0.3)
