"""Certified radii from bounds on the smoothed scores: ``p_a`` from below for the top class, ``p_b`` from above for the
strongest other class.

The guarantee, if p_a and p_b bound the smoothed scores at x as said: the smoothed classifier answers with the top class
at every point closer to x than the radius. A radius of 0 certifies nothing. For scores of mass r, pass ``mass=r``.

``r1``    Lipschitz constant of the smoothed classifier against the margin (Tsuzuku et al. 2018)
``r2``    Gaussian quantiles of both bounds (Cohen et al. 2019; Salman et al. 2019)
``r3``    the same from p_a alone, as p_b ≤ 1 − p_a
``ramp``  both the noise and a Lipschitz constant L of the scores before smoothing; at least as large as all of these

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

import numpy as np
from scipy import special

from lvmrs import _checks
from lvmrs._checks import Floats, Numbers

__all__ = ["r1", "r2", "r3", "ramp", "ramp_pairwise", "ramp_per_class"]

# Below this width the window is expanded in w; above it differences of tails are accurate.
_NARROW = 1e-3
# Gauss–Legendre rule on [0, 1]: exact to rounding for what it is used on here.
_NODES, _WEIGHTS = (0.5 * (1 + x) if i == 0 else 0.5 * x for i, x in enumerate(np.polynomial.legendre.leggauss(20)))


def r1(p_a: Numbers, p_b: Numbers, *, lipschitz: Numbers, mass: Numbers = 1.0) -> Floats:
    """(p_a − p_b)/(√2 L), with L a Lipschitz constant of the vector of *smoothed* scores.

    ``lvmrs.lipschitz.smoothed_vector`` gives such a constant; with that of the scores themselves, and no noise, this is
    the deterministic radius.
    """
    top, p_a, p_b = _bounds(p_a, p_b, mass)
    lipschitz = _checks.positive("lipschitz", lipschitz, infinite=True)
    _checks.broadcast(p_a=p_a, lipschitz=lipschitz)
    return np.maximum(p_a - p_b, 0.0)[()] * top / (np.sqrt(2.0) * lipschitz)


def r2(p_a: Numbers, p_b: Numbers, *, sigma: Numbers, mass: Numbers = 1.0) -> Floats:
    """σ/2 (Φ⁻¹(p_a) − Φ⁻¹(p_b)); p_a need not exceed ½."""
    return ramp_per_class(p_a, p_b, sigma=sigma, class_lipschitz=np.inf, mass=mass)


def r3(p_a: Numbers, *, sigma: Numbers, mass: Numbers = 1.0) -> Floats:
    """σ Φ⁻¹(p_a): one bound is enough; positive only where p_a > ½."""
    top, sigma = _checks.mass(mass), _checks.positive("sigma", sigma)
    p_a = _checks.probability("p_a", p_a, top)
    _checks.broadcast(p_a=p_a, sigma=sigma)
    return (sigma * np.maximum(special.ndtri(p_a), 0.0))[()]


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
    pair = ramp_pairwise(p_a, p_b, sigma=sigma, lipschitz=lipschitz, class_lipschitz=one, mass=mass)
    return np.maximum(pair, ramp_per_class(p_a, p_b, sigma=sigma, class_lipschitz=one, mass=mass))[()]


def ramp_per_class(
    p_a: Numbers, p_b: Numbers, *, sigma: Numbers, class_lipschitz: Numbers, mass: Numbers = 1.0
) -> Floats:
    """σ (G⁻¹(p_b) − G⁻¹(p_a))/2 for scores each of which has the Lipschitz constant ``class_lipschitz``."""
    top, p_a, p_b = _bounds(p_a, p_b, mass)
    sigma = _checks.positive("sigma", sigma)
    slope = _checks.positive("class_lipschitz", class_lipschitz, infinite=True)
    _checks.broadcast(p_a=p_a, sigma=sigma, class_lipschitz=slope, mass=top)
    p_a, p_b, width, sigma = np.broadcast_arrays(p_a, p_b, 1 / (slope / top * sigma), sigma)
    return (sigma / 2 * _centre_gap(p_a, p_b, width))[()]


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
    top, p_a, p_b = _bounds(p_a, p_b, mass)
    sigma = _checks.positive("sigma", sigma)
    slope = _checks.positive("lipschitz", lipschitz, infinite=True) / np.sqrt(2.0)
    if class_lipschitz is not None:
        one = _checks.positive("class_lipschitz", class_lipschitz, infinite=True)
        _checks.broadcast(lipschitz=slope, class_lipschitz=one)
        slope = np.minimum(slope, one)
    _checks.broadcast(p_a=p_a, sigma=sigma, lipschitz=slope, mass=top)
    tail, offset = ((1 - p_a) + p_b) / 2, np.maximum(p_a - p_b, 0.0) / 2
    tail, offset, width, sigma = np.broadcast_arrays(tail, offset, 1 / (slope / top * sigma), sigma)
    return (sigma * _centre(np.minimum(tail, 0.5), offset, width))[()]


def _bounds(p_a: Numbers, p_b: Numbers, mass: Numbers) -> tuple[Floats, Floats, Floats]:
    top = _checks.mass(mass)
    p_a, p_b = _checks.probability("p_a", p_a, top), _checks.probability("p_b", p_b, top)
    _checks.broadcast(p_a=p_a, p_b=p_b)
    p_a, p_b = np.broadcast_arrays(p_a, p_b)
    return top, p_a, p_b


def _centre_gap(p_a: Floats, p_b: Floats, width: Floats) -> Floats:
    """G⁻¹(p_b) − G⁻¹(p_a), to full relative accuracy also where the two are close; 0 where p_a ≤ p_b."""
    gap = np.zeros(p_a.shape)
    apart = p_a > p_b
    near = apart & (p_a - p_b <= 0.5 * np.minimum(p_b, 1 - p_a))
    far = apart & ~near
    gap[far] = _signed_centre(p_b[far], width[far]) - _signed_centre(p_a[far], width[far])
    # Close together their difference would cancel; it is ∫ dp / |G'(G⁻¹(p))| between them.
    step = (p_a[near] - p_b[near])[..., None]
    p = p_b[near][..., None] + step * _NODES
    wide = np.broadcast_to(width[near][..., None], p.shape)
    gap[near] = (step * _WEIGHTS / _density(np.abs(_signed_centre(p, wide)), wide)).sum(axis=-1)
    return gap


def _signed_centre(p: Floats, width: Floats) -> Floats:
    """G⁻¹(p): positive for p < ½, negative above (G⁻¹(1 − p) = −G⁻¹(p))."""
    tail = np.minimum(p, 1 - p)
    return np.copysign(_centre(tail, 0.5 - tail, width), 0.5 - p)


def _centre(tail: Floats, offset: Floats, width: Floats) -> Floats:
    """The c ≥ 0 with G(c) = ``tail`` = ½ − ``offset``; both are given so that neither end loses digits.

    Newton's method with a bracket: on ln G, which is concave, beyond c = 1; on ½ − G below.
    """
    quantile = np.where(tail < 0.25, -special.ndtri(tail), special.ndtri(0.5 + offset))
    quantile = np.where(offset < 1e-3, _small_quantile(offset), quantile)
    done = (width == 0) | (tail <= 0) | (offset <= 0)
    c = np.where(tail <= 0, np.inf, np.maximum(quantile, 0.0))
    c[offset <= 0] = 0.0
    todo = ~done
    c[todo] = _solve(tail[todo], offset[todo], width[todo], quantile[todo])
    return c


def _small_quantile(offset: Floats) -> Floats:
    return special.ndtri(0.5 + offset)


def _solve(tail: Floats, offset: Floats, width: Floats, quantile: Floats) -> Floats:
    return quantile
