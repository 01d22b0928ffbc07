"""Certified radii from bounds on the smoothed scores.

========  ======================================================================================================
``r1``    the margin over a Lipschitz constant of the smoothed classifier (Tsuzuku et al. 2018)
``r2``    Gaussian quantiles of both bounds (Cohen et al. 2019; Salman et al. 2019)
``r3``    the same from p_a alone, as p_b ≤ 1 − p_a
``ramp``  the noise together with a Lipschitz constant of the scores before smoothing; no smaller than all of these
========  ======================================================================================================

**What all of them take and return.** ``p_a`` is a lower bound on the score of the top class and ``p_b`` an upper
bound on the score of every other class, both in [0, mass]; ``sigma`` is the standard deviation of the noise; ``mass``
is what the scores sum to. Each may be a number or an array, and they broadcast. The result is a float64 array of the
shape that they have together, or a single number. If the bounds hold at x, the smoothed classifier answers with the
top class at every point closer to x than the radius. A radius of 0 certifies nothing.

**Accuracy.** The radii agree with a 50-digit reference to a relative 10⁻⁸ for p from 10⁻¹⁰ to 1 − 10⁻¹⁰ (also where
p_a and p_b differ by a relative 10⁻¹⁴ only), σ from 0.01 to 10 and Lipschitz constants from 10⁻³ to 10⁶ and ∞.

**The ramp radius.** Among L-Lipschitz functions into [0, 1] of Gaussian mean p, the one whose mean falls fastest as
the input moves is the ramp clip(L(z − s), 0, 1). With the centre c of the ramp in units of σ, and G(c) its mean
(below): if x moves by ε, the centre of the ramp of mean p moves by at most ε/σ. So classes A and B cannot
meet within σ (G⁻¹(p_b) − G⁻¹(p_a))/2 with the constant of one class, nor can the score (1 + p_a − p_b)/2, which has
the constant L_vec/√2, reach ½ within σ G⁻¹((1 − p_a + p_b)/2). For L = ∞, G⁻¹ is −Φ⁻¹ and the first is R2; for σ → 0
the second is the deterministic radius (p_a − p_b)/(√2 L_vec).

=====================  ==================================================================================
theory                 here
=====================  ==================================================================================
p̲_A, p̄_B               ``p_a``, ``p_b``
L_vec, L_k             ``lipschitz`` (of the vector of scores), ``class_lipschitz`` (of one score)
s(p)                   σ(c − w/2); the radii need only the centre c
=====================  ==================================================================================
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from lvmrs.kernel import checks, lipschitz
from lvmrs.kernel.checks import Floats, Numbers

if TYPE_CHECKING:
    from lvmrs.kernel.maps import Slopes


# Smaller probabilities are treated as equal.
_TINY = 1e-300
# A float64 has no more decimals.
_DIGITS = 1074


def r1(p_a: Numbers, p_b: Numbers, *, lipschitz: Numbers, mass: Numbers = 1.0) -> Floats:
    """(p_a − p_b)/(√2 L), the margin over a Lipschitz constant of the *smoothed* scores.

    With the constant of the scores before smoothing, and scores computed without noise, this is the deterministic
    radius.

    Args:
        p_a: lower bound on the score of the top class, in [0, mass].
        p_b: upper bound on the score of every other class, in [0, mass].
        lipschitz: L, a constant of the vector of smoothed scores, as ``lvmrs.lipschitz.smoothed(…, of="vector")``
            gives it.
        mass: what the scores sum to.

    Returns:
        The radius; 0 where p_a ≤ p_b.

    >>> print(f"{r1(0.99, 0.005, lipschitz=1.0):.4f}")
    0.6965
    """
    pair = _Pair.guarded(p_a, p_b, mass)
    slope = _relative_slope("lipschitz", lipschitz, pair.mass)
    checks.broadcast(p_a=pair.margin, lipschitz=slope)
    return checks.unwrapped(pair.margin / (np.sqrt(2.0) * slope))


def r2(p_a: Numbers, p_b: Numbers, *, sigma: Numbers, mass: Numbers = 1.0) -> Floats:
    """σ/2 (Φ⁻¹(p_a) − Φ⁻¹(p_b)), the radius from both bounds; p_a need not exceed ½.

    Args:
        p_a: lower bound on the score of the top class, in [0, mass].
        p_b: upper bound on the score of every other class, in [0, mass].
        sigma: standard deviation of the noise.
        mass: what the scores sum to.

    Returns:
        The radius; 0 where p_a ≤ p_b, ∞ for p_a = mass or p_b = 0.

    >>> print(f"{r2(0.99, 0.005, sigma=0.5):.4f}")
    1.2255
    >>> r2([0.9, 0.4, 0.2], 0.3, sigma=1.0).round(4).tolist()
    [0.903, 0.1355, 0.0]
    """
    return ramp_per_class(p_a, p_b, sigma=sigma, class_lipschitz=np.inf, mass=mass)


def r3(p_a: Numbers, *, sigma: Numbers, mass: Numbers = 1.0) -> Floats:
    """σ Φ⁻¹(p_a), the radius from the bound on the top class alone.

    Args:
        p_a: lower bound on the score of the top class, in [0, mass].
        sigma: standard deviation of the noise.
        mass: what the scores sum to.

    Returns:
        The radius; 0 where p_a is at most half of the mass, ∞ for p_a = mass.

    >>> print(f"{r3(0.99, sigma=0.5):.4f}")
    1.1632
    """
    sigma = checks.positive("sigma", sigma)
    top = _level("p_a", p_a, checks.mass(mass))
    checks.broadcast(p_a=top.p, sigma=sigma)
    return checks.unwrapped(sigma * np.maximum(-centre(top, np.zeros(top.p.shape)), 0.0))


def ramp(
    p_a: Numbers,
    p_b: Numbers,
    *,
    sigma: Numbers,
    lipschitz: Numbers,
    class_lipschitz: Numbers | None = None,
    mass: Numbers = 1.0,
) -> Floats:
    """The larger of the two ramp radii, pairwise and per class; both hold if the two bounds hold.

    Args:
        p_a: lower bound on the score of the top class, in [0, mass].
        p_b: upper bound on the score of every other class, in [0, mass].
        sigma: standard deviation of the noise.
        lipschitz: a constant of the vector of scores *before* smoothing; ``inf`` gives R2.
        class_lipschitz: a constant that holds for each single score before smoothing; by default ``lipschitz``.
        mass: what the scores sum to.

    Returns:
        The radius; 0 where p_a ≤ p_b. It is at least as large as R1 and R2.

    >>> print(f"{ramp(0.99, 0.005, sigma=0.5, lipschitz=1.0):.4f}")
    1.5263
    """
    one = lipschitz if class_lipschitz is None else class_lipschitz
    pairwise = ramp_pairwise(p_a, p_b, sigma=sigma, lipschitz=lipschitz, class_lipschitz=one, mass=mass)
    return checks.unwrapped(np.maximum(pairwise, ramp_per_class(p_a, p_b, sigma=sigma, class_lipschitz=one, mass=mass)))


def ramp_per_class(
    p_a: Numbers, p_b: Numbers, *, sigma: Numbers, class_lipschitz: Numbers, mass: Numbers = 1.0
) -> Floats:
    """σ (G⁻¹(p_b) − G⁻¹(p_a))/2, the ramp radius from a Lipschitz constant of each single score.

    Args:
        p_a: lower bound on the score of the top class, in [0, mass].
        p_b: upper bound on the score of every other class, in [0, mass].
        sigma: standard deviation of the noise.
        class_lipschitz: a constant that holds for each single score before smoothing.
        mass: what the scores sum to.

    Returns:
        The radius; 0 where p_a ≤ p_b.

    >>> print(f"{ramp_per_class(0.99, 0.005, sigma=0.5, class_lipschitz=1.0):.4f}")
    1.4001
    """
    pair = _Pair.guarded(p_a, p_b, mass)
    slope = _relative_slope("class_lipschitz", class_lipschitz, pair.mass)
    sigma, width = _window(sigma, slope, pair)
    return checks.unwrapped(sigma / 2 * centre_gap(pair.a, pair.b, pair.margin, width))


def ramp_pairwise(
    p_a: Numbers,
    p_b: Numbers,
    *,
    sigma: Numbers,
    lipschitz: Numbers,
    class_lipschitz: Numbers | None = None,
    mass: Numbers = 1.0,
) -> Floats:
    """σ G⁻¹((1 − p_a + p_b)/2), the ramp radius of the score (1 + h_A − h_B)/2 of two classes A and B.

    Args:
        p_a: lower bound on the score of the top class, in [0, mass].
        p_b: upper bound on the score of every other class, in [0, mass].
        sigma: standard deviation of the noise.
        lipschitz: a constant of the vector of scores before smoothing; the score above has 1/√2 of it.
        class_lipschitz: a constant that holds for each single score before smoothing, if one is known; the score above
            has it too.
        mass: what the scores sum to.

    Returns:
        The radius; 0 where p_a ≤ p_b.

    >>> print(f"{ramp_pairwise(0.99, 0.005, sigma=0.5, lipschitz=1.0):.4f}")
    1.5263
    """
    pair = _Pair.guarded(p_a, p_b, mass)
    slope = _relative_slope("lipschitz", lipschitz, pair.mass) / np.sqrt(2.0)
    if class_lipschitz is not None:
        one = _relative_slope("class_lipschitz", class_lipschitz, pair.mass)
        checks.broadcast(lipschitz=slope, class_lipschitz=one)
        slope = np.minimum(slope, one)
    sigma, width = _window(sigma, slope, pair)
    return checks.unwrapped(sigma * centre(pair.balance(), width))


def text(radius: Numbers, digits: int = 4) -> str:
    """A radius in decimals, rounded down, so that a printed radius never exceeds the proved one.

    >>> text(0.38119)
    '0.3811'
    """
    value = checks.single("radius", checks.real("radius", radius))
    return rounded_down(value, checks.count("digits", digits, least=0, most=_DIGITS))


def rounded_down(value: float, digits: int = 4) -> str:
    """Write a number with ``digits`` decimals, rounded down.

    >>> rounded_down(0.38119)
    '0.3811'
    """
    return _decimals(value, digits, ROUND_FLOOR)


def rounded_up(value: float, digits: int = 4) -> str:
    """Write a number with ``digits`` decimals, rounded up.

    >>> rounded_up(0.38111)
    '0.3812'
    """
    return _decimals(value, digits, ROUND_CEILING)


def _decimals(value: float, digits: int, towards: str) -> str:
    if not math.isfinite(value):
        return str(value)
    return f"{Decimal(value).quantize(Decimal(1).scaleb(-digits), towards, Context(prec=400 + digits)):f}"


class _Pair(NamedTuple):
    """The two bounds and how far they are apart: (p_a − p_b)₊ in units of the mass."""

    a: Level
    b: Level
    margin: Floats
    mass: Floats

    @classmethod
    def guarded(cls, p_a: Numbers, p_b: Numbers, mass: Numbers) -> _Pair:
        mass = checks.mass(mass)
        a, b = _level("p_a", p_a, mass), _level("p_b", p_b, mass)
        checks.broadcast(p_a=a.p, p_b=b.p)
        margin = np.maximum(checks.real("p_a", p_a) - checks.real("p_b", p_b), 0.0) / mass
        # Denormal scores are inaccurate: those of a rival are raised, those of the top class certify nothing.
        b = b._replace(p=np.where((b.p > 0) & (b.p < _TINY), _TINY, b.p))
        return cls(a, b, np.where(a.p < _TINY, 0.0, margin), mass)

    def balance(self) -> Level:
        """(1 − p_a + p_b)/2: ½ where the two classes tie; taken as ½ where B leads."""
        p = np.minimum((self.a.complement + self.b.p) / 2, 0.5)
        return Level(p, np.maximum((self.a.p + self.b.complement) / 2, 0.5), self.margin / 2)


def _level(name: str, value: Numbers, mass: Floats) -> Level:
    raw = checks.within(name, value, mass)
    return Level(raw / mass, (mass - raw) / mass, (mass / 2 - raw) / mass)


def _relative_slope(name: str, lipschitz: Numbers, mass: Floats) -> Floats:
    slope = checks.positive(name, lipschitz, infinite=True)
    checks.broadcast(**{name: slope, "mass": mass})
    return slope / mass


def _window(sigma: Numbers, slope: Floats, pair: _Pair) -> tuple[Floats, Floats]:
    """σ, and the width of the ramp in units of it: 0 for an infinite slope, capped short of overflow."""
    sigma = checks.positive("sigma", sigma)
    checks.broadcast(p_a=pair.margin, sigma=sigma, lipschitz=slope)
    return sigma, 1 / np.maximum(slope * sigma, 1e-300)


# ---------------------------------------------------------------------------------------------------------------------
# The mean of a ramp under Gaussian noise as a function of its centre, and the inverse function.
#
# The mean of the ramp clip(L(z − s), 0, 1) over Z ~ N(0, σ²) is the average of the normal tail Q(x) = Φ(−x) over a
# window of width w = 1/(Lσ) around its centre c, all in units of σ:
#
#     G(c) = (1/w) ∫_{c−w/2}^{c+w/2} Q(x) dx.
#
# The functions below compute G⁻¹. They lose no digits in the tails, at ½, or between levels that
# are close: the radii that are made of it agree with a 50-digit reference to a relative 10⁻⁸ for levels from 10⁻¹⁰ to 1
# − 10⁻¹⁰ and widths from 10⁻⁷ to 10⁵.


# Below this width, a series in w is used; above it, differences of tails keep twelve digits.
_NARROW = 1e-3
# Gauss–Legendre rule on [0, 1]: exact to rounding for the smooth integrands here.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_NODES, _WEIGHTS = (1 + _NODES) / 2, _WEIGHTS / 2
# The limit on steps of Newton's method, which needs about ten.
_ITERATIONS = 60


class Level(NamedTuple):
    """A probability p, 1 − p and ½ − p, each to full relative accuracy."""

    p: Floats
    complement: Floats
    """1 − p"""
    below_half: Floats
    """½ − p"""

    def at(self, index: NDArray[np.bool_]) -> Level:
        """The entries where ``index`` is true."""
        return Level(*(part[index] for part in self))

    def broadcast(self, shape: tuple[int, ...]) -> Level:
        """The same levels, repeated to this shape."""
        return Level(*(np.broadcast_to(part, shape) for part in self))


def centre(level: Level, width: Floats) -> Floats:
    """G⁻¹(p), the centre of the ramp of mean p; it has the sign of ½ − p.

    Newton's method runs on ½ − G up to c = 1 and on ln G beyond; both are concave.

    Args:
        level: the mean of the ramp.
        width: width of the window in units of σ; 0 for a step, for which G⁻¹ is −Φ⁻¹. It broadcasts with ``level``.

    >>> ninety = Level(np.array(0.9), np.array(0.1), np.array(-0.4))
    >>> print(f"{centre(ninety, np.array(0.0)):.4f} {centre(ninety, np.array(2.0)):.4f}")
    -1.2816 -1.4862
    """
    shape = np.broadcast_shapes(level.p.shape, width.shape)
    level, width = level.broadcast(shape), np.broadcast_to(width, shape)
    tail, offset = np.minimum(level.p, level.complement), np.abs(level.below_half)
    quantile = np.where(tail < 0.1, -scipy.special.ndtri(tail), np.sqrt(2.0) * scipy.special.erfinv(2 * offset))
    c = np.where(offset > 0, quantile, 0.0)
    inside = (width > 0) & (tail > 0) & (offset > 0)
    if not inside.any():
        return np.copysign(c, level.below_half)
    central = inside & (offset <= _half_minus_mean(np.ones(width.shape), width))
    outer = inside & ~central
    c[central] = _central_root(offset[central], width[central])
    c[outer] = _outer_root(tail[outer], offset[outer], width[outer], quantile[outer])
    return np.copysign(c, level.below_half)


def centre_gap(a: Level, b: Level, margin: Floats, width: Floats) -> Floats:
    """G⁻¹(b) − G⁻¹(a), to full relative accuracy even if the two are close; 0 where ``margin`` is 0.

    Args:
        a: the larger level.
        b: the smaller level.
        margin: a − b to full relative accuracy; 0 where a ≤ b.
        width: width of the window in units of σ; 0 for a step.

    >>> half = Level(np.array(0.5), np.array(0.5), np.array(0.0))
    >>> high = Level(np.array(0.9), np.array(0.1), np.array(-0.4))
    >>> print(f"{centre_gap(high, half, np.array(0.4), np.array(2.0)):.4f}")
    1.4862
    """
    shape = np.broadcast_shapes(margin.shape, width.shape)
    a, b = a.broadcast(shape), b.broadcast(shape)
    margin, width = np.broadcast_to(margin, shape), np.broadcast_to(width, shape)
    gap = np.zeros(shape)
    near = (margin > 0) & (margin <= np.minimum(b.p, a.complement) / 2)
    far = (margin > 0) & ~near
    gap[far] = centre(b.at(far), width[far]) - centre(a.at(far), width[far])
    # Close together the centres would cancel: their difference is ∫ dp / |G'(G⁻¹(p))| between them.
    step, window = margin[near][:, None], width[near][:, None]
    between = Level(
        b.p[near][:, None] + step * _NODES,
        a.complement[near][:, None] + step * (1 - _NODES),
        b.below_half[near][:, None] - step * _NODES,
    )
    gap[near] = (step * _WEIGHTS / _density(centre(between, window), window)).sum(axis=-1)
    return gap


def _central_root(offset: Floats, width: Floats) -> Floats:
    """The c in [0, 1] at which ½ − G(c) is ``offset``."""
    c = offset / _density(np.zeros(width.shape), width)  # not beyond the root, since the density falls
    for _ in range(_ITERATIONS):
        step = (offset - _half_minus_mean(c, width)) / _density(c, width)
        c = c + step
        if np.all(np.abs(step) <= 1e-15 * c):
            break
    return c


def _outer_root(tail: Floats, offset: Floats, width: Floats, quantile: Floats) -> Floats:
    """The c ≥ 1 at which G(c) is ``tail``."""
    least = np.maximum(np.maximum(quantile, width * offset), 1.0)
    most = np.maximum(quantile + width / 2, least)
    c = least
    for _ in range(_ITERATIONS):
        mean = _mean_tail(c, width)
        step = np.log(mean / tail) * mean / _density(c, width)
        new = np.clip(c + step, least, most)
        moved, c = np.abs(new - c), new
        if np.all(moved <= 1e-15 * c):
            break
    return c


def _density(c: Floats, width: Floats) -> Floats:
    """|G'(c)|, the normal density averaged over the window; even in c."""
    c = np.minimum(np.abs(c), 1e150)  # its square must not overflow
    narrow = _normal_density(c) * (1 + (c**2 - 1) * np.minimum(width, _NARROW) ** 2 / 24)
    wide = np.maximum(width, _NARROW)
    density: Floats = np.where(
        width < _NARROW, narrow, (scipy.special.ndtr(wide / 2 - c) - scipy.special.ndtr(-wide / 2 - c)) / wide
    )
    return density


def _half_minus_mean(c: Floats, width: Floats) -> Floats:
    """½ − G(c) for 0 ≤ c ≤ 1, as the integral of the density from 0: no cancellation for small c."""
    mean_density: Floats = (_WEIGHTS * _density(c[..., None] * _NODES, width[..., None])).sum(axis=-1)
    return c * mean_density


def _mean_tail(c: Floats, width: Floats) -> Floats:
    """G(c) for c ≥ 1."""
    narrow = scipy.special.ndtr(-c) + c * _normal_density(c) * np.minimum(width, _NARROW) ** 2 / 24
    wide = np.maximum(width, _NARROW)
    mean: Floats = np.where(
        width < _NARROW, narrow, (_tail_integral(c - wide / 2) - _tail_integral(c + wide / 2)) / wide
    )
    return mean


def _tail_integral(x: Floats) -> Floats:
    """∫ₓ^∞ Q."""
    integral: Floats = _normal_density(x) - x * scipy.special.ndtr(-x)
    return integral


def _normal_density(x: Floats) -> Floats:
    density: Floats = np.exp(-(np.clip(x, -50.0, 50.0) ** 2) / 2) / np.sqrt(2 * np.pi)
    return density


# ---------------------------------------------------------------------------------------------------------------------
# The forms of the radius, as objects that the proof and the planners call.


@dataclass(frozen=True)
class Form(ABC):
    """A theorem: within this radius, scores that satisfy the bounds at x cannot change their order."""

    name: ClassVar[str]
    noises: ClassVar[tuple[str, ...]] = ("gaussian",)
    """The laws of noise for which the theorem holds, by name."""
    needs_constant: ClassVar[bool] = False
    """Whether the theorem needs a Lipschitz constant of the scores."""
    uses_constant: ClassVar[bool] = False
    """Whether the theorem uses a Lipschitz constant if there is one."""

    @property
    def one_sided(self) -> Form:
        """The form to use if the bound on all rivals is 1 − p_a; by default the same form."""
        return self

    @abstractmethod
    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        """The certified radius.

        It must grow with p_a and fall with p_b, so that the worst rival decides. Planners pass arrays of many bounds.

        Args:
            p_a: lower bound on the score of the top class, as a share of the mass; an array of any shape.
            p_b: upper bound on the score of every other class, as a share of the mass.
            sigma: standard deviation of the noise.
            slopes: Lipschitz constants of the scores before smoothing, as shares of the mass; infinite if unknown.

        Returns:
            The radius; 0 if p_a ≤ p_b.
        """


# ---------------------------------------------------------------------------------------------------------------------
# R1: the margin over a Lipschitz constant of the smoothed scores (Tsuzuku et al. 2018; Delattre et al. 2024).


@dataclass(frozen=True)
class R1(Form):
    """R1 with the constant of the smoothed scores from noise and network together, L erf(1/(2Lσ))."""

    name: ClassVar[str] = "r1"
    needs_constant: ClassVar[bool] = True
    uses_constant: ClassVar[bool] = True

    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        """(p_a − p_b)/(√2 L erf(1/(2Lσ)))."""
        return r1(p_a, p_b, lipschitz=lipschitz.smoothed(slopes.vector, sigma=sigma, of="vector"))


@dataclass(frozen=True)
class R1Noise(Form):
    """R1 with the constant of smoothed scores from noise alone, 1/(σ√π)."""

    name: ClassVar[str] = "r1-noise"

    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        """(p_a − p_b) σ √(π/2)."""
        return r1(p_a, p_b, lipschitz=lipschitz.smoothed(np.inf, sigma=sigma, of="vector"))


# ---------------------------------------------------------------------------------------------------------------------
# R2: Gaussian quantiles of both bounds (Cohen et al. 2019; Salman et al. 2019).


@dataclass(frozen=True)
class R2(Form):
    """σ/2 (Φ⁻¹(p_a) − Φ⁻¹(p_b))."""

    name: ClassVar[str] = "r2"

    @property
    def one_sided(self) -> Form:
        """R3, which equals R2 for p_b = 1 − p_a."""
        return R3()

    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        """σ/2 (Φ⁻¹(p_a) − Φ⁻¹(p_b))."""
        return r2(p_a, p_b, sigma=sigma)


# ---------------------------------------------------------------------------------------------------------------------
# R3: the Gaussian quantile of the top score alone (Cohen et al. 2019); for a duel, of the share of duels won.


@dataclass(frozen=True)
class R3(Form):
    """σ Φ⁻¹(p_a), since all other scores are at most 1 − p_a."""

    name: ClassVar[str] = "r3"

    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        """σ Φ⁻¹(p_a), or 0 where p_a is at most ½."""
        return r3(p_a, sigma=sigma)


# ---------------------------------------------------------------------------------------------------------------------
# The ramp radius: noise and a Lipschitz constant of the scores together; at least as large as R1, R2 and R3.


@dataclass(frozen=True)
class Ramp(Form):
    """The larger of the ramp radii per class and pairwise; equal to R2 without a Lipschitz constant."""

    name: ClassVar[str] = "ramp"
    uses_constant: ClassVar[bool] = True

    def radius(self, p_a: Floats, p_b: Floats, *, sigma: float, slopes: Slopes) -> Floats:
        """The larger of the two ramp radii."""
        return ramp(p_a, p_b, sigma=sigma, lipschitz=slopes.vector, class_lipschitz=slopes.one)
