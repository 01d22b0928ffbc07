"""Compares the logits that a model computes now with the logits that a run kept."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from lvmrs.kernel.agreement import Agreement
from lvmrs.kernel.noise import Stage
from lvmrs.record import Row
from lvmrs.record.scores import DamagedScoresError, KeptScores

__all__ = ["KeptComparison"]


class KeptComparison:
    """Compares the logits of one input, batch by batch, with the kept ones.

    Args:
        kept: the kept scores of the run.
        row: the row of the input; the kept scores must match its checksum.
        agreement: the differences that rounding may cause in logits of the input.
    """

    def __init__(self, kept: KeptScores, row: Row, agreement: Agreement) -> None:
        self._kept, self._row, self._agreement = kept, row, agreement
        self._compared: dict[Stage, int] = {}
        self._waiting: dict[Stage, tuple[Iterator[Tensor], Tensor]] = {}
        self.largest: float | None = None
        """The largest difference so far; None if nothing was compared."""
        self.why_not: str | None = None
        """Why the kept scores are rejected; None if they are not."""
        try:
            kept.check(row)
        except DamagedScoresError as error:
            self.why_not = str(error)

    def add(self, stage: Stage, logits: Tensor) -> None:
        """Compare the next logits of a stage."""
        if self.why_not is not None:
            return
        left = self._kept.count(self._row, stage) - self._compared.get(stage, 0)
        now = logits[:left].detach().cpu().double()  # rounding may make sampling stop later than in the run
        self._compared[stage] = self._compared.get(stage, 0) + len(now)
        if not len(now):
            return
        kept = self._next(stage, len(now)).double()
        if kept.shape != now.shape:
            self.why_not = f"its kept scores have {kept.shape[1]} classes, and the model has {now.shape[1]}"
            return
        self.largest = max(self.largest or 0.0, float((now - kept).abs().max()))
        if not self._agreement.agree(now, kept):
            self.why_not = f"its kept scores are up to {self.largest:g} away from those of the model"

    def _next(self, stage: Stage, count: int) -> Tensor:
        """The next ``count`` kept logits of a stage."""
        if stage not in self._waiting:
            batches = self._kept.logits(self._row.idx, stage)
            self._waiting[stage] = batches, next(batches)
        batches, waiting = self._waiting[stage]
        while len(waiting) < count:
            waiting = torch.cat([waiting, next(batches)])
        self._waiting[stage] = batches, waiting[count:]
        return waiting[:count]
