"""The only loop of the algorithm: plan on the selection sample of an input, then prove on fresh samples.

``Procedure.planned`` is the only place where a plan is made, and ``Procedure.proved`` the only one where a plan is
proved: for one input or a data set, for all n samples, goals and budgets, from a network or from kept scores. Both are
generators. They yield a ``Need`` and are sent scores by a ``Source``, which decides when and how samples are drawn:
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
from lvmrs.kernel.method import Goal
from lvmrs.kernel.noise import Stage
from lvmrs.kernel.proof import Proof
from lvmrs.kernel.scores import Scores, held
from lvmrs.kernel.terms import Plan, Terms
from lvmrs.planners.allocation import allocated, expected_radii, numbers
from lvmrs.planners.anytime import Anytime
from lvmrs.planners.base import Planner

Result = TypeVar("Result")
AnyItem = TypeVar("AnyItem", bound="Item")


@dataclass(frozen=True, eq=False)
class Item:
    """One input with its index and label. Each source has its own subclass with the data that it needs."""

    index: int
    """Index of the input in its data set."""
    label: int | None
    """The label in the data set; None if it is not known."""
    terms: Callable[[], Terms]
    """Returns the terms of the certificate; this call may measure how far rounding moves the logits."""


class Need(NamedTuple):
    """The samples that a step waits for."""

    stage: Stage
    """For "selection", all samples are sent together, as Scores; otherwise one Portion after the other."""
    n: int
    """The largest number of samples of this stage."""
    wanted: int
    """The number of further samples that the step can use now."""


Steps: TypeAlias = Generator[Need, Any, Result]
"""Yields needs, is sent scores, and returns a result. None in place of a Portion means that there are no more."""


class Planned(NamedTuple):
    """A plan, its terms and its forecast radii."""

    plan: Plan
    terms: Terms
    radii: Floats
    """The forecast radius for each requested number of samples; empty if none was requested."""


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
        """Plan on the selection sample of an input, and forecast the radius for each number of samples in ``counts``.

        The forecast is 0 if the plan is for another class than the label: only right answers count.
        """
        terms = item.terms()
        scores = yield Need("selection", self.n0, self.n0)
        if not counts:
            return Planned(self._planner.plan(scores, terms), terms, np.empty(0))
        plan, logits = planned_on(scores, self._planner, terms)
        with guarded(f"the forecast of a plan by {plan.planner} fails", error=ProofError):  # a part may be the user's
            radii = expected_radii(plan, terms, logits, counts)
        return Planned(plan, terms, radii if item.label in (None, plan.top) else np.zeros_like(radii))

    def proved(self, plan: Plan, terms: Terms) -> Steps[Certificate]:
        """Prove a plan on fresh samples, each once and in order, until the proof needs no more."""
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


def planned_on(scores: Scores, planner: Planner, terms: Terms) -> tuple[Plan, Tensor]:
    """Plan on selection scores, and keep their logits for forecasts."""
    scores, logits = held(scores)
    return planner.plan(scores, terms), logits


class Source(Protocol[AnyItem]):
    """Provides scores of inputs: drawn from a network, or kept by an earlier run."""

    def run(
        self, items: Iterable[AnyItem], steps: Callable[[AnyItem], Steps[Result]]
    ) -> Iterator[tuple[AnyItem, Result]]:
        """Run the steps of each item with the scores that they need.

        Args:
            items: the inputs; a source may read them ahead.
            steps: starts the steps of an item.

        Returns:
            The items with their results, in order. The error of an item is raised in place of its result.
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
        source: provides their scores.
        procedure: how they are certified.
        n: the largest number of certification samples of an input.
        sharing: all inputs that share a budget, including those that need no certificate; by default ``items``, which
            must then be a collection that can be read twice.

    Returns:
        The inputs with their certificates, in order. The error of an input is raised in place of its certificate; with
        a budget, while all inputs are planned.
    """
    goal = procedure.goal
    if goal is None or goal.budget is None:
        yield from source.run(items, procedure.certified)
        return
    everyone: Collection[AnyItem] = sharing if sharing is not None else items  # type: ignore[assignment]
    plans = _planned_within(goal.budget, everyone, source, procedure, n)

    def proved(item: AnyItem) -> Steps[Certificate]:
        if item.index not in plans:
            raise InvalidArgumentError(f"input {item.index} does not share the budget; add it to sharing")
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
    """Runs the steps of one item. An error ends them, and ``outcome`` raises it."""

    def __init__(self, item: AnyItem | None, steps: Steps[Result] | None, failure: Exception | None = None) -> None:
        self._item, self._steps, self.failure = item, steps, failure
        self.need: Need | None = None
        """The samples that the task needs; None if it is done or has failed."""
        self.kept: list[tuple[Stage, Tensor]] = []
        """Logits that were used before the item is yielded, for a source that shows logits in order."""
        self._result: Result | None = None
        if steps is not None:
            self.send(None)

    @property
    def item(self) -> AnyItem:
        """The item."""
        assert self._item is not None  # noqa: S101 (only a failed reader has none)
        return self._item

    @property
    def done(self) -> bool:
        """Whether the steps have ended."""
        return self.need is None

    def send(self, scores: object) -> None:
        """Send the scores that the task needs, and run its next step."""
        assert self._steps is not None  # noqa: S101 (a task without steps needs nothing)
        try:
            self.need = self._steps.send(scores)
        except StopIteration as end:
            self.need, self._result = None, end.value
        except Exception as error:  # outcome raises it
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """End the task with an error; ``outcome`` raises the first one."""
        self.failure, self.need, self.kept = self.failure or error, None, []
        if self._steps is not None:
            self._steps.close()

    def outcome(self) -> tuple[AnyItem, Result]:
        """Return the item and its result, or raise its error."""
        if self.failure is not None:
            if self._item is None:
                raise self.failure
            with naming(self.item.index):
                raise self.failure
        return self.item, self._result  # type: ignore[return-value]


def started(items: Iterable[AnyItem], steps: Callable[[AnyItem], Steps[Result]]) -> Iterator[Task[AnyItem, Result]]:
    """Start a task for each item lazily, up to the first task that fails."""
    coming = iter(items)
    while True:
        item: AnyItem | None = None
        try:
            item = next(coming)
            task = Task(item, steps(item))
        except StopIteration:
            return
        except Exception as error:  # outcome raises it
            task = Task(item, None, error)
        yield task
        if task.failure is not None:
            return
