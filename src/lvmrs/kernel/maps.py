"""Maps from logits to scores: the interface, the simplex maps hardmax, softmax and sparsemax, and duels.

A map gives, for each sample, one score for the top class and one for each rival (a simplex map), or one score for the
top class against each rival (a duel). The proof bounds the means of these *columns*. The map provides its columns, its
Lipschitz constants and its description; the proof never depends on its name.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from lvmrs.errors import InvalidArgumentError, ProofError
from lvmrs.kernel import checks
from lvmrs.kernel.checks import Floats, Numbers
from lvmrs.kernel.method import map_settings, smoothed_with
from lvmrs.kernel.scores import statistics_device

# The largest rounding error of the sum of a thousand scores in single precision.
_SUM = 1e-3


class Slopes(NamedTuple):
    """Lipschitz constants of scores; infinite if there are none."""

    vector: Floats
    """Constant of the vector of all scores."""
    one: Floats
    """Constant of the score of each single class."""


@dataclass(frozen=True)
class Map(ABC):
    """A map from logits to scores, with its temperature and mass."""

    temperature: float = 1.0
    """The divisor of the logits."""
    mass: float = 1.0
    """The sum of the scores of all classes."""

    name: ClassVar[str]
    simplex: ClassVar[bool] = False
    """Whether the map sends each logit vector to the simplex."""
    tempered: ClassVar[bool] = True
    """Whether the temperature has an effect."""
    binary: ClassVar[bool] = False
    """Whether scores are 0 or 1, and columns booleans; such scores have no Lipschitz constant."""
    paired: ClassVar[bool] = False
    """Whether a column compares the top class with a rival, as the pair (q, 1 − q)."""

    def __post_init__(self) -> None:
        for name in ("temperature", "mass"):
            value = checks.positive_number(name, getattr(self, name))
            object.__setattr__(self, name, value if name != "temperature" or self.tempered else 1.0)

    @abstractmethod
    def columns(self, logits: Tensor, top: int, alone: Tensor, pooled: Tensor) -> Tensor:
        """The scores that the proof bounds, one column each.

        Args:
            logits: finite logits of shape (samples, classes).
            top: the class to certify.
            alone: rivals with a column each.
            pooled: rivals that share one column, which is at most as favourable to the top class as the column of each
                of them; may be empty.

        Returns:
            Scores as shares of the mass, of shape (samples, columns): float64, or bool for 0/1 scores. The
            columns are the top class (not for a paired map), each class of ``alone``, and one for ``pooled`` if it is
            not empty.
        """

    @classmethod
    @abstractmethod
    def constants(cls, lipschitz: Numbers, *, temperature: Numbers = 1.0, mass: Numbers = 1.0) -> Slopes:
        """Lipschitz constants of the scores.

        Args:
            lipschitz: a constant of the vector of logits; ``inf`` if none is known.
            temperature: the divisor of the logits.
            mass: the sum of the scores. All three broadcast.
        """

    def slopes(self, lipschitz: float) -> Slopes:
        """Lipschitz constants of the scores as shares of the mass, for logits with the constant ``lipschitz``."""
        found = self.constants(lipschitz, temperature=self.temperature, mass=self.mass)
        return Slopes(*(np.asarray(constant / self.mass) for constant in found))

    @abstractmethod
    def classifier(self, noise: str) -> str:
        """The smoothed classifier, as a phrase before "answers with class 3"; ``noise`` is that of ``Noise.words``."""

    @property
    def settings(self) -> str:
        """Describes temperature and mass, as far as they have an effect."""
        return map_settings(self.temperature if self.tempered else None, self.mass)


class SimplexMap(Map):
    """A map of logits to the simplex {p ≥ 0, Σp = mass}. Authors implement ``apply`` and ``constants``."""

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
            mass: the sum of the scores.

        Yields:
            Scores of shape (classes, samples). Each may overwrite the memory of the one before.
        """
        return (cls(t, mass).apply(shifted).t().contiguous() for t in temperatures)

    @classmethod
    def family(cls, temperatures: Sequence[float], mass: float) -> tuple[SimplexMap, ...]:
        """One map for each temperature, or a single map if the temperature has no effect."""
        return tuple(cls(t, mass) for t in (temperatures if cls.tempered else (1.0,)))

    def columns(self, logits: Tensor, top: int, alone: Tensor, pooled: Tensor) -> Tensor:
        """The scores of the top class and of each class of ``alone``, and the sum of those of ``pooled``."""
        p = self.apply(logits)
        shares = p.to(statistics_device(p.device)).to(torch.float64) / self.mass
        sums = shares.sum(dim=1, keepdim=True)
        right = (sums - 1).abs().max() <= _SUM and shares.min() >= 0  # false where a score is NaN
        if shares.shape != logits.shape or not right:
            raise ProofError(f"the map {self.name} gives scores that are not at least 0 with sum {self.mass:g}")
        shares /= sums  # rivals are bounded by 1 − p_a, so the sum must be exactly 1
        parts = [shares[:, top : top + 1], shares[:, alone.to(shares.device)]]
        if len(pooled):
            parts.append(shares[:, pooled.to(shares.device)].sum(dim=1, keepdim=True))
        return torch.cat(parts, dim=1).clamp_(max=1.0)

    def classifier(self, noise: str) -> str:
        """The classifier smoothed with this map."""
        return smoothed_with(noise, self.name, self.settings)


def usable(logits: Tensor, temperature: Numbers, mass: Numbers, *, dims: int = 1) -> tuple[Tensor, float, float]:
    """Check logits, temperature and mass, and convert them for the maps.

    Args:
        logits: floating tensor of at least ``dims`` dimensions, finite and not empty.
        temperature: a single positive number.
        mass: a single positive number.
        dims: the least number of dimensions of the logits.

    Returns:
        The logits in float32 or better, the temperature and the mass. Temperature, mass and their product lie in the
        range of normal numbers of the logits' precision.
    """
    checks.finite_tensor("logits", logits, dims=dims)
    if logits.dtype.itemsize < 4:
        logits = logits.float()
    t, r = checks.positive_number("temperature", temperature), checks.positive_number("mass", mass)
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


# ---------------------------------------------------------------------------------------------------------------------
# Hardmax: all mass on the largest logit; a mean score is then a share of votes.


def hardmax(logits: Tensor, *, temperature: float = 1.0, mass: float = 1.0) -> Tensor:
    """All mass on the largest logit; in a tie, on the one with the lowest index.

    Args:
        logits: finite logits; the last dimension is the classes.
        temperature: has no effect.
        mass: the sum of the scores.

    Returns:
        Scores of the same shape and precision (float32 for 16-bit logits).

    >>> hardmax(torch.tensor([0.5, 2.0, 2.0])).tolist()
    [0.0, 1.0, 0.0]
    """
    logits, _, mass = usable(logits, temperature, mass)
    return torch.zeros_like(logits).scatter_(-1, logits.argmax(dim=-1, keepdim=True), mass)


class Hardmax(SimplexMap):
    """Votes: 0/1 scores that have no Lipschitz constant."""

    name: ClassVar[str] = "hardmax"
    binary: ClassVar[bool] = True
    tempered: ClassVar[bool] = False

    def apply(self, logits: Tensor) -> Tensor:
        """All mass on the largest logit."""
        return hardmax(logits, mass=self.mass)

    @classmethod
    def over_temperatures(cls, shifted: Tensor, temperatures: Sequence[float], mass: float) -> Iterator[Tensor]:
        """The same scores for each temperature."""
        p = hardmax(shifted, mass=mass).t().contiguous()
        return (p for _ in temperatures)

    def columns(self, logits: Tensor, top: int, alone: Tensor, pooled: Tensor) -> Tensor:
        """Whether each column has the largest logit, as booleans."""
        width = 1 + len(alone) + bool(len(pooled))
        column = torch.full((logits.shape[1],), width)  # one extra column for classes without a column
        column[top] = 0
        column[alone] = torch.arange(1, 1 + len(alone))
        column[pooled] = width - 1
        won = column.to(logits.device)[logits.argmax(dim=1)]
        shares = torch.zeros(len(logits), width + 1, dtype=torch.bool, device=logits.device)
        return shares.scatter_(1, won[:, None], True)[:, :width]

    @classmethod
    def constants(cls, lipschitz: Numbers, *, temperature: Numbers = 1.0, mass: Numbers = 1.0) -> Slopes:
        """Infinite constants, since votes are discontinuous."""
        arguments = checks.constant(lipschitz), checks.positive("temperature", temperature), checks.mass(mass)
        checks.broadcast(lipschitz=arguments[0], temperature=arguments[1], mass=arguments[2])
        unknown = np.full(np.broadcast_shapes(*(array.shape for array in arguments)), np.inf)
        return Slopes(unknown, unknown)


# ---------------------------------------------------------------------------------------------------------------------
# Softmax of z/t, times the mass.


def softmax(logits: Tensor, *, temperature: float = 1.0, mass: float = 1.0) -> Tensor:
    """Softmax of z/t, times the mass.

    In float64 it agrees with its definition to a relative 10⁻⁹.

    Args:
        logits: finite logits z; the last dimension is the classes.
        temperature: t.
        mass: the sum of the scores.

    Returns:
        Scores of the same shape and precision (float32 for 16-bit logits). Gradients flow through it.

    >>> softmax(torch.tensor([0.0, 2.0]), temperature=2.0).tolist()
    [0.2689414322376251, 0.7310585975646973]
    """
    logits, temperature, mass = usable(logits, temperature, mass)
    p = functional.softmax(below_largest(logits) / temperature, dim=-1)
    return p if mass == 1.0 else p * mass


class Softmax(SimplexMap):
    """Softmax: ½ r L/t-Lipschitz as a vector, (√2/4) r L/t for a class."""

    name: ClassVar[str] = "softmax"

    def apply(self, logits: Tensor) -> Tensor:
        """Softmax of z/t, times the mass."""
        return softmax(logits, temperature=self.temperature, mass=self.mass)

    @classmethod
    def over_temperatures(cls, shifted: Tensor, temperatures: Sequence[float], mass: float) -> Iterator[Tensor]:
        """Scores at each temperature, all in the same memory."""
        by_class = shifted.t().contiguous()
        p = torch.empty_like(by_class)
        # Denormal numbers are many times slower than normal ones: exponents are clipped before them, at 1e-35 in
        # float32.
        floor = 0.9 * math.log(torch.finfo(p.dtype).tiny)
        for t in temperatures:
            torch.div(by_class, t, out=p).clamp_(min=floor).exp_()
            p *= mass / p.sum(dim=0)
            yield p

    @classmethod
    def constants(cls, lipschitz: Numbers, *, temperature: Numbers = 1.0, mass: Numbers = 1.0) -> Slopes:
        """½ r L/t as a vector, (√2/4) r L/t for a class."""
        slope, t, r = checks.constant(lipschitz), checks.positive("temperature", temperature), checks.mass(mass)
        checks.broadcast(lipschitz=slope, temperature=t, mass=r)
        return Slopes(0.5 * r * slope / t, np.sqrt(2) / 4 * r * slope / t)


# ---------------------------------------------------------------------------------------------------------------------
# Sparsemax: the Euclidean projection of z/t on the simplex of mass r.
#
# ==========================  ===================================================================================
# paper                       here
# ==========================  ===================================================================================
# κ(z), ρ(z)                  ``support`` (number of classes with mass), ``threshold`` (subtracted from every logit)
# Σ_{j≤k} z_(j) − k z_(k)     ``onset`` of the k-th largest logit: it has mass if t·r exceeds this
# ==========================  ===================================================================================
#
# The order of z/t is the order of z and the onsets do not depend on t, so one sort serves all temperatures. Sparsemax:
# Martins and Astudillo (2016); mass r: Delattre et al. (2024), generalised sparsemax.


def sparsemax(logits: Tensor, *, temperature: float = 1.0, mass: float = 1.0) -> Tensor:
    """Euclidean projection of z/t on the simplex of mass r.

    In float64 it agrees with a projection by bisection to a relative 10⁻⁹ and an absolute 10⁻¹⁰ r/t.

    Args:
        logits: finite logits z; the last dimension is the classes.
        temperature: t.
        mass: r, the sum of the scores.

    Returns:
        Scores of the same shape and precision (float32 for 16-bit logits); classes far behind have exactly 0.
        Gradients flow through it.

    >>> sparsemax(torch.tensor([0.0, 1.0, 1.5])).tolist()
    [0.0, 0.25, 0.75]
    """
    logits, temperature, mass = usable(logits, temperature, mass)
    shifted = below_largest(logits)
    threshold = _threshold(*_descending_and_onset(shifted), shifted.new_tensor([temperature * mass]))
    return (shifted - threshold).clamp(min=0) / temperature


class Sparsemax(SimplexMap):
    """Sparsemax: L/t-Lipschitz for any mass."""

    name: ClassVar[str] = "sparsemax"

    def apply(self, logits: Tensor) -> Tensor:
        """Euclidean projection of z/t on the simplex of mass r."""
        return sparsemax(logits, temperature=self.temperature, mass=self.mass)

    @classmethod
    def over_temperatures(cls, shifted: Tensor, temperatures: Sequence[float], mass: float) -> Iterator[Tensor]:
        """Scores at each temperature, from one sort and all in the same memory."""
        reach = shifted.new_tensor(temperatures) * mass
        thresholds = _threshold(*_descending_and_onset(shifted), reach).t().contiguous()
        by_class = shifted.t().contiguous()
        p = torch.empty_like(by_class)
        for t, threshold in zip(temperatures, thresholds, strict=True):
            torch.add(-threshold / t, by_class, alpha=1 / t, out=p).clamp_(min=0)
            yield p

    @classmethod
    def constants(cls, lipschitz: Numbers, *, temperature: Numbers = 1.0, mass: Numbers = 1.0) -> Slopes:
        """L/t, both as a vector and for a class."""
        slope, t, r = checks.constant(lipschitz), checks.positive("temperature", temperature), checks.mass(mass)
        checks.broadcast(lipschitz=slope, temperature=t, mass=r)
        constant = slope / t * np.ones_like(r)
        return Slopes(constant, constant)


def _descending_and_onset(shifted: Tensor) -> tuple[Tensor, Tensor]:
    """Sorted logits z_(1) ≥ z_(2) ≥ …, and for each k the t·r above which the k-th logit has mass.

    The onset is Σ_{j≤k} z_(j) − k z_(k), summed from the gaps k (z_(k) − z_(k+1)) without cancellation; it is monotone.
    """
    descending = shifted.sort(dim=-1, descending=True).values
    ranks = torch.arange(1, shifted.shape[-1], dtype=shifted.dtype, device=shifted.device)
    gaps = (descending[..., :-1] - descending[..., 1:]) * ranks
    return descending, functional.pad(gaps.cumsum(dim=-1), (1, 0))


def _threshold(descending: Tensor, onset: Tensor, reach: Tensor) -> Tensor:
    """The number that the projection on the simplex of mass ``reach`` = t·r subtracts from every logit."""
    wanted = reach.expand(*onset.shape[:-1], len(reach)).contiguous()
    support = torch.searchsorted(onset.detach(), wanted)  # the number of onsets below t·r
    last = support - 1
    return descending.gather(-1, last) - (wanted - onset.gather(-1, last)) / support


# ---------------------------------------------------------------------------------------------------------------------
# Duels: the top class against one rival at a time.
#
# A duel measures, for each rival k, how often the top class A beats k: q_k = E ψ(f_A − f_k), with ψ the step (``Duel``)
# or a ramp of some width (``SoftDuel``). Votes count only the winner of each sample, and lose this information.
# **The duel classifier** answers with the class whose q_k exceeds ½ for every rival k (the Condorcet winner), and
# abstains if there is none. Since ψ(m) + ψ(−m) ≤ 1, two classes cannot both win.
#
# The pair (q_k, 1 − q_k) is a smoothed classifier of two classes, so every form of the radius holds for it, with
# 1 − q_k as the score of the rival. Ties of logits count as lost. Several rivals are pooled by their largest logit: a
# duel with the best of them is won no more often than a duel with each of them.


def _rivals(logits: Tensor, alone: Tensor, pooled: Tensor) -> Tensor:
    """The logits of each class of ``alone``, and the largest logit of ``pooled``."""
    parts = [logits[:, alone.to(logits.device)]]
    if len(pooled):
        parts.append(logits[:, pooled.to(logits.device)].amax(dim=1, keepdim=True))
    return torch.cat(parts, dim=1)


class _Duels(Map):
    paired: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mass != 1.0:
            raise InvalidArgumentError(f"mass must be 1 for a duel, got {self.mass:g}")


class Duel(_Duels):
    """The step: 1 where the logit of the top class is the larger one, 0 elsewhere.

    >>> logits = torch.tensor([[2.0, 0.0, 1.0], [0.5, 0.0, 1.0]])
    >>> Duel().columns(logits, top=0, alone=torch.tensor([1, 2]), pooled=torch.tensor([], dtype=torch.long)).tolist()
    [[True, True], [True, False]]
    """

    name: ClassVar[str] = "duel"
    binary: ClassVar[bool] = True
    tempered: ClassVar[bool] = False

    def columns(self, logits: Tensor, top: int, alone: Tensor, pooled: Tensor) -> Tensor:
        """Whether the top class beats each rival."""
        return logits[:, top : top + 1] > _rivals(logits, alone, pooled)

    @classmethod
    def constants(cls, lipschitz: Numbers, *, temperature: Numbers = 1.0, mass: Numbers = 1.0) -> Slopes:
        """Infinite constants, since the step is discontinuous."""
        unknown = np.full(np.shape(checks.constant(lipschitz)), np.inf)
        return Slopes(unknown, unknown)

    def classifier(self, noise: str) -> str:
        """The duel classifier."""
        return f"the classifier that takes the winner of all duels under {noise}"


class SoftDuel(_Duels):
    """The ramp: clip(½ + m/(2t), 0, 1) of the margin m, rising over the width −t … t.

    If the logits have the Lipschitz constant L, the margin has √2 L, and the score L/(√2 t).

    >>> logits = torch.tensor([[2.0, 0.0, 1.5]])
    >>> SoftDuel(2.0).columns(logits, top=0, alone=torch.tensor([1]), pooled=torch.tensor([2])).tolist()
    [[1.0, 0.625]]
    """

    name: ClassVar[str] = "soft-duel"

    def columns(self, logits: Tensor, top: int, alone: Tensor, pooled: Tensor) -> Tensor:
        """By how much the top class beats each rival."""
        exact = logits.to(statistics_device(logits.device)).to(torch.float64)
        margins = exact[:, top : top + 1] - _rivals(exact, alone, pooled)
        return margins.div_(2 * self.temperature).add_(0.5).clamp_(0.0, 1.0)

    @classmethod
    def constants(cls, lipschitz: Numbers, *, temperature: Numbers = 1.0, mass: Numbers = 1.0) -> Slopes:
        """L/(√2 t) for the score, √2 times as much for the pair (q, 1 − q)."""
        slope, t = checks.constant(lipschitz), checks.positive("temperature", temperature)
        checks.broadcast(lipschitz=slope, temperature=t)
        return Slopes(slope / t, slope / t / np.sqrt(2))

    def classifier(self, noise: str) -> str:
        """The soft duel classifier."""
        width = f"{self.temperature:.4g}"
        return f"the classifier that takes the winner of all soft duels of width {width} under {noise}"
