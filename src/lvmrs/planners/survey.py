"""What the selection sample says of every candidate map and temperature: means and variances of all classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lvmrs._checks import Floats
from lvmrs.errors import InvalidArgumentError
from lvmrs.moments import Moments
from lvmrs.sampling import in_portions
from lvmrs.simplex import MapName, sweep

__all__ = ["TEMPERATURES", "Survey"]

# The paper's grid: 50 temperatures from 0.01 to 50.
TEMPERATURES: tuple[float, ...] = tuple(np.geomspace(0.01, 50, 50).tolist())
# Samples swept at a time: each sweep has a cost of its own.
_PORTION = 2048


@dataclass(frozen=True)
class Survey:
    """One row per candidate: its map and temperature, and mean and variance of each class on ``n0`` samples."""

    n0: int
    maps: tuple[MapName, ...]
    temperatures: Floats
    mean: Floats
    variance: Floats
    mass: float

    @classmethod
    def of(
        cls, scores: Iterable[Tensor], *, maps: Sequence[MapName], temperatures: Sequence[float], mass: float
    ) -> Survey:
        """From logits in batches. Hardmax is one candidate; the other maps are one for each temperature."""
        grids = [(name, [1.0] if name == "hardmax" else list(temperatures)) for name in maps]
        if not all(grid for _, grid in grids):
            raise InvalidArgumentError("temperatures is empty; softmax and sparsemax need at least one")
        totals: list[Moments] = []
        for logits in in_portions(scores, _PORTION):
            parts = [sweep(logits, grid, map=name, mass=mass) for name, grid in grids]
            totals = [total + part for total, part in zip(totals, parts, strict=True)] if totals else parts
        if not totals:
            raise InvalidArgumentError("no selection scores were given; n0 must be at least 1")
        n0 = totals[0].count
        squares = torch.cat([total.squares for total in totals])
        return cls(
            n0=n0,
            maps=tuple(name for name, grid in grids for _ in grid),
            temperatures=np.concatenate([grid for _, grid in grids]),
            mean=torch.cat([total.mean for total in totals]).cpu().numpy(),
            variance=(squares / max(1, n0 - 1)).cpu().numpy(),
            mass=mass,
        )
