"""Which class a smoothed classifier answers with, at a risk.

A certificate is about the classifier smoothed with the map of its plan. If a method has the same map for all inputs,
that is one classifier, which can be asked about any input: what it answers at x is what was certified there, and within
the radius of a certificate it answers with the certified class. If the map is chosen for each input, there is no such
classifier: at x' the method may choose another map than at x. So only methods whose scope is "all inputs" answer here.

The candidate is found on the selection sample and shown to win on other samples. For votes the test of Cohen et al.
(2019, Predict) needs no candidate, and certifies no radius, so that it answers more often than a certificate would. For
all other methods the proof itself is the test.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from torch import Tensor

from lvmrs import _checks
from lvmrs.certificate import Certificate
from lvmrs.deterministic import Deterministic
from lvmrs.errors import InvalidArgumentError
from lvmrs.method import Method
from lvmrs.noise import Stage
from lvmrs.plan import Terms
from lvmrs.planners.base import Planner
from lvmrs.planners.cohen import Cohen
from lvmrs.planners.duels import Duels
from lvmrs.planners.votes import Votes, winner_of_votes
from lvmrs.prove import prove
from lvmrs.scores import Scores

__all__ = ["N0", "Answering", "Sampled", "check_one_classifier", "winner"]

N0 = 100
"""Samples on which the candidate is found, unless another number is given."""


class Sampled(Protocol):
    """Gives the scores of noisy copies of one input."""

    def __call__(self, n: int, stage: Stage) -> Scores:
        """Give n scores of that stage."""


def check_one_classifier(method: Method) -> None:
    """Refuse a method that chooses a map for each input.

    >>> from lvmrs import LVM, Duels
    >>> check_one_classifier(Duels())
    >>> check_one_classifier(LVM())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    lvmrs.errors.InvalidArgumentError: LVM chooses a map for each input as it is set, so there is no one classifier ...
    """
    _checks.instance("method", method, Method, "a Method such as Duels()")
    if method.scope != "all inputs":
        raise InvalidArgumentError(
            f"{type(method).__name__} chooses a map for each input as it is set, so there is no one classifier that "
            "could answer; take hard duels or duels of one width, votes, or one fixed map; calibration finds them"
        )


def winner(method: Planner, sampled: Sampled, terms: Terms, n0: int | None = None) -> int:
    """Answer with the class that the smoothed classifier of a method answers with.

    Args:
        method: a method whose map is the same for all inputs.
        sampled: gives the scores of the input.
        terms: σ, risk, number of samples of the test and Lipschitz constant.
        n0: samples on which the candidate is found, by default ``N0``; votes need none.

    Returns:
        The class, which is wrong with probability at most ``terms.alpha``, or −1 if the samples do not show it.
    """
    check_one_classifier(method)
    _checks.instance("terms", terms, Terms, "Terms")
    if isinstance(method, Cohen | Votes):
        if n0 is not None:
            raise InvalidArgumentError("n0 has no effect on votes, whose test needs no candidate; leave it out")
        return winner_of_votes(sampled(terms.n, "prediction").logits(), terms.spendable)
    n0 = N0 if n0 is None else _checks.count("n0", n0, least=1)
    plan = method.plan(sampled(n0, "selection"), terms)
    return prove(plan, terms, sampled(terms.n, "prediction")).prediction


class Answering(ABC):
    """The part of a smoothed classifier that answers."""

    @abstractmethod
    def _input(self, x: Tensor) -> Tensor:
        """An input as the model takes it; what is no input is refused."""

    @abstractmethod
    def check_method(self, method: Method) -> Planner | Deterministic:
        """Give the method back; refuse what is no method."""

    @abstractmethod
    def certain(self, method: Deterministic, x: Tensor) -> Certificate:
        """The certificate of an input without noise."""

    @abstractmethod
    def scores(self, x: Tensor, n: int, *, seed: int = 0, index: int = 0, stage: Stage = "certification") -> Scores:
        """Make the scores of n noisy copies of an input."""

    @abstractmethod
    def terms(self, alpha: float, n: int, *inputs: Tensor, method: Method | None = None) -> Terms:
        """The terms of certificates of these inputs."""

    def predict(
        self,
        x: Tensor,
        planner: Method | None = None,
        *,
        n: int = 1_000,
        n0: int | None = None,
        alpha: float = 0.001,
        seed: int = 0,
        index: int = 0,
    ) -> int:
        """Predict the answer of the smoothed classifier. It is wrong with probability at most ``alpha``.

        Args:
            x: the input, without a batch dimension.
            planner: the method that certifies this classifier, by default hard duels. A method that chooses a map for
                each input is refused, since its certificates are about no one classifier.
            n: samples to test the answer on.
            n0: other samples, on which the candidate is found, by default 100; votes need none.
            alpha: the risk.
            seed: as in ``certify``.
            index: as in ``certify``.

        Returns:
            The class, or −1 if the samples do not show it at this risk.
        """
        x, method = self._input(x), self.check_method(Duels() if planner is None else planner)
        if isinstance(method, Deterministic):
            return self.certain(method, x).prediction
        terms = self.terms(alpha, n, x, method=method)
        return winner(method, lambda n, stage: self.scores(x, n, seed=seed, index=index, stage=stage), terms, n0)
