"""Rounds in which all contestants take their turn, so that a busy moment disturbs all of them alike."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping

__all__ = ["Contestant", "rounds_of", "seconds_per_sample"]

Contestant = Callable[[], int]
"""Does its work once, and returns how many samples that were."""


def seconds_per_sample(contestant: Contestant) -> float:
    """The time of one turn, divided by its samples."""
    start = time.perf_counter()
    samples = contestant()
    return (time.perf_counter() - start) / samples


def rounds_of(contestants: Mapping[str, Contestant], rounds: int, warm: int = 1) -> dict[str, list[float]]:
    """Seconds per sample of each contestant in each round.

    Args:
        contestants: who takes part.
        rounds: how many rounds are counted.
        warm: how many rounds are run before, and not counted.

    Returns:
        For each name as many times as there are rounds. Each round begins with another contestant than the last.
    """
    names = list(contestants)
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-warm, rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            taken = seconds_per_sample(contestants[name])
            if number >= 0:
                times[name].append(taken)
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return times
