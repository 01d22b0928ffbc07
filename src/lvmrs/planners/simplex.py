"""Simplex maps as functions: from logits to probability vectors, with temperature and mass.

A map s sends logits z ∈ R^c (the last dimension) to Δ_r = {p ≥ 0, Σp = r}; the temperature t divides the logits:
s(z/t). All computations are on logits shifted by their maximum, which changes no map and keeps tiny temperatures from
overflowing. ``lvmrs.kernel.maps`` has the maps as objects, with their Lipschitz constants, for the proof.
"""

from torch import Tensor

from lvmrs.kernel import maps
from lvmrs.kernel.checks import Numbers
from lvmrs.kernel.maps import hardmax, softmax, sparsemax
from lvmrs.kernel.moments import Moments
from lvmrs.registry import simplex_map

__all__ = ["hardmax", "simplex_map", "softmax", "sparsemax", "sweep"]


def sweep(logits: Tensor, temperatures: Numbers, *, map: str, mass: float = 1.0) -> Moments:  # noqa: A002
    """Moments of the scores of every class at many temperatures, from one pass over the logits.

    Args:
        logits: a sample of logits, of shape (…, n, c); n is the number of samples.
        temperatures: T temperatures.
        map: name of a simplex map.
        mass: the sum of the scores.

    Returns:
        Moments over the n samples, in float64, of shape (…, T, c).

    >>> import torch
    >>> moments = sweep(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), [0.5, 2.0], map="sparsemax")
    >>> moments.count, moments.mean.tolist()
    (2, [[0.5, 0.5], [0.625, 0.375]])
    """
    return maps.sweep(simplex_map(map), logits, temperatures, mass=mass)
