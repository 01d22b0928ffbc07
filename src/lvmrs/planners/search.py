"""Search over candidate maps: moments of selection scores, and forecasts of the radius for n samples.

**Score moments** are means and variances of the scores of all classes, for every candidate map. With
very many classes, only the strongest have a column each. One further column holds the best score of all others in each
sample. Its mean is at least that of each of them, so forecasts do not underestimate a rival.

**Forecasts** are computed from the moments of n0 samples, for many candidates at once. No certificate relies on them: a
bad forecast makes a radius smaller, never false. Bounds are forecast with their width at n samples, not at n0, so that
the variance of a candidate gets its true weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmrs.errors import InvalidArgumentError, shown
from lvmrs.kernel import checks
from lvmrs.kernel.bounds.base import Bound
from lvmrs.kernel.checks import Floats, Numbers
from lvmrs.kernel.maps import SimplexMap, Slopes, below_largest, usable
from lvmrs.kernel.radius import R2, Form, Ramp
from lvmrs.kernel.scores import Moments, in_portions, statistics_device
from lvmrs.kernel.terms import Choice, Terms
from lvmrs.registry import BOUNDS, simplex_map


def geometric(first: float, last: float, count: int) -> tuple[float, ...]:
    """``count`` numbers from ``first`` to ``last`` with equal ratios.

    Powers of NumPy arrays differ in their last digits between processors. Python's own powers of single numbers do not,
    so that a run can be resumed on another machine.

    >>> geometric(0.01, 1, 3)
    (0.01, 0.1, 1.0)
    """
    exponents = np.linspace(math.log10(first), math.log10(last), count).tolist()
    return (float(first), *(math.pow(10, exponent) for exponent in exponents[1:-1]), float(last))


# The paper's grid: 50 temperatures from 0.01 to 50.
TEMPERATURES = geometric(0.01, 50, 50)
# Number of samples in a sweep: each sweep has a fixed cost.
_PORTION = 2048
# The largest number of classes with a column each in a search over many candidates.
MANY_CLASSES = 1024
# A class is strong if it is often among this many of the largest logits.
_LEADERS = 8


@dataclass(frozen=True)
class ScoreMoments:
    """Mean and variance of the score of each class, one row for each candidate, as shares of the mass.

    >>> found = ScoreMoments.of([torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0]])], maps=["hardmax"])
    >>> found.mean.round(4).tolist()
    [[0.6667, 0.3333]]
    """

    n0: int
    """Number of samples."""
    maps: tuple[SimplexMap, ...]
    """The candidates."""
    classes: int
    """Number of classes."""
    mean: Floats
    """Shape (candidates, columns). The columns are the classes, or those of ``kept``."""
    variance: Floats
    """Shape (candidates, columns)."""
    kept: NDArray[np.intp]
    """The classes with a column each, in order; if these are not all, one last column is for the others."""

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """For each candidate, the columns by descending mean; equal means are ordered by column number.

        The column of all other classes never comes first.
        """
        order = np.argsort(-self.mean, axis=1, kind="stable").astype(np.intp)
        no_class = order[:, 0] == len(self.kept)
        order[no_class, :2] = order[no_class, 1::-1]
        return order

    @property
    def tops(self) -> NDArray[np.intp]:
        """For each candidate, the class with the largest mean."""
        return self.kept[self.order[:, 0]]

    @property
    def rest(self) -> Floats:
        """For each candidate, the sum of the mean scores of all classes without a column."""
        if len(self.kept) == self.classes:
            return np.zeros(len(self.mean))
        left: Floats = np.clip(1 - self.mean.sum(axis=1), 0.0, 1.0)
        return left

    def ranked(self, row: int) -> list[int]:
        """All classes for one candidate, the strongest first; classes without their own column come last."""
        order = self.order[row]
        weak = np.setdiff1d(np.arange(self.classes), self.kept, assume_unique=True)
        return [*self.kept[order[order < len(self.kept)]].tolist(), *weak.tolist()]

    @classmethod
    def of(
        cls,
        logits: Iterable[Tensor],
        *,
        maps: Sequence[str],
        temperatures: Sequence[float] = (),
        mass: float = 1.0,
        most: int | None = None,
    ) -> ScoreMoments:
        """The moments of logits, in batches (samples, classes).

        Each soft map is a candidate at each of the ``temperatures``; hardmax is one candidate. At most ``most`` classes
        have a column each.
        """
        kinds = [simplex_map(name) for name in maps]
        families = [_family(kind, tuple(temperatures), mass) for kind in kinds]
        if not all(families):
            raise InvalidArgumentError(f"temperatures is empty; {', '.join(maps)} need at least one")
        totals: list[Moments] = []
        kept: Tensor | None = None
        classes = 0
        for portion in in_portions(logits, _PORTION):
            if not totals:
                classes = portion.shape[1]
                kept = None if most is None or classes <= most else _strongest(portion, most)
            parts = [
                sweep(kind, portion, [each.temperature for each in family], mass=mass, kept=kept)
                for kind, family in zip(kinds, families, strict=True)
            ]
            totals = [total + part for total, part in zip(totals, parts, strict=True)] if totals else parts
        if not totals:
            raise InvalidArgumentError("no selection scores were given; n0 must be at least 1")
        n0 = totals[0].count
        squares = torch.cat([total.squares for total in totals]).cpu().numpy()
        return cls(
            n0=n0,
            maps=tuple(each for family in families for each in family),
            classes=classes,
            mean=torch.cat([total.mean for total in totals]).cpu().numpy() / mass,
            variance=squares / max(1, n0 - 1) / mass**2,
            kept=np.arange(classes) if kept is None else kept.numpy().astype(np.intp),
        )


@lru_cache(maxsize=32)  # mostly the same for all inputs
def _family(kind: type[SimplexMap], temperatures: tuple[float, ...], mass: float) -> tuple[SimplexMap, ...]:
    return kind.family(temperatures, mass)


def _strongest(logits: Tensor, most: int) -> Tensor:
    """The classes most often among the largest logits of a sample, and those with the largest mean logits; in order.

    The former can be the top class at low temperatures, the latter at high temperatures.
    """
    leaders = logits.topk(min(_LEADERS, logits.shape[1]), dim=1).indices.flatten().cpu()
    often = torch.bincount(leaders, minlength=logits.shape[1]).argsort(descending=True, stable=True)
    large = logits.mean(dim=0).cpu().argsort(descending=True, stable=True)
    leading = often[: most * 3 // 4]
    more = large[torch.isin(large, leading, invert=True)][: most - len(leading)]
    return torch.cat([leading, more]).sort().values


# Less than any radius, and more than the −∞ of a bound that is not valid for a candidate.
_LOWEST = -1e300


@dataclass(frozen=True)
class Bounding:
    """A bound, and whether it is two-sided: then the rivals are bounded too, at half of the risk."""

    bound: Bound
    two_sided: bool

    @property
    def share(self) -> float:
        """The share of the risk for the bound on the top class."""
        return 0.5 if self.two_sided else 1.0


@dataclass(frozen=True)
class Forecast:
    """The forecast radius of one form for each candidate, with the best way of bounding."""

    form: Form
    expected: Floats
    """The radius of each candidate; if p_a < p_b, minus the radius of the swapped pair."""
    boundings: list[Bounding]
    """The best way of bounding for each candidate."""

    def choice(self, moments: ScoreMoments, row: int, terms: Terms) -> Choice:
        """The choice for one candidate, with its best way of bounding."""
        bounding, order = self.boundings[row], moments.ranked(row)
        return Choice(
            top=order[0],
            classes=moments.classes,
            map=moments.maps[row],
            bound=bounding.bound,
            form=self.form if bounding.two_sided else self.form.one_sided,
            risk_top=terms.alpha * bounding.share,
            risk_rival=terms.alpha * (1 - bounding.share),
            alone=bounding.bound.alone(order[1:], others=1) if bounding.two_sided else None,
        )


def forms_for(terms: Terms) -> tuple[Form, ...]:
    """The forms to try: R2, and the ramp radius if a Lipschitz constant is known."""
    return (R2(),) if math.isinf(terms.lipschitz) else (R2(), Ramp())


def forecasts(moments: ScoreMoments, terms: Terms, *, bounds: Sequence[str], forms: Sequence[Form]) -> list[Forecast]:
    """Forecast the radius of each candidate, for each form, with the best way of bounding.

    Bounds for 0/1 scores are tried for votes only; if there are any, votes are tried with no others.
    """
    kinds = [BOUNDS.find(name) for name in bounds]
    votes = np.array([each.binary for each in moments.maps])
    counted = votes & any(kind.votes_only for kind in kinds)
    boundings = [Bounding(kind(), two) for kind in kinds for two in (False, True)]
    means = np.take_along_axis(moments.mean, moments.order, axis=1)
    variances = np.take_along_axis(moments.variance, moments.order, axis=1)
    low, high = np.zeros((2, len(boundings), len(votes)))
    for i, bounding in enumerate(boundings):
        meant = counted if bounding.bound.votes_only else ~counted
        low[i], high[i] = -1.0, 1.0
        if meant.any():
            low[i, meant], high[i, meant] = bounds_of(
                bounding, means[meant], variances[meant], terms, moments.rest[meant]
            )
    slopes, columns = _slopes(moments.maps, terms.lipschitz), np.arange(len(votes))

    def expected(form: Form, rows: NDArray[np.intp]) -> Floats:
        p_a, p_b = low[rows, columns], high[rows, columns]
        rounded = np.array([terms.allowance(each, form) if terms.rounding else 0.0 for each in moments.maps])
        less, more = np.maximum(p_a - rounded, 0.0), np.minimum(p_b + rounded, 1.0)
        radius = signed_radius(form, less, more, sigma=terms.sigma, slopes=slopes)
        return np.where(p_a < 0, -np.inf, np.maximum(radius, _LOWEST))

    # R2 is fast and compares all ways of bounding; other forms are tried with the best one and the best one-sided one.
    simple = expected(R2(), np.arange(len(boundings))[:, None])
    one_sided = np.array([not bounding.two_sided for bounding in boundings])
    tried = np.stack([simple.argmax(axis=0), np.where(one_sided[:, None], simple, -np.inf).argmax(axis=0)])
    found = []
    for form in forms:
        each = np.stack([expected(form, rows) for rows in tried])
        chosen = tried[each.argmax(axis=0), columns]
        found.append(Forecast(form, each.max(axis=0), [boundings[i] for i in chosen]))
    return found


def signed_radius(form: Form, low: Floats, high: Floats, *, sigma: float, slopes: Slopes) -> Floats:
    """The radius where low ≥ high; else minus the radius of the swapped pair, as a measure of the deficit."""
    size = form.radius(np.maximum(low, high), np.minimum(low, high), sigma=sigma, slopes=slopes)
    signed: Floats = np.where(low >= high, size, -size)
    return signed


def best(found: list[Forecast]) -> tuple[int, Forecast]:
    """The row of the candidate with the largest expected radius (the first in a tie), and the forecast of its form."""
    top = max(found, key=lambda forecast: float(forecast.expected.max()))
    return int(top.expected.argmax()), top


def bounds_of(
    bounding: Bounding, means: Floats, variances: Floats, terms: Terms, rest: Floats | None = None
) -> tuple[Floats, Floats]:
    """Forecast the bounds on the top class and on its strongest rival for n samples.

    ``means`` and ``variances`` are those of the scores (candidates, classes), the largest mean first; ``rest`` is, for
    each candidate, the sum of the mean scores that are not in ``means``.
    """
    risk_top = terms.alpha * bounding.share
    low = bounding.bound.forecast(means[:, 0], variances[:, 0], terms.n, risk_top)
    if not bounding.two_sided:
        return low, 1 - low
    alone = bounding.bound.alone(range(1, means.shape[1]), others=1)
    mean, variance = _pooled(means[:, 1:], variances[:, 1:], None if alone is None else len(alone), rest)
    upper = 1 - bounding.bound.forecast(1 - mean, variance, terms.n, terms.alpha - risk_top)
    return low, np.minimum(upper.max(axis=1), 1 - low)


def _pooled(means: Floats, variances: Floats, alone: int | None, rest: Floats | None) -> tuple[Floats, Floats]:
    """Moments of the first ``alone`` rivals, and of the sum of the others with its largest possible variance."""
    if alone is None:
        return means, variances
    more = np.zeros(len(means)) if rest is None else rest
    mean = np.clip(means[:, alone:].sum(axis=1, keepdims=True) + more[:, None], 0.0, 1.0)
    spread = np.sqrt(variances[:, alone:]).sum(axis=1, keepdims=True) + np.sqrt(more * (1 - more))[:, None]
    variance = np.minimum(spread**2, mean * (1 - mean))
    return np.hstack([means[:, :alone], mean]), np.hstack([variances[:, :alone], variance])


@lru_cache(maxsize=8)  # candidates are mostly the same for all inputs
def _slopes(maps: tuple[SimplexMap, ...], lipschitz: float) -> Slopes:
    """The Lipschitz constants of all candidates, as arrays."""
    each = [one.slopes(lipschitz) for one in maps]
    return Slopes(np.array([slopes.vector for slopes in each]), np.array([slopes.one for slopes in each]))


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
