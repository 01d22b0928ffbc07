"""Certifying inputs one after the other: while one is planned and proved, the next are sampled.

With a budget for all inputs, all are planned first, on their selection samples. These also settle how many samples each
input is proved on (``lvmrs.allotment``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lvmrs.allotment import LEAST, allotted, expected_radii, numbers
from lvmrs.certificate import Certificate
from lvmrs.errors import InvalidArgumentError, ProofError, guarded, naming
from lvmrs.goals import Goal
from lvmrs.noise import Stream
from lvmrs.plan import Plan, Terms
from lvmrs.planners.base import Planner
from lvmrs.prove import prove
from lvmrs.running.crew import Crew
from lvmrs.sampling import Request, Sampler, Watch, sampled

__all__ = ["Answers", "Asked", "Planning", "certified", "certified_within"]

Answers = Callable[[Iterable[Request]], Iterator[Iterator[Tensor]]]
"""Answers requests in order, each with the logits of its samples in parts: the network, or kept scores."""


class Asked(NamedTuple):
    """The samples that the certificate of an input needs."""

    selection: Request
    certification: Request
    label: int | None = None
    """The class of the input in its data set, where that matters: only right answers are worth a share of a budget."""

    @classmethod
    def of(cls, sampler: Sampler, x: Tensor, seed: int, index: int, n0: int, n: int, label: int | None = None) -> Asked:
        """Ask for n0 samples to plan on, and for n others to prove on."""
        selection, certification = Stream(seed, index, "selection"), Stream(seed, index, "certification")
        return cls(Request(sampler, x, selection, n0), Request(sampler, x, certification, n), label)


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
        selection, certification, _ = coming.popleft()
        agreed = terms(selection.x)
        plan = planner.plan(selection.scores(selected, watch), agreed)
        yield prove(plan, agreed, certification.scores(next(answers), watch))


def _requests(inputs: Iterable[Asked], coming: deque[Asked]) -> Iterator[Request]:
    for asked in inputs:
        coming.append(asked)
        yield from (asked.selection, asked.certification)


@dataclass(frozen=True)
class Planning:
    """How inputs that share a budget are planned."""

    planner: Planner
    terms: Callable[[Tensor], Terms]
    """Gives the terms of the certificate of an input; n is the most samples that it may get."""
    goal: Goal
    """A goal with a budget of samples for all inputs together, also those to plan on."""
    done: Collection[int] = ()
    """The indices of inputs that need no certificate any more. They are planned with the others, whose numbers depend
    on them."""


class _Planned(NamedTuple):
    certification: Request
    plan: Plan
    terms: Terms


def certified_within(inputs: Sequence[Asked], answers: Answers, planning: Planning) -> Iterator[Certificate]:
    """Certify inputs within a budget, each with a number of samples that is settled before they are drawn.

    Args:
        inputs: what to sample for each input at most. An input whose plan is not for its label gets few samples.
        answers: draws the samples.
        planning: how they are planned, and the budget.

    Returns:
        The certificates of all inputs that need one, in order. What is wrong with an input is raised when it is
        planned, before the first is proved.
    """
    counts, budget = numbers(inputs[0].certification.n if inputs else LEAST), planning.goal.budget or 0
    to_plan_on = sum(asked.selection.n for asked in inputs)
    if budget < (first := to_plan_on + counts[0] * len(inputs)):
        raise InvalidArgumentError(
            f"budget must be at least {first} samples for a first look at {len(inputs)} inputs, got {budget}"
        )
    planned, expected = [], []
    for asked, selected in zip(inputs, answers(asked.selection for asked in inputs), strict=True):
        with naming(asked.selection.stream.index):
            terms, logits = planning.terms(asked.selection.x), [part.clone() for part in selected]
            plan = planning.planner.plan(asked.selection.scores(iter(logits)), terms)
        with guarded(f"the forecast of a plan by {plan.planner} fails", error=ProofError):  # a part may be the user's
            radii = expected_radii(plan, terms, torch.cat(logits), counts)
        planned.append(_Planned(asked.certification, plan, terms))
        expected.append(radii if asked.label in (None, plan.top) else np.zeros_like(radii))
    settled = [
        _Planned(replace(request, n=n), plan, replace(terms, n=n))
        for (request, plan, terms), n in zip(planned, allotted(counts, expected, budget - to_plan_on), strict=True)
        if request.stream.index not in planning.done
    ]
    for each, found in zip(settled, answers(each.certification for each in settled), strict=True):
        with naming(each.certification.stream.index):
            certificate = prove(each.plan, each.terms, each.certification.scores(found))
        yield certificate
