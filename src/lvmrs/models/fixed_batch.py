"""Programs with a fixed batch size, run on batches of any size."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class InParts(nn.Module):
    """Splits batches of any size into parts of ``size`` rows for a program.

    ``rest``, the same function for batches of any size, runs a shorter last part. Without it, copies of the last row
    pad that part, so that a single row runs with copies of itself only (``lvmrs.kernel.model_check``).
    """

    def __init__(
        self, program: Callable[[Tensor], Tensor], size: int, rest: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        super().__init__()
        self.program, self.runs_in_parts_of, self.rest = program, size, rest

    def forward(self, x: Tensor) -> Tensor:
        """The outputs for all rows of a batch, in order."""
        size, answers = self.runs_in_parts_of, list[Tensor]()
        for part in torch.split(x, size):
            if len(part) == size:
                answers.append(self.program(part))
            elif self.rest is not None:
                answers.append(self.rest(part))
            else:
                filled = torch.cat([part, part[-1:].expand(size - len(part), *part.shape[1:])])
                answers.append(self.program(filled)[: len(part)])
        return torch.cat(answers)
