"""A budget with targets for many inputs: samples are spent where they are expected to gain most.

(A budget for the average radius is planned beforehand: ``lvmrs.allotment``.)

All inputs are on their way at once. Each gets a first look; then, round by round, inputs go on to their next look in
the order of what that is expected to gain for each sample, as far as is known by then. What an input gets depends on
the others, but no certificate relies on why sampling stopped (``lvmrs.anytime``). Rounds end before the next is
planned, so the result does not depend on the batch size or on which thread is faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from lvmrs.anytime import looks
from lvmrs.certificate import Certificate
from lvmrs.errors import InvalidArgumentError, naming
from lvmrs.flights import Arrival, Asking, Flight
from lvmrs.goals import UNDECIDED, Goal, Moment, verdict
from lvmrs.midway import Midway, Shared

__all__ = ["Gives", "gain", "within_budget"]

# The budget is planned anew about so many times.
_ROUNDS = 64
# A target above what is expected needs so many times the samples so far: it comes last, but it comes.
_UNLIKELY = 1e6


def gain(before: Moment, now: Moment, following: int, goal: Goal) -> float:
    """What the next look of an input is expected to add to the objective for each sample.

    The objective is the sum of the radii or, if the goal has targets, the number of targets that are certified. The
    radius of infinitely many samples is taken to lie midway between the radius and the limit, and the distance from it
    to shrink as 1/√n; where there is no limit yet, the radius is taken to go on growing with ln n as it did.

    Args:
        before: what was known at an earlier look, or nothing at n = 0.
        now: what is known at the last look.
        following: the number of samples at the next look.
        goal: what is asked.

    >>> gain(Moment(0, 0, math.inf), Moment(100, 0.2, 0.4), 144, Goal(budget=10**6)) > 0
    True
    >>> gain(Moment(0, 0, math.inf), Moment(100, 0.0, 0.0), 144, Goal(budget=10**6))
    0.0
    """
    if following <= now.n:
        return 0.0
    radius_at, needed = _growth(before, now)
    if not goal.targets:
        return max(0.0, radius_at(following) - now.radius) / (following - now.n)
    open_ = [target for target in goal.targets if verdict(now.radius, now.limit, target) == UNDECIDED]
    return max((1.0 / max(1.0, needed(target) - now.n) for target in open_), default=0.0)


def _growth(before: Moment, now: Moment) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """The radius that is expected after so many samples, and the number of samples at which a radius is expected."""
    if math.isfinite(now.limit):
        middle = (now.radius + max(now.limit, now.radius)) / 2
        short = middle - now.radius
        # Where nothing is certified yet, the lower end is below 0, and the middle is too high.
        trust = 1.0 if now.radius > 0 else 0.5
        return (
            lambda n: now.radius + trust * short * (1 - math.sqrt(now.n / n)),
            lambda target: now.n * (short / (middle - target)) ** 2 if middle > target else _UNLIKELY * now.n,
        )
    slope = (now.radius - before.radius) / math.log(now.n / max(before.n, 1)) if now.n > before.n else 0.0
    return (
        lambda n: now.radius + slope * math.log(n / now.n),
        lambda target: now.n * math.exp(min(50.0, (target - now.radius) / slope)) if slope > 0 else _UNLIKELY * now.n,
    )


class Gives(Protocol):
    """Gives inputs the samples that they want: ``Batches``, or kept scores."""

    def run(self, flights: Sequence[Flight]) -> None:
        """Give them all that they want."""


def within_budget(
    inputs: Iterable[Arrival],
    batches: Gives,
    asking: Asking,
    midway: Midway | None = None,
) -> Iterator[Certificate]:
    """Certify all inputs within the budget of the goal.

    Args:
        inputs: the inputs, all of which are read before the first is certified.
        batches: gives them samples.
        asking: what is asked about them; its goal has a budget.
        midway: remembers how things are between rounds; what an earlier process has left there is taken up.

    Returns:
        The certificates, in order, of all inputs that need one.
    """
    goal, arrivals = asking.goal, list(inputs)
    midway = Midway(lambda known: None) if midway is None else midway
    earlier = midway.shared
    if earlier is None or midway.indices != {arrival.index for arrival in arrivals}:
        earlier = None
        midway.forget()
    flights = [Flight(each, asking, keeps=False, known=midway.taken_up(each.index)) for each in arrivals]
    first = sum(asking.n0 + next(looks(flight.most)) for flight in flights)
    if (goal.budget or 0) < first:
        raise InvalidArgumentError(
            f"budget must be at least {first} samples for a first look at {len(flights)} inputs, got {goal.budget}"
        )
    left = (goal.budget or 0) - first
    before = {flight.index: Moment(0, 0.0, math.inf) for flight in flights}
    if earlier is not None:
        left, before = earlier.left, dict(earlier.before)
    _run(batches, flights)
    while True:
        _remember(midway, flights, Shared(left, dict(before)))
        granted = _grant(flights, before, left, goal)
        if not granted:
            break
        for flight in granted:
            before[flight.index] = flight.now
            flight.go_on()
        left -= sum(flight.wanted for flight in granted)
        _run(batches, granted)
    yield from (flight.certificate() for flight in flights if flight.index not in midway.done)


def _run(batches: Gives, flights: list[Flight]) -> None:
    """Give inputs what they want. What is wrong with one is raised at once, before more of the budget is spent."""
    batches.run(flights)
    for flight in flights:
        if flight.failure is not None:
            with naming(flight.index):
                raise flight.failure


def _remember(midway: Midway, flights: list[Flight], shared: Shared) -> None:
    """Remember how things are between two rounds; all inputs or none, since they depend on each other."""
    underway = [flight.underway for flight in flights]
    if None not in underway:
        midway.note(lambda: underway, shared)


def _grant(flights: list[Flight], before: dict[int, Moment], left: int, goal: Goal) -> list[Flight]:
    """The inputs that go on to their next look: the most promising ones, for a share of the budget."""
    now = [flight.now for flight in flights]  # once: each is computed from the bounds
    share = max(1, (goal.budget or 0) // _ROUNDS)
    worth = [
        (gain(before[flight.index], moment, flight.following, goal), flight.following - moment.n, flight)
        for flight, moment in zip(flights, now, strict=True)
        if flight.counts
    ]
    found: list[Flight] = []
    spent = 0
    for expected, cost, flight in sorted(worth, key=lambda each: -each[0]):  # stable, so equal ones keep their order
        if expected > 0 and spent + cost <= left and (not found or spent + cost <= share):
            found.append(flight)
            spent += cost
    return found
