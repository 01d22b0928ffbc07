"""Timing two ways of doing one thing in turn, so that a noisy machine disturbs both alike."""

import time
from collections.abc import Callable


def seconds(*functions: Callable[[], object], rounds: int = 5) -> list[float]:
    """The best time of each function over several rounds in which all take their turn, after one to warm up."""
    best = [float("inf")] * len(functions)
    for attempt in range(rounds + 1):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            if attempt:
                best[i] = min(best[i], time.perf_counter() - start)
    return best
