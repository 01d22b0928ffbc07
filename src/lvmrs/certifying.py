"""Certifying inputs one after the other: while one is planned and proved, the next are sampled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from torch import Tensor

from lvmrs.certificate import Certificate
from lvmrs.noise import Stream
from lvmrs.plan import Terms
from lvmrs.planners.base import Planner
from lvmrs.prove import prove
from lvmrs.running.crew import Crew
from lvmrs.sampling import Request, Sampler, Watch, sampled

__all__ = ["Asked", "certified"]


class Asked(NamedTuple):
    """The samples that the certificate of an input needs."""

    selection: Request
    certification: Request

    @classmethod
    def of(cls, sampler: Sampler, x: Tensor, seed: int, index: int, n0: int, n: int) -> Asked:
        """Ask for n0 samples to plan on, and for n others to prove on."""
        selection, certification = Stream(seed, index, "selection"), Stream(seed, index, "certification")
        return cls(Request(sampler, x, selection, n0), Request(sampler, x, certification, n))


def certified(
    inputs: Iterable[Asked],
    crew: Crew,
    planner: Planner,
    terms: Callable[[Tensor], Terms],
    watch: Watch | None = None,
) -> Iterator[Certificate]:
    """Plan on the selection sample of each input, and prove on its certification sample.

    Args:
        inputs: what to sample for each input. They are asked for some time before their turn.
        crew: the threads that sample.
        planner: makes the plans.
        terms: gives the terms of the certificate of an input.
        watch: called with the stage and the logits of each piece of the input whose turn it is.

    Returns:
        The certificates, in order. What is wrong with an input is raised when its turn comes.
    """
    coming: deque[Asked] = deque()
    answers = sampled(_requests(inputs, coming), crew)
    for selected in answers:
        selection, certification = coming.popleft()
        agreed = terms(selection.x)
        plan = planner.plan(selection.scores(selected, watch), agreed)
        yield prove(plan, agreed, certification.scores(next(answers), watch))


def _requests(inputs: Iterable[Asked], coming: deque[Asked]) -> Iterator[Request]:
    for asked in inputs:
        coming.append(asked)
        yield from asked
