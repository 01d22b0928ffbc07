"""Inputs on their way to a goal, written down at intervals: who is killed goes on in the middle of an input.

What is written of an input is its plan and its proof at the last look (``lvmrs.anytime.Looked``): counts or sums, and
bounds. Samples after the last look, a tenth of those before it at most, are sampled again, and so are the selection
samples of inputs that have no look yet. Streams say what they are, so the result is that of a run that was not killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lvmrs.anytime import Looked
from lvmrs.errors import InvalidArgumentError, ProofError, guarded
from lvmrs.plan import Plan, fields_of

__all__ = ["Midway", "Underway", "UnusableError", "can_be_written"]

# Seconds between two writings, and how many times as long as a writing takes, so that it costs little.
_EVERY, _TIMES = 10.0, 50.0


class UnusableError(ProofError):
    """What was written of an input cannot be gone on with."""


@dataclass(frozen=True, eq=False)
class Underway:
    """An input on its way."""

    index: int
    plan: Plan
    proof: Looked

    def to_dict(self) -> dict[str, Any]:
        """It as values that JSON can hold."""
        numbers = {name: part.tolist() for name, part in self.proof._asdict().items() if name != "n"}
        return {"index": self.index, "plan": self.plan.to_dict(), "n": self.proof.n, **numbers}

    @classmethod
    def from_dict(cls, stored: object) -> Underway:
        """The input that ``to_dict`` described."""
        with guarded("this is no input on its way", error=InvalidArgumentError):
            fields = fields_of(stored, "input on its way")
            index, plan, n = fields.pop("index"), Plan.from_dict(fields.pop("plan")), fields.pop("n")
            if type(index) is not int or type(n) is not int:
                raise TypeError("index and n must be whole numbers")
            arrays = {name: np.array(part, dtype=np.float64) for name, part in fields.items()}
            return cls(index, plan, Looked(n=n, **arrays))


def can_be_written(plan: Plan) -> bool:
    """Whether a plan can be read again: a part of the user's own may have no name, or that of another."""
    try:
        return Plan.from_json(plan.to_json()) == plan
    except (InvalidArgumentError, TypeError, ValueError):
        return False


class Midway:
    """Remembers inputs on their way, and writes them down at intervals.

    Args:
        write: writes values that JSON can hold, all or nothing.
        stored: what an earlier process has written; None if there is nothing.
        clock: shows the time in seconds.
        done: the indices of inputs that need no certificate any more.
    """

    def __init__(
        self,
        write: Callable[[dict[str, Any]], None],
        stored: dict[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
        done: Collection[int] = (),
    ) -> None:
        self._write, self._clock, self.done = write, clock, frozenset(done)
        stored = stored or {"inputs": []}
        self._known = {each.index: each for each in map(Underway.from_dict, stored["inputs"])}
        self._current: Callable[[], Iterable[Underway | None]] | None = None
        self._next = clock() + _EVERY

    def taken_up(self, index: int) -> Underway | None:
        """What an earlier process has written of an input; None if there is nothing."""
        return self._known.pop(index, None)

    def note(self, current: Callable[[], Iterable[Underway | None]]) -> None:
        """Write down how things stand, if it is time to.

        Args:
            current: gives the inputs on their way when it is called, or later; None for what cannot be written.
        """
        self._current = current
        if self._clock() >= self._next:
            self.flush()

    def flush(self) -> None:
        """Write down how things stand, if anything is known."""
        if self._current is None:
            return
        begun = self._clock()
        inputs = [each for each in self._current() if each is not None]
        waiting = [*inputs, *self._known.values()]
        self._write({"inputs": [each.to_dict() for each in waiting]})
        now = self._clock()
        self._next = now + max(_EVERY, _TIMES * (now - begun))
