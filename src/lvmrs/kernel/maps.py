"""Maps from logits to scores: the interface, and the simplex maps hardmax, softmax and sparsemax.

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

from lvmrs.errors import InvalidArgumentError, ProofError, shown
from lvmrs.kernel import checks, torch_checks
from lvmrs.kernel.checks import Floats, Numbers
from lvmrs.kernel.method import map_settings, smoothed_with
from lvmrs.kernel.moments import Moments, statistics_device

__all__ = [
    "Hardmax",
    "Map",
    "SimplexMap",
    "Slopes",
    "Softmax",
    "Sparsemax",
    "below_largest",
    "hardmax",
    "softmax",
    "sparsemax",
    "sweep",
    "usable",
]

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
    torch_checks.finite_tensor("logits", logits, dims=dims)
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
# Moments of a simplex map at many temperatures from one pass over the logits.


# Numbers per chunk of a sweep: a few megabytes of memory, and enough samples to amortise the call overhead.
_CHUNK = 1 << 20


def sweep(
    kind: type[SimplexMap], logits: Tensor, temperatures: Numbers, *, mass: float = 1.0, kept: Tensor | None = None
) -> Moments:
    """Moments of the scores of every class at many temperatures, from one pass over the logits.

    Memory is needed for a chunk of the sample, not for T × n × c scores.

    Args:
        kind: class of the simplex map.
        logits: a sample of logits, of shape (…, n, c); n is the number of samples.
        temperatures: T temperatures.
        mass: the sum of the scores.
        kept: if given, the classes with a column each. One further column has the best score of the other classes in
            each sample; since a map preserves the order of the logits, its mean is at least that of each of them.

    Returns:
        Moments over the n samples, in float64, of shape (…, T, c); of shape (…, T, kept + 1) with ``kept``.

    >>> from lvmrs.kernel.maps import Sparsemax
    >>> sweep(Sparsemax, torch.tensor([[2.0, 0.0], [0.0, 1.0]]), [0.5, 2.0]).mean.tolist()
    [[0.5, 0.5], [0.625, 0.375]]
    """
    if not (isinstance(kind, type) and issubclass(kind, SimplexMap)):
        raise InvalidArgumentError(f"kind must be a class of simplex maps such as Softmax, got {shown(kind)}")
    values = checks.positive("temperatures", temperatures)
    if values.ndim != 1:
        raise InvalidArgumentError(f"temperatures must be one-dimensional, got shape {values.shape}")
    logits, _, mass = usable(logits.detach() if isinstance(logits, Tensor) else logits, values.min(), mass, dims=2)
    usable(logits[..., :1, :], values.max(), mass)
    *leading, n, c = logits.shape
    swept = values.tolist() if kind.tempered else [1.0]  # once if the temperature has no effect
    each = [_sweep_sample(sample, swept, kind, mass, kept) for sample in logits.reshape(-1, n, c)]
    shape = (*leading, len(values), c if kept is None else len(kept) + 1)
    mean, squares = (
        torch.stack([getattr(moments, name) for moments in each]).expand(-1, len(values), -1).reshape(shape)
        for name in ("mean", "squares")
    )
    return Moments(n, mean, squares)


def _sweep_sample(
    sample: Tensor, temperatures: Sequence[float], kind: type[SimplexMap], mass: float, kept: Tensor | None
) -> Moments:
    c = sample.shape[1]
    columns = c if kept is None else len(kept) + 1
    where = statistics_device(sample.device)
    total = Moments.empty((len(temperatures), columns), device=where)
    # A map may store a few numbers per sample and temperature.
    for chunk in torch.split(sample, max(1, _CHUNK // (c + 4 * len(temperatures)))):
        mean, norm = torch.empty(2, len(temperatures), columns, dtype=torch.float64, device=where)
        scores = torch.empty(columns, len(chunk), dtype=torch.float64, device=where)
        rows = None if kept is None else _kept_and_best_other(chunk, kept)
        # Scores are class-major, so that sums over classes and over samples both use contiguous memory.
        for i, p in enumerate(kind.over_temperatures(below_largest(chunk), temperatures, mass)):
            scores.copy_(p if rows is None else p.gather(0, rows))
            torch.mean(scores, dim=1, out=mean[i])
            scores -= mean[i, :, None]
            torch.linalg.vector_norm(scores, dim=1, out=norm[i])
        total = total + Moments(len(chunk), mean, norm.square_())
    return total


def _kept_and_best_other(logits: Tensor, kept: Tensor) -> Tensor:
    """For each sample, the kept classes and the one with the largest logit among the others: (kept + 1, samples)."""
    others = logits.index_fill(1, kept.to(logits.device), -torch.inf)
    return torch.cat([kept.to(logits.device)[:, None].expand(-1, len(logits)), others.argmax(dim=1)[None]])
