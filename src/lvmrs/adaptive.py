"""Certifying inputs with as few samples as their goal needs; several inputs are on their way at once.

Each input is planned on its selection sample, and then takes certification samples from look to look
(``lvmrs.anytime``) until its goal is reached. A look needs few samples, so a batch is filled with those of several
inputs. Which samples an input takes and where it stops depend on its own stream alone: not on the batch size, on other
inputs, or on which thread is faster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from lvmrs.certificate import Certificate
from lvmrs.errors import LvmrsError
from lvmrs.flights import Answer, Arrival, Asking, Flight, Piece, Refused, answered
from lvmrs.logits import check_logits
from lvmrs.running.crew import Crew, Work
from lvmrs.sampling import Watch

__all__ = ["Batches", "Traffic", "adaptively"]

# Batches that are begun before the oldest is taken, for each thread.
_AHEAD = 2
# Inputs on their way: at least and at most so many, and enough to fill the batches if each asks for so few samples.
_FEW, _MOST, _SPAN = 32, 256, 32
# So many times as many may wait for their turn, if nobody watches their logits.
_WAIT = 8
# Bytes of a logit, and of logits that wait until it is the turn of their input, if somebody watches them.
_BYTES, _WAITING = 4, 1 << 29


@dataclass
class Traffic:
    """How full the batches were."""

    batches: int = 0
    rows: int = 0
    """Samples in all of them."""
    room: int = 0
    """Samples for which there was room."""

    @property
    def filled(self) -> float:
        """The share of the room that was used."""
        return self.rows / max(1, self.room)


def adaptively(
    inputs: Iterable[Arrival],
    batches: Batches,
    asking: Asking,
    watch: Watch | None = None,
) -> Iterator[Certificate]:
    """Certify each input as far as the goal needs.

    Args:
        inputs: the inputs; they are asked for some time before their turn.
        batches: runs the samples.
        asking: what is asked about them.
        watch: called with the stage and the logits that an input has used, when it is its turn.

    Returns:
        The certificates, in order. What is wrong with an input is raised when its turn comes.
    """
    scheduler = _Scheduler(inputs, batches, asking, watched=watch is not None)
    for flight in scheduler.landed():
        if isinstance(flight, Refused) or flight.failure is not None:
            raise flight.failure  # type: ignore[misc]
        for stage, logits in flight.kept if watch is not None else ():
            watch(stage, logits)  # type: ignore[misc]
        yield flight.certificate()


class Batches:
    """Batches that inputs fill together, and the threads that run them."""

    def __init__(self, crew: Crew, traffic: Traffic | None = None) -> None:
        self._crew, self._traffic = crew, Traffic() if traffic is None else traffic
        self._begun: deque[tuple[list[Piece], Future[list[Answer | LvmrsError]]]] = deque()

    def begin(self, flights: Iterable[Flight | Refused]) -> bool:
        """Begin a full batch, or one that is not full if nothing else is going on; False if there is no room."""
        waiting = [flight for flight in flights if isinstance(flight, Flight) and flight.wanted > 0]
        if not waiting:
            return False
        sampler = waiting[0].sampler
        if len(self._begun) >= (_AHEAD * sampler.workers if sampler.workers > 1 else 1):
            return False
        same = [flight for flight in waiting if flight.sampler is sampler]
        if self._begun and sum(flight.wanted for flight in same) < sampler.batch:
            return False  # what is going on may let them ask for more
        pieces, room = [], sampler.batch
        for flight in same:
            if room and (count := min(room, flight.wanted)):
                pieces.append(flight.ask(count))
                room -= count
        self._traffic.batches += 1
        self._traffic.rows += sampler.batch - room
        self._traffic.room += sampler.batch
        work = Work(0, partial(answered, sampler, pieces), sampler.workers > 1)
        self._begun.append((pieces, self._crew.begin(work)))
        return True

    def take(self) -> None:
        """Wait for the oldest batch, and give each input its logits."""
        pieces, future = self._begun.popleft()
        answers: Sequence[Answer | LvmrsError]
        try:
            answers = future.result()
        except LvmrsError as error:  # the first of these inputs raises it, when it is its turn
            answers = [error] * len(pieces)
        for piece, answer in zip(pieces, answers, strict=True):
            try:
                if isinstance(answer, LvmrsError):
                    raise answer
                check_logits(answer.logits, len(piece.samples), piece.flight.sampler.classes)
                answer.compare(answer.logits)
                piece.flight.take(answer.logits)
            except LvmrsError as error:
                piece.flight.fail(error)


class _Scheduler:
    """Keeps batches full with the samples of several inputs, and lets inputs land in order."""

    def __init__(self, inputs: Iterable[Arrival], batches: Batches, asking: Asking, *, watched: bool) -> None:
        self._coming: Iterator[Arrival] | None = iter(inputs)
        self._batches, self._asking, self._watched = batches, asking, watched
        self._flights: deque[Flight | Refused] = deque()
        self._window = _FEW

    def landed(self) -> Iterator[Flight | Refused]:
        """The inputs in order, each when its goal is reached."""
        while True:
            self._admit()
            if not self._flights:
                return
            while not self._flights[0].arrived:
                self._admit()
                if not self._batches.begin(self._flights):
                    self._batches.take()
            yield self._flights.popleft()

    def _admit(self) -> None:
        """Let inputs in while there is room."""
        while self._coming is not None and self._has_room():
            try:
                arrival = next(self._coming)
                flight = Flight(arrival, self._asking, keeps=self._watched)
            except StopIteration:
                self._coming = None
            except LvmrsError as error:  # raised when it is its turn
                self._coming = None
                self._flights.append(Refused(error))
            else:
                self._flights.append(flight)
                self._window = self._room(flight)

    def _has_room(self) -> bool:
        """Whether another input may begin; those that have arrived and wait for their turn need room too."""
        on_their_way = sum(not flight.arrived for flight in self._flights)
        most = self._window * (1 if self._watched else _WAIT)
        return on_their_way < self._window and len(self._flights) < most

    def _room(self, flight: Flight) -> int:
        """How many inputs may be on their way: enough to fill batches, and few enough for the logits that are kept."""
        sampler = flight.sampler
        wanted = min(_MOST, max(_FEW, 2 * _AHEAD * sampler.workers * sampler.batch // _SPAN))
        kept = sampler.classes * flight.most * _BYTES if self._watched else 0
        return max(1, min(wanted, _WAITING // kept)) if kept else wanted
