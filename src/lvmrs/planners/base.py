"""The interface of all planners: ``choose``, which authors write, and ``plan``, which is final.

The functions below it check the settings of searches, and what a method relies on, before anything is sampled.
"""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, final

import numpy as np
from torch import Tensor

from lvmrs.errors import InvalidArgumentError, guarded
from lvmrs.kernel import checks
from lvmrs.kernel.method import Goal, Method, check_goal
from lvmrs.kernel.scores import Scores, check_scores
from lvmrs.kernel.terms import Choice, Plan, Terms
from lvmrs.registry import BOUNDS, simplex_map


class Planner(Method):
    """Chooses how to certify an input, from logits of noisy copies on which nothing will be proved.

    Authors implement ``choose``. ``plan`` is final: it records the stream of the scores in every plan, and the proof
    rejects scores of that stream.
    """

    def __init_subclass__(cls, **settings: Any) -> None:
        """Reject a class that overrides ``plan``."""
        super().__init_subclass__(**settings)
        if cls.plan is not Planner.plan:
            raise TypeError(
                f"{cls.__name__}.plan is final, since it records the stream of a plan; write choose instead"
            )

    @final
    def plan(self, scores: Scores, terms: Terms) -> Plan:
        """Plan how to certify an input.

        Args:
            scores: the selection scores of the input.
            terms: σ, risk, number of samples of the proof and Lipschitz constant.

        Returns:
            The choice of ``choose``, with the stream of the scores.

        >>> import torch, lvmrs
        >>> smoothed = lvmrs.SmoothedClassifier(torch.nn.Identity(), sigma=0.5, batch=100)
        >>> scores = smoothed.scores(torch.tensor([1.0, 0.0, 0.0]), 100, stage="selection")
        >>> lvmrs.Duels().plan(scores, Terms(sigma=0.5, alpha=0.001, n=1000))
        <Plan by Duels: class 0, duel, clopper_pearson, r3, 2 rivals>
        """
        check_scores(scores, error=InvalidArgumentError)
        if not isinstance(terms, Terms):
            raise InvalidArgumentError(f"terms must be Terms, got {type(terms).__name__}")
        kind = type(self).__name__
        with guarded(f"{kind}.choose fails", error=InvalidArgumentError):
            choice = self.choose(scores.logits(), terms.for_planning)
        if not isinstance(choice, Choice):
            raise InvalidArgumentError(f"{kind}.choose must return a Choice, got {type(choice).__name__}")
        chosen = {field.name: getattr(choice, field.name) for field in dataclasses.fields(Choice)}
        return Plan(**chosen, planner=kind, scope=self.scope, origin=scores.stream, n0=scores.count)

    @abstractmethod
    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """Choose how to certify an input.

        Args:
            logits: the selection logits, in batches (samples, classes), which can be read once.
            terms: σ, the risk to spend, number of samples of the proof (the largest possible number, if sampling has a
                goal) and Lipschitz constant.

        Returns:
            The class, its map, bound and form of the radius, and the division of the risk.
        """


def check_search(
    maps: tuple[str, ...],
    temperatures: tuple[float, ...],
    mass: float,
    bounds: tuple[str, ...],
    *,
    usual: tuple[float, ...],
) -> None:
    """Reject an empty search, or unknown names, before anything is sampled.

    Temperatures other than ``usual`` are rejected too if no map has a temperature.
    """
    for name, names in (("maps", maps), ("bounds", bounds)):
        if not isinstance(names, tuple) or not names:
            raise InvalidArgumentError(f"{name} must be a tuple of at least one name, got {names!r}")
    kinds = [simplex_map(name, argument="maps") for name in maps]
    if any(kind.tempered for kind in kinds):
        if checks.positive("temperatures", temperatures).ndim != 1:
            raise InvalidArgumentError(f"temperatures must be a tuple of numbers, got {temperatures!r}")
    elif len(temperatures) != len(usual) or not np.allclose(temperatures, usual, rtol=1e-9, atol=0.0):
        raise InvalidArgumentError(f"temperature has no effect on {' and '.join(maps)}; leave it out")
    votes_only = [BOUNDS.find(name, argument="bounds").votes_only for name in bounds]
    if all(votes_only) and not all(kind.binary for kind in kinds):
        known = ", ".join(name for name in BOUNDS if not BOUNDS.find(name).votes_only)
        raise InvalidArgumentError(f"bounds must include one for soft maps, such as {known}")
    checks.single("mass", checks.mass(mass))


def keeps_constant(map_: str) -> bool:
    """Whether a simplex map of logits with a Lipschitz constant has a Lipschitz constant."""
    return not math.isinf(float(simplex_map(map_)().slopes(1.0).vector))


def relies_on_constant(method: Method, lipschitz: float) -> bool:
    """Whether certificates of a method may rely on this Lipschitz constant, which is infinite if none is known."""
    if math.isinf(lipschitz):
        return False
    # The property may call a user's map.
    with guarded(f"uses_constant of {type(method).__name__} fails", error=InvalidArgumentError):
        return bool(method.uses_constant)


def check_goal_for(method: Method, goal: Goal | None) -> None:
    """Reject an object that is no goal, and a goal for a method without samples."""
    if goal is not None and not (check_goal(goal) and method.samples):
        kind = type(method).__name__
        raise InvalidArgumentError(f"a goal has no effect, since {kind} takes no samples; leave it out")


def check_one_classifier(method: Method) -> None:
    """Reject a method that chooses a map for each input.

    >>> from lvmrs import LVM, Duels
    >>> check_one_classifier(Duels())
    >>> check_one_classifier(LVM())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    lvmrs.errors.InvalidArgumentError: LVM chooses a map for each input as it is set, so there is no one classifier ...
    """
    checks.instance("method", method, Method, "a Method such as Duels()")
    if method.scope != "all inputs":
        raise InvalidArgumentError(
            f"{type(method).__name__} chooses a map for each input as it is set, so there is no one classifier that "
            "could answer; take hard duels or duels of one width, votes, or one fixed map; calibration finds them"
        )
