"""What the rows of a run amount to: certified accuracy and average certified radius."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lvmrs.errors import RunError
from lvmrs.runs import Run

__all__ = ["Results", "average_certified_radius", "certified_accuracy", "results_of"]


@dataclass(frozen=True)
class Results:
    """The radius of every input, and whether its class is the label; an abstention is never correct."""

    name: str
    radius: NDArray[np.float64]
    correct: NDArray[np.bool_]
    predict: NDArray[np.int64]
    missing: int = 0
    """Inputs that an unfinished run has no row for."""


def results_of(run: Run) -> Results:
    """The results of a run so far."""
    rows = run.rows()
    if not rows:
        raise RunError(f"{run.directory} has no rows yet; there is nothing to analyse")
    return Results(
        name=str(run.directory),
        radius=np.array([row.radius for row in rows]),
        correct=np.array([row.predict == row.label for row in rows]),
        predict=np.array([row.predict for row in rows]),
        missing=len(run.manifest.selection.indices) - len(rows),
    )


def certified_accuracy(results: Results, radii: Sequence[float]) -> list[float]:
    """For each radius, the share of all inputs whose certificate is correct and reaches it."""
    certified = np.sort(results.radius[results.correct])
    reach = len(certified) - np.searchsorted(certified, np.asarray(radii, dtype=float), side="left")
    return [float(count) / len(results.radius) for count in reach]


def average_certified_radius(results: Results) -> float:
    """The mean radius over all inputs, counting nothing for those that are wrong or abstain (Zhai et al. 2020)."""
    return float(np.sum(results.radius[results.correct])) / len(results.radius)
