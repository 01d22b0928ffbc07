"""The interface of all planners."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import get_args

from torch import Tensor

from lvmrs import _checks
from lvmrs.errors import InvalidArgumentError
from lvmrs.plan import BoundName, Plan, Terms
from lvmrs.sampling import Stream
from lvmrs.simplex import MapName

__all__ = ["Planner", "check_search"]


class Planner(ABC):
    """Chooses how to certify an input, from logits of noisy copies that the certificate will not be made from."""

    @abstractmethod
    def plan(self, scores: Iterable[Tensor], terms: Terms, origin: Stream) -> Plan:
        """A plan from the selection scores, in batches (samples, classes); ``origin`` goes into the plan."""


def check_search(
    maps: tuple[MapName, ...], temperatures: tuple[float, ...], mass: float, bounds: tuple[BoundName, ...]
) -> None:
    """Refuse a search over nothing, or over what does not exist, before anything is sampled for it."""
    for name, names, choices in (("maps", maps, MapName), ("bounds", bounds, BoundName)):
        if not isinstance(names, tuple) or not names:
            raise InvalidArgumentError(f"{name} must be a tuple of at least one name, got {names!r}")
        for value in names:
            _checks.one_of(name, value, get_args(choices))
    if set(maps) != {"hardmax"}:
        if _checks.positive("temperatures", temperatures).ndim != 1:
            raise InvalidArgumentError(f"temperatures must be a tuple of numbers, got {temperatures!r}")
        if set(bounds) == {"clopper_pearson"}:
            raise InvalidArgumentError("bounds must have one for soft maps: betting, bernstein or hoeffding")
    _checks.single("mass", _checks.mass(mass))
