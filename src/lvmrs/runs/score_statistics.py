"""Margin and variance of kept scores: what the tradeoff of LVM-RS is about."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from lvmrs.registry import MAPS
from lvmrs.runs.directory import Run
from lvmrs.runs.scores import read_scores

__all__ = ["score_statistics"]


def score_statistics(run: Run) -> Iterator[tuple[str, float, float]]:
    """For each row of a run with kept scores: its map, the margin of the mean scores, the variance of the top one.

    For duels these are the margin and the variance of the hardest one.
    """
    indices = run.manifest.selection.indices
    kept = read_scores(run.directory, "certification")
    none = torch.tensor([], dtype=torch.long)
    for row in run.rows():
        logits = torch.from_numpy(np.array(kept[indices.index(row.idx)]))
        rivals = torch.tensor([k for k in range(logits.shape[1]) if k != row.top])
        smoothed = MAPS.find(row.map)(row.temperature, row.mass)
        columns = smoothed.columns(logits, row.top, rivals, none).double()
        mean, variance = columns.mean(dim=0), columns.var(dim=0)
        if smoothed.paired:
            hardest = int(mean.argmin())
            yield row.map, float(2 * mean[hardest] - 1), float(variance[hardest])
        else:
            yield row.map, float(mean[0] - mean[1:].max()), float(variance[0])
