"""The algorithm: plan on the selection sample of an input, then prove on fresh samples. It is written here alone.

``Procedure.planned`` is the only place where a plan is made, and ``Procedure.proved`` the only one where a plan is
proved: for one input or a data set, for all n samples, goals and budgets, from a network or from kept scores. Both are
generators. They yield what they need and are sent scores by a ``Source``, which decides when and how samples are drawn:
one input after the other (``lvmrs.engine.sources``), or several inputs in one batch (``lvmrs.engine.batching``).

With a budget for all inputs there are two passes. The first plans every input and forecasts its radius for several
numbers of samples; the second proves each plan on the number of samples that its input was allocated. Only plans are
kept between the passes, and the second pass reads the inputs again: memory does not grow with the size of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from torch import Tensor

from lvmrs.errors import InvalidArgumentError, ProofError, guarded, naming
from lvmrs.kernel.anytime import AnytimeProof
from lvmrs.kernel.certificate import Certificate
from lvmrs.kernel.checks import Floats
from lvmrs.kernel.goals import Goal
from lvmrs.kernel.noise import Stage
from lvmrs.kernel.proof import Proof
from lvmrs.kernel.scores import held
from lvmrs.kernel.terms import Plan, Terms
from lvmrs.planners.allocation import allocated, expected_radii, numbers
from lvmrs.planners.anytime import Anytime
from lvmrs.planners.base import Planner

__all__ = ["Item", "Need", "Planned", "Procedure", "Source", "Steps", "Task", "certify", "started"]

Result = TypeVar("Result")
AnyItem = TypeVar("AnyItem", bound="Item")


@dataclass(frozen=True, eq=False)
class Item:
    """One input with its index and label. Each source has a subclass with what it needs to give scores of it."""

    index: int
    """Index of the input in its data set."""
    label: int | None
    """Its class in the data set; None if that is not known."""
    terms: Callable[[], Terms]
    """Gives the terms of its certificate; how far rounding moves its logits may be measured then."""


class Need(NamedTuple):
    """The samples that a step waits for."""

    stage: Stage
    """For "selection", all samples are sent together, as Scores; otherwise one Portion after the other."""
    n: int
    """How many samples of the stage are taken at most."""
    wanted: int
    """How many more are wanted now."""


Steps: TypeAlias = Generator[Need, Any, Result]
"""Yields needs, is sent scores, and returns a result. None in place of a Portion says that there are no more."""


class Planned(NamedTuple):
    """A plan, and what it is proved with."""

    plan: Plan
    terms: Terms
    radii: Floats
    """The radius that is forecast for each of several numbers of samples; empty if none was asked for."""


@dataclass(frozen=True)
class Procedure:
    """How each input is certified."""

    planner: Planner
    n0: int
    """Samples to plan on."""
    goal: Goal | None = None
    """When sampling stops before the n samples of the terms; None for all n."""
    stage: Stage = "certification"
    """The stage of the samples to prove on."""

    def certified(self, item: Item) -> Steps[Certificate]:
        """Plan, and prove the plan."""
        plan, terms, _ = yield from self.planned(item)
        return (yield from self.proved(plan, terms))

    def planned(self, item: Item, counts: Sequence[int] = ()) -> Steps[Planned]:
        """Plan on the selection sample of an input, and forecast the radius for numbers of samples, if some are given.

        The forecast is 0 for a plan that is not for the label of the input: only right answers count.
        """
        terms = item.terms()
        scores = yield Need("selection", self.n0, self.n0)
        if not counts:
            return Planned(self._planner.plan(scores, terms), terms, np.empty(0))
        scores, logits = held(scores)
        plan = self._planner.plan(scores, terms)
        with guarded(f"the forecast of a plan by {plan.planner} fails", error=ProofError):  # a part may be the user's
            radii = expected_radii(plan, terms, logits, counts)
        return Planned(plan, terms, radii if item.label in (None, plan.top) else np.zeros_like(radii))

    def proved(self, plan: Plan, terms: Terms) -> Steps[Certificate]:
        """Prove a plan on fresh samples, each once and in order, until the proof wants no more."""
        with guarded(f"the proof of a plan by {plan.planner} fails", error=ProofError):  # a part may be the user's own
            proof = self._proof(plan, terms)
            while proof.wanted and (portion := (yield Need(self.stage, terms.n, proof.wanted))) is not None:
                proof.add(portion)
            return proof.certificate()

    @property
    def stops(self) -> bool:
        """Whether sampling for an input stops once a goal is reached, which needs bounds that hold at any time."""
        return self.goal is not None and not self.goal.limited

    @property
    def _planner(self) -> Planner:
        return Anytime.of(self.planner) if self.stops else self.planner

    def _proof(self, plan: Plan, terms: Terms) -> Proof | AnytimeProof:
        if self.goal is None or not self.stops:
            return Proof(plan, terms)
        return AnytimeProof(plan, terms, beta=self.goal.beta, stop=self.goal.reached)


class Source(Protocol[AnyItem]):
    """Gives scores of inputs: drawn from a network, or kept by an earlier run."""

    def run(
        self, items: Iterable[AnyItem], steps: Callable[[AnyItem], Steps[Result]]
    ) -> Iterator[tuple[AnyItem, Result]]:
        """Take the steps of each item, with the scores that they need.

        Args:
            items: the inputs; they are read some time before their turn.
            steps: begins the steps of an item.

        Returns:
            The items with their results, in order. What is wrong with one is raised when its turn comes.
        """


def certify(
    items: Collection[AnyItem] | Iterable[AnyItem],
    source: Source[AnyItem],
    procedure: Procedure,
    n: int,
    *,
    sharing: Collection[AnyItem] | None = None,
) -> Iterator[tuple[AnyItem, Certificate]]:
    """Certify inputs.

    Args:
        items: the inputs.
        source: gives their scores.
        procedure: how they are certified.
        n: the most samples that an input is proved on.
        sharing: all inputs that share a budget, also those that need no certificate; by default ``items``, which must
            then be a collection that can be read twice.

    Returns:
        The inputs with their certificates, in order. What is wrong with an input is raised when its turn comes; with a
        budget, when it is planned.
    """
    goal = procedure.goal
    if goal is None or goal.budget is None:
        yield from source.run(items, procedure.certified)
        return
    everyone: Collection[AnyItem] = sharing if sharing is not None else items  # type: ignore[assignment]
    plans = _planned_within(goal.budget, everyone, source, procedure, n)

    def proved(item: AnyItem) -> Steps[Certificate]:
        if item.index not in plans:
            raise InvalidArgumentError(f"input {item.index} is none of those that share the budget")
        return procedure.proved(*plans[item.index])

    yield from source.run(items, proved)


def _planned_within(
    budget: int, items: Collection[AnyItem], source: Source[AnyItem], procedure: Procedure, n: int
) -> dict[int, tuple[Plan, Terms]]:
    """The plan of each input, by index, and its terms with the number of samples that the input is allocated."""
    counts, to_plan_on = numbers(n), procedure.n0 * len(items)
    if budget < (first := to_plan_on + counts[0] * len(items)):
        raise InvalidArgumentError(
            f"budget must be at least {first} samples for a first look at {len(items)} inputs, got {budget}"
        )
    plans: dict[int, tuple[Plan, Terms]] = {}
    radii = np.empty((len(items), len(counts)))
    for item, (plan, terms, expected) in source.run(items, lambda item: procedure.planned(item, counts)):
        if item.index in plans:
            raise InvalidArgumentError(f"two inputs that share a budget have the index {item.index}; number them anew")
        radii[len(plans)], plans[item.index] = expected, (plan, terms)
    given = allocated(counts, radii, budget - to_plan_on)
    return {
        index: (plan, replace(terms, n=samples))
        for (index, (plan, terms)), samples in zip(plans.items(), given, strict=True)
    }


class Task(Generic[AnyItem, Result]):
    """The steps of one item. An error ends them, and is raised when it is the turn of the item."""

    def __init__(self, item: AnyItem | None, steps: Steps[Result] | None, failure: Exception | None = None) -> None:
        self._item, self._steps, self.failure = item, steps, failure
        self.need: Need | None = None
        """What it needs; None if it is done, or has failed."""
        self.kept: list[tuple[Stage, Tensor]] = []
        """Logits that it used before its turn, for those who keep scores."""
        self._result: Result | None = None
        if steps is not None:
            self.send(None)

    @property
    def item(self) -> AnyItem:
        """The item."""
        assert self._item is not None  # noqa: S101 (a task that needs something has one)
        return self._item

    @property
    def done(self) -> bool:
        """Whether nothing more is to be done for it."""
        return self.need is None

    def send(self, scores: object) -> None:
        """Go on with what it needed."""
        assert self._steps is not None  # noqa: S101 (else it needs nothing)
        try:
            self.need = self._steps.send(scores)
        except StopIteration as end:
            self.need, self._result = None, end.value
        except Exception as error:  # raised when it is its turn
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Give up; the first error is raised when it is its turn."""
        self.failure, self.need, self.kept = self.failure or error, None, []
        if self._steps is not None:
            self._steps.close()

    def outcome(self) -> tuple[AnyItem, Result]:
        """The item and its result; or its error is raised."""
        if self.failure is not None:
            if self._item is None:
                raise self.failure
            with naming(self.item.index):
                raise self.failure
        return self.item, self._result  # type: ignore[return-value]


def started(items: Iterable[AnyItem], steps: Callable[[AnyItem], Steps[Result]]) -> Iterator[Task[AnyItem, Result]]:
    """Begin a task for each item, when it is asked for; after an error there are no more."""
    coming = iter(items)
    while True:
        item: AnyItem | None = None
        try:
            item = next(coming)
            task = Task(item, steps(item))
        except StopIteration:
            return
        except Exception as error:  # raised when it is its turn
            task = Task(item, None, error)
        yield task
        if task.failure is not None:
            return
