"""Certified radii R1, R2, R3 and ramp, and texts of numbers, rounded so that they never claim more than was proved."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import NamedTuple

import numpy as np

from lvmrs.kernel import checks
from lvmrs.kernel.checks import Floats, Numbers
from lvmrs.kernel.ramp import Level, centre, centre_gap

__all__ = [
    "outward",
    "percent",
    "r1",
    "r2",
    "r3",
    "ramp",
    "ramp_pairwise",
    "ramp_per_class",
    "rounded_down",
    "rounded_up",
    "text",
]


def rounded_down(value: float, digits: int = 4) -> str:
    """Write a number with ``digits`` decimals, rounded down.

    >>> rounded_down(0.38119)
    '0.3811'
    """
    return _rounded(value, digits, ROUND_FLOOR)


def rounded_up(value: float, digits: int = 4) -> str:
    """Write a number with ``digits`` decimals, rounded up.

    >>> rounded_up(0.38111)
    '0.3812'
    """
    return _rounded(value, digits, ROUND_CEILING)


def _rounded(value: float, digits: int, towards: str) -> str:
    if not math.isfinite(value):
        return str(value)
    step = Decimal(1).scaleb(-digits)
    return f"{Decimal(value).quantize(step, towards, Context(prec=400 + digits)):f}"


def percent(share: float) -> str:
    """Write a share in percent with one decimal; a share below 1 is never written as 100.

    >>> percent(0.9999)
    '99.9'
    """
    shown = 100 * Decimal(f"{share:.3f}")
    return f"{min(shown, Decimal('99.9')) if share < 1 else shown:.1f}"


def outward(low: float, high: float, digits: int = 4) -> str:
    """Write an interval, with its lower end rounded down and its upper end rounded up.

    >>> outward(0.38119, 0.5)
    '0.3811–0.5000'
    """
    if not math.isfinite(high):
        return "no interval"
    step = Decimal(1).scaleb(-digits)
    ends = (Decimal(low).quantize(step, ROUND_FLOOR), Decimal(high).quantize(step, ROUND_CEILING))
    return ("{:f} to {:f}" if low < 0 else "{:f}–{:f}").format(*ends)


# ---------------------------------------------------------------------------------------------------------------------
# Certified radii from bounds on the smoothed scores.
#
# ========  ======================================================================================================
# ``r1``    the margin over a Lipschitz constant of the smoothed classifier (Tsuzuku et al. 2018)
# ``r2``    Gaussian quantiles of both bounds (Cohen et al. 2019; Salman et al. 2019)
# ``r3``    the same from p_a alone, as p_b ≤ 1 − p_a
# ``ramp``  the noise together with a Lipschitz constant of the scores before smoothing; no smaller than all of these
# ========  ======================================================================================================
#
# **What all of them take and return.** ``p_a`` is a lower bound on the score of the top class and ``p_b`` an upper
# bound on the score of every other class, both in [0, mass]; ``sigma`` is the standard deviation of the noise; ``mass``
# is what the scores sum to. Each may be a number or an array, and they broadcast. The result is a float64 array of the
# shape that they have together, or a single number. If the bounds hold at x, the smoothed classifier answers with the
# top class at every point closer to x than the radius. A radius of 0 certifies nothing.
#
# **Accuracy.** The radii agree with a 50-digit reference to a relative 10⁻⁸ for p from 10⁻¹⁰ to 1 − 10⁻¹⁰ (also where
# p_a and p_b differ by a relative 10⁻¹⁴ only), σ from 0.01 to 10 and Lipschitz constants from 10⁻³ to 10⁶ and ∞.
#
# **The ramp radius.** Among L-Lipschitz functions into [0, 1] of Gaussian mean p, the one whose mean falls fastest as
# the input moves is the ramp clip(L(z − s), 0, 1). With the centre c of the ramp in units of σ, and G(c) its mean (see
# ``lvmrs.kernel.ramp``), a smoothed score p moves no faster than the centre of its ramp. So classes A and B cannot meet
# within σ (G⁻¹(p_b) − G⁻¹(p_a))/2 with the constant of one class, nor can the score (1 + p_a − p_b)/2, which has the
# constant L_vec/√2, reach ½ within σ G⁻¹((1 − p_a + p_b)/2). For L = ∞, G⁻¹ is −Φ⁻¹ and the first is R2; for σ → 0 the
# second is the deterministic radius (p_a − p_b)/(√2 L_vec).
#
# =====================  ==================================================================================
# theory                 here
# =====================  ==================================================================================
# p̲_A, p̄_B               ``p_a``, ``p_b``
# L_vec, L_k             ``lipschitz`` (of the vector of scores), ``class_lipschitz`` (of one score)
# s(p)                   σ(c − w/2); the radii need only the centre c
# =====================  ==================================================================================


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


class _Pair(NamedTuple):
    """The two bounds and how far they are apart: (p_a − p_b)₊ in units of the mass."""

    a: Level
    b: Level
    margin: Floats
    mass: Floats

    @classmethod
    def guarded(cls, p_a: Numbers, p_b: Numbers, mass: Numbers) -> "_Pair":
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
