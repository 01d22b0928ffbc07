"""Rounds in which all contestants take their turn, so that a busy moment disturbs all of them alike."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["Contestant", "rounds_of", "seconds_per_sample"]


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Contestant:
    """Someone who can do the work once."""

    run: Callable[[], int]
    """Does it, and returns how many samples that were."""
    prepare: Callable[[], None] = _nothing
    """What is done before each turn, and is not timed."""


def seconds_per_sample(contestant: Contestant) -> float:
    """The time of one turn, divided by its samples."""
    contestant.prepare()
    start = time.perf_counter()
    samples = contestant.run()
    return (time.perf_counter() - start) / samples


def rounds_of(turns: Mapping[str, Callable[[], float]], rounds: int, warm: int = 1) -> dict[str, list[float]]:
    """The result of each turn in each round.

    Args:
        turns: a function for each contestant, which takes a turn and returns its seconds per sample.
        rounds: how many rounds are counted.
        warm: how many rounds are run before, and not counted.

    Returns:
        For each name as many times as there are rounds. Each round begins with another contestant than the last.
    """
    names = list(turns)
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-warm, rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            taken = turns[name]()
            if number >= 0:
                times[name].append(taken)
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return times
