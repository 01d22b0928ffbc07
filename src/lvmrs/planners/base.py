"""The interface of all planners: ``choose``, which authors write, and ``plan``, which is final."""

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
from lvmrs.kernel.method import Method
from lvmrs.kernel.scores import Scores, check_scores
from lvmrs.kernel.terms import Choice, Plan, Terms
from lvmrs.registry import BOUNDS, simplex_map

__all__ = ["Planner", "check_search", "keeps_constant"]


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
        with guarded(f"{type(self).__name__}.choose fails", error=InvalidArgumentError):
            choice = self.choose(scores.logits(), terms.for_planning)
        if not isinstance(choice, Choice):
            kind = type(self).__name__
            raise InvalidArgumentError(f"{kind}.choose must return a Choice, got {type(choice).__name__}")
        chosen = {field.name: getattr(choice, field.name) for field in dataclasses.fields(Choice)}
        return Plan(**chosen, planner=type(self).__name__, scope=self.scope, origin=scores.stream, n0=scores.count)

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
