"""Certified radii from bounds on the smoothed scores.

``p_a`` bounds the score of the top class from below and ``p_b`` that of the strongest other class from above. If they
do so at x, the smoothed classifier answers with the top class at every point closer to x than the radius. A radius of
0 certifies nothing. For scores of mass r, pass ``mass=r``.

========  ======================================================================================================
``r1``    the margin over a Lipschitz constant of the smoothed classifier (Tsuzuku et al. 2018)
``r2``    Gaussian quantiles of both bounds (Cohen et al. 2019; Salman et al. 2019)
``r3``    the same from p_a alone, as p_b ≤ 1 − p_a
``ramp``  the noise together with a Lipschitz constant of the scores before smoothing; no smaller than all of these
========  ======================================================================================================

**The ramp radius.** Among L-Lipschitz functions into [0, 1] of Gaussian mean p, the one whose mean falls fastest as the
input moves is the ramp clip(L(z − s), 0, 1). Its mean over Z ~ N(0, σ²) is the average of the normal tail
Q(x) = Φ(−x) over a window of width w = 1/(Lσ) around its centre c, all in units of σ:

    G(c) = (1/w) ∫_{c−w/2}^{c+w/2} Q(x) dx.

A smoothed score p moves no faster than the centre of its ramp, so classes A and B cannot meet within
σ (G⁻¹(p_b) − G⁻¹(p_a))/2 with the constant of one class, nor the score (1 + p_a − p_b)/2, which has the constant
L_vec/√2, reach ½ within σ G⁻¹((1 − p_a + p_b)/2). For w → 0 (L = ∞) G⁻¹ is −Φ⁻¹ and the first is R2; for σ → 0 the
second is the deterministic radius (p_a − p_b)/(√2 L_vec).

=====================  ==================================================================================
theory                 here
=====================  ==================================================================================
p̲_A, p̄_B               ``p_a``, ``p_b``
L_vec, L_k             ``lipschitz`` (of the vector of scores), ``class_lipschitz`` (of one score)
s(p)                   σ(c − w/2); the radii need only centres, in ``_centre``
=====================  ==================================================================================
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from lvmrs import _checks
from lvmrs._checks import Floats, Numbers
from lvmrs._decimals import rounded_down

__all__ = ["r1", "r2", "r3", "ramp", "ramp_pairwise", "ramp_per_class", "text"]

# Below this width the window is expanded in w; above it differences of tails keep twelve digits.
_NARROW = 1e-3
# Gauss–Legendre rule on [0, 1]: exact to rounding for the smooth integrands here.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_NODES, _WEIGHTS = (1 + _NODES) / 2, _WEIGHTS / 2
# Smaller probabilities are not told apart.
_TINY = 1e-300
# Newton's method takes about ten steps; this many are never needed.
_ITERATIONS = 60


def r1(p_a: Numbers, p_b: Numbers, *, lipschitz: Numbers, mass: Numbers = 1.0) -> Floats:
    """(p_a − p_b)/(√2 L), with L a Lipschitz constant of the vector of *smoothed* scores.

    ``lvmrs.lipschitz.smoothed(…, of="vector")`` gives such a constant. With the constant of the scores themselves, and
    scores computed without noise, this is the deterministic radius.
    """
    pair = _Pair.guarded(p_a, p_b, mass)
    slope = _relative_slope("lipschitz", lipschitz, pair.mass)
    _checks.broadcast(p_a=pair.margin, lipschitz=slope)
    return _checks.unwrapped(pair.margin / (np.sqrt(2.0) * slope))


def r2(p_a: Numbers, p_b: Numbers, *, sigma: Numbers, mass: Numbers = 1.0) -> Floats:
    """σ/2 (Φ⁻¹(p_a) − Φ⁻¹(p_b)); p_a need not exceed ½."""
    return ramp_per_class(p_a, p_b, sigma=sigma, class_lipschitz=np.inf, mass=mass)


def r3(p_a: Numbers, *, sigma: Numbers, mass: Numbers = 1.0) -> Floats:
    """σ Φ⁻¹(p_a): one bound is enough; positive only where p_a > ½."""
    sigma = _checks.positive("sigma", sigma)
    top = _Level.guarded("p_a", p_a, _checks.mass(mass))
    _checks.broadcast(p_a=top.p, sigma=sigma)
    return _checks.unwrapped(sigma * np.maximum(-_centre(top, np.zeros(top.p.shape)), 0.0))


def ramp(
    p_a: Numbers,
    p_b: Numbers,
    *,
    sigma: Numbers,
    lipschitz: Numbers,
    class_lipschitz: Numbers | None = None,
    mass: Numbers = 1.0,
) -> Floats:
    """The larger of the two ramp radii; they use the same two bounds, so no further risk.

    ``lipschitz`` is a constant of the vector of scores before smoothing; ``class_lipschitz`` one that holds for each
    single score, by default the same. ``lipschitz=inf`` gives R2.
    """
    one = lipschitz if class_lipschitz is None else class_lipschitz
    pairwise = ramp_pairwise(p_a, p_b, sigma=sigma, lipschitz=lipschitz, class_lipschitz=one, mass=mass)
    return _checks.unwrapped(
        np.maximum(pairwise, ramp_per_class(p_a, p_b, sigma=sigma, class_lipschitz=one, mass=mass))
    )


def ramp_per_class(
    p_a: Numbers, p_b: Numbers, *, sigma: Numbers, class_lipschitz: Numbers, mass: Numbers = 1.0
) -> Floats:
    """σ (G⁻¹(p_b) − G⁻¹(p_a))/2 for scores each of which has the Lipschitz constant ``class_lipschitz``."""
    pair = _Pair.guarded(p_a, p_b, mass)
    slope = _relative_slope("class_lipschitz", class_lipschitz, pair.mass)
    sigma, width = _window(sigma, slope, pair)
    return _checks.unwrapped(sigma / 2 * _centre_gap(pair, width))


def ramp_pairwise(
    p_a: Numbers,
    p_b: Numbers,
    *,
    sigma: Numbers,
    lipschitz: Numbers,
    class_lipschitz: Numbers | None = None,
    mass: Numbers = 1.0,
) -> Floats:
    """σ G⁻¹((1 − p_a + p_b)/2) for the score (1 + h_A − h_B)/2, whose constant is at most L_vec/√2 and at most L_k."""
    pair = _Pair.guarded(p_a, p_b, mass)
    slope = _relative_slope("lipschitz", lipschitz, pair.mass) / np.sqrt(2.0)
    if class_lipschitz is not None:
        one = _relative_slope("class_lipschitz", class_lipschitz, pair.mass)
        _checks.broadcast(lipschitz=slope, class_lipschitz=one)
        slope = np.minimum(slope, one)
    sigma, width = _window(sigma, slope, pair)
    return _checks.unwrapped(sigma * _centre(pair.balance(), width))


def text(radius: Numbers, digits: int = 4) -> str:
    """The radius in decimals, rounded down: what is printed never claims more than was proved."""
    value = _checks.single("radius", _checks.real("radius", radius))
    return rounded_down(value, digits)


class _Level(NamedTuple):
    """A probability p, 1 − p and ½ − p, each to full relative accuracy: neither end nor the middle loses digits."""

    p: Floats
    complement: Floats
    below_half: Floats

    @classmethod
    def guarded(cls, name: str, value: Numbers, mass: Floats) -> "_Level":
        raw = _checks.within(name, value, mass)
        return cls(raw / mass, (mass - raw) / mass, (mass / 2 - raw) / mass)

    def at(self, index: NDArray[np.bool_]) -> "_Level":
        return _Level(*(part[index] for part in self))

    def broadcast(self, shape: tuple[int, ...]) -> "_Level":
        return _Level(*(np.broadcast_to(part, shape) for part in self))


class _Pair(NamedTuple):
    """The two bounds and how far they are apart: (p_a − p_b)₊ in units of the mass."""

    a: _Level
    b: _Level
    margin: Floats
    mass: Floats

    @classmethod
    def guarded(cls, p_a: Numbers, p_b: Numbers, mass: Numbers) -> "_Pair":
        mass = _checks.mass(mass)
        a, b = _Level.guarded("p_a", p_a, mass), _Level.guarded("p_b", p_b, mass)
        _checks.broadcast(p_a=a.p, p_b=b.p)
        margin = np.maximum(_checks.real("p_a", p_a) - _checks.real("p_b", p_b), 0.0) / mass
        # Denormal scores have no digits to be accurate with: as a rival's they are raised, as the top's worth nothing.
        b = b._replace(p=np.where((b.p > 0) & (b.p < _TINY), _TINY, b.p))
        return cls(a, b, np.where(a.p < _TINY, 0.0, margin), mass)

    def balance(self) -> _Level:
        """(1 − p_a + p_b)/2: ½ where the two classes tie; taken as ½ where B leads."""
        p = np.minimum((self.a.complement + self.b.p) / 2, 0.5)
        return _Level(p, np.maximum((self.a.p + self.b.complement) / 2, 0.5), self.margin / 2)


def _relative_slope(name: str, lipschitz: Numbers, mass: Floats) -> Floats:
    slope = _checks.positive(name, lipschitz, infinite=True)
    _checks.broadcast(**{name: slope, "mass": mass})
    return slope / mass


def _window(sigma: Numbers, slope: Floats, pair: _Pair) -> tuple[Floats, Floats]:
    """σ, and the width of the ramp in units of it: 0 for an infinite slope, capped short of overflow."""
    sigma = _checks.positive("sigma", sigma)
    _checks.broadcast(p_a=pair.margin, sigma=sigma, lipschitz=slope)
    return sigma, 1 / np.maximum(slope * sigma, 1e-300)


def _centre_gap(pair: _Pair, width: Floats) -> Floats:
    """G⁻¹(p_b) − G⁻¹(p_a), to full relative accuracy also where the two are close; 0 where p_a ≤ p_b."""
    shape = np.broadcast_shapes(pair.margin.shape, width.shape)
    a, b = pair.a.broadcast(shape), pair.b.broadcast(shape)
    margin, width = np.broadcast_to(pair.margin, shape), np.broadcast_to(width, shape)
    gap = np.zeros(shape)
    near = (margin > 0) & (margin <= np.minimum(b.p, a.complement) / 2)
    far = (margin > 0) & ~near
    gap[far] = _centre(b.at(far), width[far]) - _centre(a.at(far), width[far])
    # Close together the centres would cancel: their difference is ∫ dp / |G'(G⁻¹(p))| between them.
    step, window = margin[near][:, None], width[near][:, None]
    between = _Level(
        b.p[near][:, None] + step * _NODES,
        a.complement[near][:, None] + step * (1 - _NODES),
        b.below_half[near][:, None] - step * _NODES,
    )
    gap[near] = (step * _WEIGHTS / _density(_centre(between, window), window)).sum(axis=-1)
    return gap


def _centre(level: _Level, width: Floats) -> Floats:
    """G⁻¹(p), of the sign of ½ − p, by Newton's method: on ½ − G up to c = 1, on ln G beyond; both are concave."""
    shape = np.broadcast_shapes(level.p.shape, width.shape)
    level, width = level.broadcast(shape), np.broadcast_to(width, shape)
    tail, offset = np.minimum(level.p, level.complement), np.abs(level.below_half)
    quantile = np.where(tail < 0.1, -special.ndtri(tail), np.sqrt(2.0) * special.erfinv(2 * offset))
    c = np.where(offset > 0, quantile, 0.0)
    inside = (width > 0) & (tail > 0) & (offset > 0)
    if not inside.any():
        return np.copysign(c, level.below_half)
    central = inside & (offset <= _half_minus_mean(np.ones(width.shape), width))
    outer = inside & ~central
    c[central] = _central_root(offset[central], width[central])
    c[outer] = _outer_root(tail[outer], offset[outer], width[outer], quantile[outer])
    return np.copysign(c, level.below_half)


def _central_root(offset: Floats, width: Floats) -> Floats:
    c = offset / _density(np.zeros(width.shape), width)  # not beyond the root, since the density falls
    for _ in range(_ITERATIONS):
        step = (offset - _half_minus_mean(c, width)) / _density(c, width)
        c = c + step
        if np.all(np.abs(step) <= 1e-15 * c):
            break
    return c


def _outer_root(tail: Floats, offset: Floats, width: Floats, quantile: Floats) -> Floats:
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
        width < _NARROW, narrow, (special.ndtr(wide / 2 - c) - special.ndtr(-wide / 2 - c)) / wide
    )
    return density


def _half_minus_mean(c: Floats, width: Floats) -> Floats:
    """½ − G(c) for 0 ≤ c ≤ 1, as the integral of the density from 0: no cancellation for small c."""
    mean_density: Floats = (_WEIGHTS * _density(c[..., None] * _NODES, width[..., None])).sum(axis=-1)
    return c * mean_density


def _mean_tail(c: Floats, width: Floats) -> Floats:
    """G(c) for c ≥ 1."""
    narrow = special.ndtr(-c) + c * _normal_density(c) * np.minimum(width, _NARROW) ** 2 / 24
    wide = np.maximum(width, _NARROW)
    mean: Floats = np.where(
        width < _NARROW, narrow, (_tail_integral(c - wide / 2) - _tail_integral(c + wide / 2)) / wide
    )
    return mean


def _tail_integral(x: Floats) -> Floats:
    """∫ₓ^∞ Q."""
    integral: Floats = _normal_density(x) - x * special.ndtr(-x)
    return integral


def _normal_density(x: Floats) -> Floats:
    density: Floats = np.exp(-(np.clip(x, -50.0, 50.0) ** 2) / 2) / np.sqrt(2 * np.pi)
    return density
