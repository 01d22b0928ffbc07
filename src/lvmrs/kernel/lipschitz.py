"""Lipschitz constants (Euclidean norm) of smoothed scores; those of the maps are in ``lvmrs.kernel.maps``.

Each constant comes in two kinds, chosen by ``of``: that of the ``"vector"`` of scores (L_vec) and that of the score of
one ``"class"`` (L_k). ``lipschitz`` is the constant of the same kind before smoothing, and
``inf`` means "not known". ``mass`` is the sum of the scores, ``sigma`` the standard deviation of the noise.
Numbers and arrays broadcast; the result is a float64 array of the broadcast shape, or a single number.

The bounds are theorems 1 and 2 of Delattre et al. (2024). Where its appendix restates the vector bound with another
factor inside erf, the theorem is right.
"""

from typing import Literal

import numpy as np
import scipy

from lvmrs.kernel import checks
from lvmrs.kernel.checks import Floats, Numbers

Kind = Literal["class", "vector"]

# Noise alone makes scores of mass r r/(k σ)-Lipschitz, with this k.
_NOISE: dict[Kind, float] = {"class": np.sqrt(2 * np.pi), "vector": np.sqrt(np.pi)}


def smoothed(lipschitz: Numbers, *, sigma: Numbers, of: Kind, mass: Numbers = 1.0) -> Floats:
    """Constant of the smoothed scores: L_vec erf(r/(2 L_vec σ)), or L_k erf(r/(2√2 L_k σ)) for a class.

    Args:
        lipschitz: the constant of the scores before smoothing, of the same kind; ``inf`` if there is none.
        sigma: standard deviation of the noise.
        of: which constant is given and returned.
        mass: the r that the scores sum to.

    >>> print(f"{smoothed(2.0, sigma=0.5, of='vector'):.4f}")
    1.0410
    >>> print(f"{smoothed(float('inf'), sigma=0.5, of='vector'):.4f}")
    1.1284
    """
    lipschitz, noise_alone = _guarded(lipschitz, sigma, mass, of)
    known = np.isfinite(lipschitz)
    slope = np.where(known, lipschitz, 1.0)
    both = slope * scipy.special.erf(noise_alone / slope * np.sqrt(np.pi) / 2)
    return checks.unwrapped(np.where(known, both, noise_alone))


def smoothed_limit(lipschitz: Numbers, *, sigma: Numbers, of: Kind, mass: Numbers = 1.0) -> Floats:
    """A simpler and larger constant than ``smoothed``: min(r/(σ√π), L_vec), or min(r/(σ√(2π)), L_k) for a class.

    The arguments are those of ``smoothed``.

    >>> print(f"{smoothed_limit(2.0, sigma=0.5, of='vector'):.4f}")
    1.1284
    """
    lipschitz, noise_alone = _guarded(lipschitz, sigma, mass, of)
    return checks.unwrapped(np.minimum(noise_alone, lipschitz))


def optimal_sigma(lipschitz: Numbers, *, of: Kind, mass: Numbers = 1.0) -> Floats:
    """The σ at which noise and constant together gain most: r/(L_vec √π), or r/(L_k √(2π)) for a class.

    At this σ ``smoothed`` is erf(√π/2) L ≈ 0.79 L, while noise alone and the constant alone both give L.

    Args:
        lipschitz: the constant of the scores before smoothing; it must be finite.
        of: the kind of this constant.
        mass: the r that the scores sum to.

    >>> print(f"{optimal_sigma(2.0, of='vector'):.4f}")
    0.2821
    """
    lipschitz, mass = checks.positive("lipschitz", lipschitz), checks.mass(mass)
    checks.broadcast(lipschitz=lipschitz, mass=mass)
    return checks.unwrapped(mass / (lipschitz * _NOISE[_kind(of)]))


def local_quantile(p: Numbers, *, epsilon: Numbers, sigma: Numbers, lipschitz: Numbers, mass: Numbers = 1.0) -> Floats:
    """Constant of Φ⁻¹ of one smoothed score on the ball of radius ε around a point where that score is ``p``.

    Within the ball the score q stays within ε·lipschitz of p. The constant is (r/σ) times the largest
    φ(Φ⁻¹(q/r))/φ(Φ⁻¹(q)) over these q. This ratio falls in q for r < 1, rises for r > 1 and is 1 for r = 1 (for
    I = φ∘Φ⁻¹ the elasticity x I'(x)/I(x) falls, which is the bound Q(z) > z φ(z)/(1 + z²) on the normal tail), so the
    largest is at an end of the interval.

    Args:
        p: the smoothed score at the centre of the ball, in [0, mass].
        epsilon: radius of the ball.
        sigma: standard deviation of the noise.
        lipschitz: a constant of the *smoothed* score; ``inf`` if there is none.
        mass: the r that the scores sum to.

    Returns:
        The constant; ∞ where r > 1 and the score may reach 1, which has no finite quantile.

    >>> float(local_quantile(0.8, epsilon=0.1, sigma=0.5, lipschitz=1.0))
    2.0
    """
    mass = checks.mass(mass)
    p, sigma = checks.within("p", p, mass), checks.positive("sigma", sigma)
    lipschitz, epsilon = checks.constant(lipschitz), checks.at_least_zero("epsilon", epsilon)
    checks.broadcast(p=p, epsilon=epsilon, sigma=sigma, lipschitz=lipschitz, mass=mass)
    reach = np.where(epsilon > 0, epsilon * np.where(epsilon > 0, lipschitz, 1.0), 0.0)  # 0 · ∞ is 0 here
    steepest = np.where(mass < 1, np.maximum(p - reach, 0.0), np.minimum(p + reach, mass))
    return checks.unwrapped(_quantile_slope(steepest, mass) / sigma)


def _quantile_slope(q: Floats, mass: Floats) -> Floats:
    """The ratio r φ(Φ⁻¹(q/r))/φ(Φ⁻¹(q)), continued to 1 at q = 0, where both densities vanish alike."""
    end = np.minimum(mass, 1.0)
    inside = (mass != 1) & (q > 0) & (q < end)
    safe = np.where(inside, q, end / 2)
    exponent = (scipy.special.ndtri(safe) ** 2 - scipy.special.ndtri(safe / mass) ** 2) / 2
    at_ends = np.where((mass == 1) | (q == 0), 1.0, np.where(mass < 1, 0.0, np.inf))
    return np.where(inside, mass * np.exp(exponent), at_ends)


def _kind(of: Kind) -> Kind:
    checks.one_of("of", of, _NOISE)
    return of


def _guarded(lipschitz: Numbers, sigma: Numbers, mass: Numbers, of: Kind) -> tuple[Floats, Floats]:
    lipschitz, sigma, mass = checks.constant(lipschitz), checks.positive("sigma", sigma), checks.mass(mass)
    checks.broadcast(lipschitz=lipschitz, sigma=sigma, mass=mass)
    return lipschitz, mass / (sigma * _NOISE[_kind(of)])
