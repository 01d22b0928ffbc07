"""The mean of a ramp under Gaussian noise as a function of its centre, and the inverse function.

The mean of the ramp clip(L(z − s), 0, 1) over Z ~ N(0, σ²) is the average of the normal tail Q(x) = Φ(−x) over a window
of width w = 1/(Lσ) around its centre c, all in units of σ:

    G(c) = (1/w) ∫_{c−w/2}^{c+w/2} Q(x) dx.

This module computes G⁻¹, for ``lvmrs.kernel.radius``. It loses no digits in the tails, at ½, or between levels that are
close: the radii that are made of it agree with a 50-digit reference to a relative 10⁻⁸ for levels from 10⁻¹⁰ to 1 −
10⁻¹⁰ and widths from 10⁻⁷ to 10⁵.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvmrs.kernel import special
from lvmrs.kernel.checks import Floats

__all__ = ["Level", "centre", "centre_gap"]

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

    def at(self, index: NDArray[np.bool_]) -> "Level":
        """The entries where ``index`` is true."""
        return Level(*(part[index] for part in self))

    def broadcast(self, shape: tuple[int, ...]) -> "Level":
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
