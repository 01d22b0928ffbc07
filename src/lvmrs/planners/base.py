"""The interface of all planners: one method that authors write, and one that is final."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, final

from torch import Tensor

from lvmrs import _checks
from lvmrs.errors import InvalidArgumentError, LvmrsError, first_line
from lvmrs.method import Method
from lvmrs.plan import Choice, Plan, Terms
from lvmrs.registry import BOUNDS
from lvmrs.scores import Scores, check_scores
from lvmrs.simplex import simplex_map

__all__ = ["Planner", "check_search"]


class Planner(Method):
    """Chooses how to certify an input, from logits of noisy copies that the certificate will not be made from.

    Authors write ``choose``. ``plan`` is final: it stamps the stream of the scores on every plan, so that no plan can
    be proved on the scores that it was made on.
    """

    def __init_subclass__(cls, **settings: Any) -> None:
        """Refuse a class that has a ``plan`` of its own."""
        super().__init_subclass__(**settings)
        if cls.plan is not Planner.plan:
            raise TypeError(
                f"{cls.__name__}.plan is final, since it says where a plan comes from; write choose instead"
            )

    @final
    def plan(self, scores: Scores, terms: Terms) -> Plan:
        """The plan that ``choose`` makes of the selection scores, with their stream on it."""
        check_scores(scores, error=InvalidArgumentError)
        if not isinstance(terms, Terms):
            raise InvalidArgumentError(f"terms must be Terms, got {type(terms).__name__}")
        of_the_model: list[Exception] = []
        try:
            choice = self.choose(_noted(scores.logits(), of_the_model), terms)
        except LvmrsError:
            raise
        except Exception as error:
            if error in of_the_model:
                raise
            kind, reason = type(self).__name__, first_line(error)
            raise InvalidArgumentError(f"{kind}.choose fails with {type(error).__name__}: {reason}") from error
        if not isinstance(choice, Choice):
            kind = type(self).__name__
            raise InvalidArgumentError(f"{kind}.choose must return a Choice, got {type(choice).__name__}")
        chosen = {field.name: getattr(choice, field.name) for field in dataclasses.fields(Choice)}
        return Plan(**chosen, planner=type(self).__name__, scope=self.scope, origin=scores.stream, n0=scores.count)

    @abstractmethod
    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """How to certify the input, judged from selection logits in batches (samples, classes)."""


def _noted(logits: Iterator[Tensor], failures: list[Exception]) -> Iterator[Tensor]:
    """The same logits; what fails while they are made is noted."""
    try:
        yield from logits
    except Exception as error:
        failures.append(error)
        raise


def check_search(maps: tuple[str, ...], temperatures: tuple[float, ...], mass: float, bounds: tuple[str, ...]) -> None:
    """Refuse a search over nothing, or over what does not exist, before anything is sampled for it."""
    for name, names in (("maps", maps), ("bounds", bounds)):
        if not isinstance(names, tuple) or not names:
            raise InvalidArgumentError(f"{name} must be a tuple of at least one name, got {names!r}")
    if any(simplex_map(name, argument="maps").tempered for name in maps):
        if _checks.positive("temperatures", temperatures).ndim != 1:
            raise InvalidArgumentError(f"temperatures must be a tuple of numbers, got {temperatures!r}")
        if all(BOUNDS.find(name, argument="bounds").votes_only for name in bounds):
            known = ", ".join(name for name in BOUNDS if not BOUNDS.find(name).votes_only)
            raise InvalidArgumentError(f"bounds must have one for soft maps, such as {known}")
    for name in bounds:
        BOUNDS.find(name, argument="bounds")
    _checks.single("mass", _checks.mass(mass))
