"""Means and variances of the scores of all classes on the selection sample, for every candidate map."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmrs._checks import Floats
from lvmrs.errors import InvalidArgumentError
from lvmrs.maps import SimplexMap, sweep
from lvmrs.moments import Moments
from lvmrs.planners.grid import geometric
from lvmrs.scores import in_portions
from lvmrs.simplex import simplex_map

__all__ = ["TEMPERATURES", "Survey"]

# The paper's grid: 50 temperatures from 0.01 to 50.
TEMPERATURES = geometric(0.01, 50, 50)
# Number of samples that are swept at a time: each sweep has a fixed cost.
_PORTION = 2048


@dataclass(frozen=True)
class Survey:
    """Mean and variance of the score of each class, one row for each candidate, as shares of the mass.

    >>> found = Survey.of([torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0]])], maps=["hardmax"])
    >>> found.mean.round(4).tolist()
    [[0.6667, 0.3333]]
    """

    n0: int
    """Number of samples."""
    maps: tuple[SimplexMap, ...]
    """The candidates."""
    mean: Floats
    """Shape (candidates, classes)."""
    variance: Floats
    """Shape (candidates, classes)."""

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return int(self.mean.shape[1])

    @property
    def order(self) -> NDArray[np.intp]:
        """For each candidate, the classes with the largest mean first; the lower index first where means are equal."""
        return np.argsort(-self.mean, axis=1, kind="stable").astype(np.intp)

    @classmethod
    def of(
        cls, logits: Iterable[Tensor], *, maps: Sequence[str], temperatures: Sequence[float] = (), mass: float = 1.0
    ) -> Survey:
        """Survey logits.

        Args:
            logits: logits in batches (samples, classes).
            maps: names of simplex maps.
            temperatures: each soft map is a candidate at each of these; hardmax is one candidate.
            mass: what the scores of the maps sum to.
        """
        kinds = [simplex_map(name) for name in maps]
        families = [kind.family(temperatures, mass) for kind in kinds]
        if not all(families):
            raise InvalidArgumentError(f"temperatures is empty; {', '.join(maps)} need at least one")
        totals: list[Moments] = []
        for portion in in_portions(logits, _PORTION):
            parts = [
                sweep(kind, portion, [each.temperature for each in family], mass=mass)
                for kind, family in zip(kinds, families, strict=True)
            ]
            totals = [total + part for total, part in zip(totals, parts, strict=True)] if totals else parts
        if not totals:
            raise InvalidArgumentError("no selection scores were given; n0 must be at least 1")
        n0 = totals[0].count
        squares = torch.cat([total.squares for total in totals]).cpu().numpy()
        return cls(
            n0=n0,
            maps=tuple(each for family in families for each in family),
            mean=torch.cat([total.mean for total in totals]).cpu().numpy() / mass,
            variance=squares / max(1, n0 - 1) / mass**2,
        )
