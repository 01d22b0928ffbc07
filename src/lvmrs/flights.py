"""One input on its way to a goal: its selection sample, its plan, and looks at its certification sample."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from lvmrs.anytime import AnytimeProof
from lvmrs.certificate import Certificate
from lvmrs.copies import Copies
from lvmrs.errors import LvmrsError, ProofError, guarded
from lvmrs.goals import Goal
from lvmrs.noise import Stage, Stream
from lvmrs.plan import Plan, Terms
from lvmrs.planners.anytime import Anytime
from lvmrs.sampling import Compare, Sampler
from lvmrs.scores import Portion, Scores, scores_of

__all__ = ["Answer", "Arrival", "Asking", "Flight", "Piece", "Refused", "answered"]


@dataclass(frozen=True)
class Arrival:
    """An input that is to be certified."""

    sampler: Sampler
    x: Tensor
    """The input, without a batch dimension."""
    index: int


class Asking(NamedTuple):
    """What is asked about all inputs."""

    planner: Anytime
    terms: Callable[[Tensor], Terms]
    """The terms of the certificate of an input; n is the most samples that are taken."""
    goal: Goal
    seed: int
    n0: int
    """Samples to plan on."""


class Flight:
    """One input on its way: first its selection sample, then looks until the goal is reached."""

    def __init__(self, arrival: Arrival, asking: Asking, *, keeps: bool) -> None:
        self.sampler, self.x, self._asking, self._keeps = arrival.sampler, arrival.x, asking, keeps
        self._terms = asking.terms(arrival.x)
        self.kept: list[tuple[Stage, Tensor]] = []
        self.failure: Exception | None = None
        self._proof: AnytimeProof | None = None
        self.index, self._selected = arrival.index, list[Tensor]()
        self._plan: Plan | None = None
        self._begin("selection", asking.n0)

    def _begin(self, stage: Stage, count: int) -> None:
        self.stream = Stream(self._asking.seed, self.index, stage)
        self._copies = Copies(self.sampler, self.x, self.stream)
        self._asked = self._taken = 0
        self._waiting: deque[Tensor] = deque()
        sampler = self.sampler
        batches = (self._waiting.popleft() for _ in itertools.count())
        self._scores = scores_of(self.stream, sampler.noise, sampler.sigma, self.x.numel(), count, batches)
        self._portions: Iterator[Portion] = iter(self._scores)

    @property
    def arrived(self) -> bool:
        """Whether nothing more is to be done for it."""
        return self.failure is not None or (self._proof is not None and self._proof.stopped)

    @property
    def wanted(self) -> int:
        """How many samples it can use now, beside those that were asked for."""
        if self.arrived:
            return 0
        needed = self._asking.n0 - self._taken if self._proof is None else self._proof.wanted
        return needed - (self._asked - self._taken)

    @property
    def most(self) -> int:
        """How many samples it takes at most."""
        return self._terms.n

    def ask(self, count: int) -> Piece:
        """Ask for the next samples."""
        samples = range(self._asked, self._asked + count)
        self._asked = samples.stop
        return Piece(self, self.stream, partial(self._copies.of, samples.start, count), samples)

    def take(self, logits: Tensor) -> None:
        """Take the logits of the next samples that were asked for."""
        if self.arrived:
            return
        self._taken += len(logits)
        if self._proof is None:
            self._selected.append(logits)
            if self._taken == self._asking.n0:
                self._make_plan()
            return
        self._waiting.append(logits)
        with self._proving():
            self._proof.add(next(self._portions))
        if self._proof.stopped:
            self._copies.forget()
        if self._keeps:
            used = logits[: len(logits) - max(0, self._taken - self._counted)]
            self.kept.append(("certification", used.clone()))  # logits are a part of a batch, which is not to be kept

    def fail(self, error: Exception) -> None:
        """Give up; the first error is raised when it is its turn."""
        self.failure = self.failure or error
        self._copies.end()
        self._selected, self.kept = [], []

    @property
    def _counted(self) -> int:
        """How many certification samples count: those up to the last look, once it has stopped."""
        return self._proof.used if self._proof is not None and self._proof.stopped else self._taken

    def _make_plan(self) -> None:
        sampler, n0 = self.sampler, self._asking.n0
        made: Scores = scores_of(self.stream, sampler.noise, sampler.sigma, self.x.numel(), n0, self._selected)
        plan = self._asking.planner.plan(made, self._terms)
        if self._keeps:
            self.kept += [("selection", logits) for logits in self._selected]
        self._selected = []
        self._prove(plan)

    def _prove(self, plan: Plan) -> None:
        """Begin to prove."""
        goal, self._plan = self._asking.goal, plan
        with self._proving():
            self._proof = AnytimeProof(plan, self._terms, beta=goal.beta, stop=goal.reached)
        self._begin("certification", self._terms.n)

    def certificate(self) -> Certificate:
        """What was proved."""
        with self._proving():
            return self._proved.certificate()

    def _proving(self) -> AbstractContextManager[None]:
        """A block in which a part of the plan may be the user's own, and fail."""
        planner = "" if self._plan is None else self._plan.planner
        return guarded(f"the proof of a plan by {planner} fails", error=ProofError)

    @property
    def _proved(self) -> AnytimeProof:
        assert self._proof is not None  # noqa: S101 (it was planned)
        return self._proof


class Refused:
    """An input that could not even begin: it raises its error when it is its turn."""

    arrived, wanted, kept = True, 0, ()

    def __init__(self, failure: Exception) -> None:
        self.failure = failure


@dataclass(frozen=True)
class Piece:
    """Consecutive samples of an input, as a part of a batch."""

    flight: Flight
    stream: Stream
    copies: Callable[[], Tensor]
    samples: range
    """Their numbers in the stream."""


class Answer(NamedTuple):
    """The logits of a piece, and what compares some rows with the same rows in other company.

    Comparing runs the model itself, which threads must not share: so it is left to who takes the answer.
    """

    logits: Tensor
    compare: Compare


def answered(sampler: Sampler, pieces: list[Piece]) -> list[Answer | LvmrsError]:
    """The answers to the pieces of a batch, or why there is none.

    A batch has rows of several inputs. So the first piece of every input that proves something is compared, as well as
    those that are compared in any sample. If the model fails on a batch, each piece is run alone once: it may fail on
    one input.
    """
    copies = [piece.copies() for piece in pieces]
    compare = [
        sampler.recheck(piece.stream, piece.samples, piece.samples.start == 0, rows)
        for piece, rows in zip(pieces, copies, strict=True)
    ]
    try:
        together = sampler.answers_as_run(torch.cat(copies))
    except LvmrsError as error:
        if len(pieces) == 1:
            return [error]
        return [_alone(sampler, rows, compares) for rows, compares in zip(copies, compare, strict=True)]
    parts = torch.split(together, [len(piece.samples) for piece in pieces])
    return [Answer(logits, compares) for logits, compares in zip(parts, compare, strict=True)]


def _alone(sampler: Sampler, rows: Tensor, compare: Compare) -> Answer | LvmrsError:
    try:
        return Answer(sampler.answers_as_run(rows), compare)
    except LvmrsError as error:
        return error
