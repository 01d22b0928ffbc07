"""Running programs that take batches of one size only."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["InParts"]


class InParts(nn.Module):
    """Runs a program that takes batches of one size on batches of any size, in parts.

    Copies of the last row fill up the last part, so that a row alone has no other company (``lvmrs.kernel.model_check``).

    Args:
        program: takes batches of one size.
        size: that size.
        rest: the same function for batches of any size, if there is one: it takes the last part as it is.
    """

    def __init__(
        self, program: Callable[[Tensor], Tensor], size: int, rest: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        super().__init__()
        self.program, self.runs_in_parts_of, self.rest = program, size, rest

    def forward(self, x: Tensor) -> Tensor:
        """The answers to all inputs of a batch, in order."""
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
