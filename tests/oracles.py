"""Slow, obviously right references for the fast routines."""

from collections.abc import Sequence

import mpmath
import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def sparsemax_by_bisection(logits: Sequence[float], temperature: float = 1.0, mass: float = 1.0) -> list[mpmath.mpf]:
    """The projection of z/t on {p ≥ 0, Σp = r}: p = max(z/t − ρ, 0) with the ρ that makes the sum right."""
    with mpmath.workdps(50):
        z = [mpmath.mpf(float(value)) / mpmath.mpf(temperature) for value in logits]
        low, high = min(z) - mass - 1, max(z)
        for _ in range(200):
            middle = (low + high) / 2
            if sum(max(value - middle, 0) for value in z) > mass:
                low = middle
            else:
                high = middle
        return [max(value - low, mpmath.mpf(0)) for value in z]


def softmax_by_definition(logits: Sequence[float], temperature: float = 1.0, mass: float = 1.0) -> list[mpmath.mpf]:
    with mpmath.workdps(50):
        powers = [mpmath.exp(mpmath.mpf(float(value)) / mpmath.mpf(temperature)) for value in logits]
        return [mass * power / sum(powers) for power in powers]


def ramp_mean(centre: mpmath.mpf, width: mpmath.mpf) -> mpmath.mpf:
    """Mean of the ramp of the given centre and width under a standard normal: a difference of ∫Q, or Q itself."""

    def tail(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.erfc(x / mpmath.sqrt(2)) / 2

    def integral(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.npdf(x) - x * tail(x)

    if width == 0:
        return tail(centre)
    return (integral(centre - width / 2) - integral(centre + width / 2)) / width


def ramp_centre(p: mpmath.mpf, width: mpmath.mpf) -> mpmath.mpf:
    low, high = -40 - width, 40 + width
    while high - low > mpmath.mpf(10) ** (-34) * (1 + width):
        middle = (low + high) / 2
        low, high = (middle, high) if ramp_mean(middle, width) > p else (low, middle)
    return (low + high) / 2


def exact_ramp_per_class(p_a: float, p_b: float, sigma: float, lipschitz: float, mass: float = 1.0) -> mpmath.mpf:
    with mpmath.workdps(50):
        a, b, s, r = (mpmath.mpf(float(value)) for value in (p_a, p_b, sigma, mass))
        a, b = a / r, b / r
        width = mpmath.mpf(0) if np.isinf(lipschitz) else r / (mpmath.mpf(float(lipschitz)) * s)
        return s / 2 * (ramp_centre(b, width) - ramp_centre(a, width))


def exact_ramp_pairwise(p_a: float, p_b: float, sigma: float, lipschitz: float, mass: float = 1.0) -> mpmath.mpf:
    with mpmath.workdps(50):
        a, b, s, r = (mpmath.mpf(float(value)) for value in (p_a, p_b, sigma, mass))
        a, b = a / r, b / r
        width = mpmath.mpf(0) if np.isinf(lipschitz) else mpmath.sqrt(2) * r / (mpmath.mpf(float(lipschitz)) * s)
        return s * ramp_centre((1 - a + b) / 2, width)


def random_logits(
    n: int, c: int, *, scale: float = 3.0, seed: int = 0, dtype: torch.dtype = torch.float64
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(n, c, generator=generator, dtype=torch.float64)).to(dtype)


def steepest(model: torch.nn.Module, x: torch.Tensor) -> float:
    """The largest singular value of the derivative of a model at one input."""
    jacobian = torch.func.jacrev(lambda v: model(v[None])[0])(x)
    return float(torch.linalg.matrix_norm(jacobian.detach().double().reshape(-1, x.numel()), ord=2))
