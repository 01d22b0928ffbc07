"""Means and variances of the scores of all classes on the selection sample, for every candidate map.

Of very many classes only the strongest have a column each. The others are bounded together: one column is for the best
of them in each sample. Its mean is at least that of each of them, so forecasts never count on a rival being weaker than
it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmrs._checks import Floats
from lvmrs.errors import InvalidArgumentError
from lvmrs.maps import SimplexMap, sweep
from lvmrs.moments import Moments
from lvmrs.planners.grid import geometric
from lvmrs.registry import simplex_map
from lvmrs.scores import in_portions

__all__ = ["MANY_CLASSES", "TEMPERATURES", "Survey"]

# The paper's grid: 50 temperatures from 0.01 to 50.
TEMPERATURES = geometric(0.01, 50, 50)
# Number of samples that are swept at a time: each sweep has a fixed cost.
_PORTION = 2048
# With more classes than this, a search over many candidates gives only so many of them a column each.
MANY_CLASSES = 1024
# A class is strong if it is often among this many of the largest logits.
_LEADERS = 8


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
    classes: int
    """Number of classes."""
    mean: Floats
    """Shape (candidates, columns). The columns are the classes, or those of ``kept``."""
    variance: Floats
    """Shape (candidates, columns)."""
    kept: NDArray[np.intp] | None = None
    """The classes that have a column each, in order; one column after them is for the others. None for all classes."""

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """For each candidate, the columns with the largest mean first; the lower one first where means are equal.

        The column of the others is no class, and never comes first.
        """
        order = np.argsort(-self.mean, axis=1, kind="stable").astype(np.intp)
        if self.kept is not None:
            no_class = order[:, 0] == len(self.kept)
            order[no_class, :2] = order[no_class, 1::-1]
        return order

    def is_class(self, column: int) -> bool:
        """Whether a column is that of one class."""
        return self.kept is None or column < len(self.kept)

    @property
    def tops(self) -> NDArray[np.intp]:
        """For each candidate, the class with the largest mean."""
        first = self.order[:, 0]
        return first if self.kept is None else self.kept[first]

    @property
    def rest(self) -> Floats:
        """For each candidate, the mean of all scores together that are in no column."""
        if self.kept is None:
            return np.zeros(len(self.mean))
        left: Floats = np.clip(1 - self.mean.sum(axis=1), 0.0, 1.0)
        return left

    def ranked(self, row: int) -> list[int]:
        """All classes for one candidate, the strongest first; classes without a column of their own come last."""
        order = self.order[row]
        if self.kept is None:
            ranked: list[int] = order.tolist()
            return ranked
        strong = self.kept[order[order < len(self.kept)]]
        return [*strong.tolist(), *np.setdiff1d(np.arange(self.classes), self.kept, assume_unique=True).tolist()]

    @classmethod
    def of(
        cls,
        logits: Iterable[Tensor],
        *,
        maps: Sequence[str],
        temperatures: Sequence[float] = (),
        mass: float = 1.0,
        most: int | None = None,
    ) -> Survey:
        """Survey logits.

        Args:
            logits: logits in batches (samples, classes).
            maps: names of simplex maps.
            temperatures: each soft map is a candidate at each of these; hardmax is one candidate.
            mass: what the scores of the maps sum to.
            most: how many classes have a column each at most; None for all of them.
        """
        kinds = [simplex_map(name) for name in maps]
        families = [_family(kind, tuple(temperatures), mass) for kind in kinds]
        if not all(families):
            raise InvalidArgumentError(f"temperatures is empty; {', '.join(maps)} need at least one")
        totals: list[Moments] = []
        kept: Tensor | None = None
        classes = 0
        for portion in in_portions(logits, _PORTION):
            if not totals:
                classes = portion.shape[1]
                kept = None if most is None or classes <= most else _strongest(portion, most)
            parts = [
                sweep(kind, portion, [each.temperature for each in family], mass=mass, kept=kept)
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
            classes=classes,
            mean=torch.cat([total.mean for total in totals]).cpu().numpy() / mass,
            variance=squares / max(1, n0 - 1) / mass**2,
            kept=None if kept is None else kept.numpy().astype(np.intp),
        )


@lru_cache(maxsize=32)  # they are mostly the same for all inputs
def _family(kind: type[SimplexMap], temperatures: tuple[float, ...], mass: float) -> tuple[SimplexMap, ...]:
    return kind.family(temperatures, mass)


def _strongest(logits: Tensor, most: int) -> Tensor:
    """The classes that are most often among the leaders of a sample, and those with the largest mean logits; in order.

    A class that leads some samples can be the top class at low temperatures, and one with a large mean at high ones.
    """
    leaders = logits.topk(min(_LEADERS, logits.shape[1]), dim=1).indices.flatten().cpu()
    often = torch.bincount(leaders, minlength=logits.shape[1]).argsort(descending=True, stable=True)
    large = logits.mean(dim=0).cpu().argsort(descending=True, stable=True)
    leading = often[: most * 3 // 4]
    more = large[torch.isin(large, leading, invert=True)][: most - len(leading)]
    return torch.cat([leading, more]).sort().values
