"""Timing two ways of doing one thing in turn, so that a noisy machine disturbs both alike."""

import statistics
import time
from collections.abc import Callable


def seconds(*functions: Callable[[], object], rounds: int = 5) -> list[float]:
    """The best time of each function over several rounds in which all take their turn, after one to warm up."""
    return [min(times) for times in zip(*_rounds(functions, rounds), strict=True)]


def median_ratio(reference: Callable[[], object], other: Callable[[], object], rounds: int) -> tuple[float, float]:
    """What the reference takes at best, and the median of how many times as long the other took right after it."""
    times = _rounds((reference, other), rounds)
    return min(first for first, _ in times), statistics.median(second / first for first, second in times)


def _rounds(functions: tuple[Callable[[], object], ...], rounds: int) -> list[list[float]]:
    return [[_once(function) for function in functions] for _ in range(rounds + 1)][1:]


def _once(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
