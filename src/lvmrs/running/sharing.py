"""How many threads share a pass of a model that only one thread may call.

Threads that share a pass wait for each other in every layer. Where other programs use the cores too, that can be many
times slower than one thread alone. So it is measured while the model runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import torch

from lvmrs.running.crew import torch_threads

__all__ = ["Sharing"]

Result = TypeVar("Result")
# Passes are slow if they take so many times what one undisturbed thread would take.
_SLOW = 1.5
# After so many slow passes, one thread does it alone for so many seconds; then sharing is tried again.
_PASSES, _ALONE = 3, 5.0


class Sharing:
    """Runs passes with all of torch's threads, or with one for a while if that is faster.

    Args:
        cost: the processor time of one thread for a sample, in seconds.
        clock: shows the time.
    """

    def __init__(self, cost: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self.cost, self._clock = cost, clock
        self._slow, self._alone_until = 0, 0.0

    def run(self, pass_: Callable[[], Result], samples: int) -> Result:
        """Run a pass of so many samples."""
        start = self._clock()
        if start < self._alone_until and torch.get_num_threads() > 1:
            with torch_threads(1):
                return pass_()
        result = pass_()
        slow = self._clock() - start > _SLOW * self.cost * samples
        self._slow = self._slow + 1 if slow else 0
        if self._slow >= _PASSES:
            self._slow, self._alone_until = 0, self._clock() + _ALONE
        return result
