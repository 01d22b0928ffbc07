"""Simplex maps as functions: from logits to probability vectors, with temperature and mass.

A map s sends logits z ∈ R^c (the last dimension) to Δ_r = {p ≥ 0, Σp = r}; the temperature divides: s(z/t). All
computations are on logits shifted by their maximum, which changes no map and keeps tiny temperatures from overflowing.
The maps themselves, with their constants and words, live in ``lvmrs.maps``.
"""

from torch import Tensor

from lvmrs import maps
from lvmrs._checks import Numbers
from lvmrs.errors import InvalidArgumentError
from lvmrs.maps.hardmax import hardmax
from lvmrs.maps.softmax import softmax
from lvmrs.maps.sparsemax import sparsemax
from lvmrs.moments import Moments
from lvmrs.registry import MAPS

__all__ = ["hardmax", "simplex_map", "softmax", "sparsemax", "sweep"]


def simplex_map(name: str, *, argument: str = "map") -> type[maps.SimplexMap]:
    """The simplex map of that name; duels are not among them."""
    if name not in MAPS:
        names = ", ".join(MAPS.having("simplex"))
        raise InvalidArgumentError(f"{argument} must be one of {names}, got {name!r}")
    found: type[maps.SimplexMap] = MAPS.find(name, argument=argument)
    if not issubclass(found, maps.SimplexMap):
        raise InvalidArgumentError(f"{argument} must be a map to the simplex, got {name}; use the method duels instead")
    return found


def sweep(logits: Tensor, temperatures: Numbers, *, map: str, mass: float = 1.0) -> Moments:  # noqa: A002
    """Moments of every class under every temperature at once, for the map of that name; see ``lvmrs.maps.sweeping``."""
    return maps.sweep(simplex_map(map), logits, temperatures, mass=mass)
