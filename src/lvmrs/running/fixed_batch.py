"""Running programs that take batches of one size only."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["InParts"]


class InParts(nn.Module):
    """Runs a program that takes batches of one size on batches of any size, in parts.

    Copies of the last row fill up the last part, so that a row alone has no other company (``lvmrs.model_check``).
    """

    def __init__(self, program: Callable[[Tensor], Tensor], size: int) -> None:
        super().__init__()
        self.program, self.runs_in_parts_of = program, size

    def forward(self, x: Tensor) -> Tensor:
        """The answers to all inputs of a batch, in order."""
        missing = -len(x) % self.runs_in_parts_of
        padded = torch.cat([x, x[-1:].expand(missing, *x.shape[1:])]) if missing else x
        return torch.cat([self.program(part) for part in torch.split(padded, self.runs_in_parts_of)])[: len(x)]
