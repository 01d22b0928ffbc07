"""Timing two ways of doing one thing in turn, so that a noisy machine disturbs both alike."""

import statistics
import time
from collections.abc import Callable, Mapping

Clock = Callable[[], float]


def seconds(*functions: Callable[[], object], rounds: int = 5) -> list[float]:
    """The best time of each function over several rounds in which all take their turn, after one to warm up."""
    return [min(times) for times in zip(*_rounds(functions, rounds), strict=True)]


def median_ratio(
    reference: Callable[[], object], other: Callable[[], object], rounds: int, clock: Clock = time.perf_counter
) -> tuple[float, float]:
    """What the reference takes at best, and the median of how many times as long the other took right after it."""
    times = _rounds((reference, other), rounds, clock)
    return min(first for first, _ in times), statistics.median(second / first for first, second in times)


def seconds_in_turn(functions: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """The time of each function in each round, after one round to warm up."""
    times = _rounds(tuple(functions.values()), rounds)
    return {name: list(taken) for name, taken in zip(functions, zip(*times, strict=True), strict=True)}


def _rounds(
    functions: tuple[Callable[[], object], ...], rounds: int, clock: Clock = time.perf_counter
) -> list[list[float]]:
    return [[_once(function, clock) for function in functions] for _ in range(rounds + 1)][1:]


def _once(function: Callable[[], object], clock: Clock) -> float:
    start = clock()
    function()
    return clock() - start
