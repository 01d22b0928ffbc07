"""Margin and variance of kept scores; LVM-RS is about the tradeoff between them."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from lvmrs.registry import MAPS
from lvmrs.runs.directory import Run
from lvmrs.runs.scores import KeptScores, refusing

__all__ = ["score_statistics"]


def score_statistics(run: Run) -> Iterator[tuple[str, float, float]]:
    """Compute margin and variance of the scores of each row, for a run that keeps its scores.

    Returns:
        For each row the name of its map, the margin of the top class over the next in mean score, and the variance of
        the score of the top class. For duels, margin and variance are those of the hardest duel.
    """
    with refusing(run):
        kept = KeptScores.of(run)
    none = torch.tensor([], dtype=torch.long)
    for row in run.rows():
        with refusing(run):
            kept.check(row)
            logits = torch.cat(list(kept.logits(row.idx, "certification", kept.count(row, "certification"))))
        rivals = torch.tensor([k for k in range(logits.shape[1]) if k != row.top])
        smoothed = MAPS.find(row.map)(row.temperature, row.mass)
        columns = smoothed.columns(logits, row.top, rivals, none).double()
        mean, variance = columns.mean(dim=0), columns.var(dim=0)
        if smoothed.paired:
            hardest = int(mean.argmin())
            yield row.map, float(2 * mean[hardest] - 1), float(variance[hardest])
        else:
            yield row.map, float(mean[0] - mean[1:].max()), float(variance[0])
