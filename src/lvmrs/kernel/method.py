"""The interface of all methods, words for the classifiers that certificates are about, abstentions, and goals.

Needs no torch: rows and manifests contain these words and goals too.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple, overload

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Scope = Literal["this input", "all inputs"]

CHOSEN: Final[dict[Scope, str]] = {"this input": "chosen for each input", "all inputs": "the same for all inputs"}
"""A phrase for each scope."""


def smoothed_classifier(noise: str, scope: Scope) -> str:
    """Describes a smoothed classifier without naming its map; ``noise`` is the text of ``Noise.words``.

    >>> smoothed_classifier("Gaussian noise of σ = 0.5", "all inputs")
    'the classifier smoothed with Gaussian noise of σ = 0.5, with its map the same for all inputs'
    """
    return f"the classifier smoothed with {noise}, with its map {CHOSEN[scope]}"


def smoothed_with(noise: str, map_name: str, settings: str = "") -> str:
    """Describes a classifier smoothed with a named simplex map; ``settings`` is the text of ``map_settings``.

    >>> smoothed_with("Gaussian noise of σ = 0.5", "softmax", map_settings(0.25, 1.0))
    'the classifier smoothed with Gaussian noise of σ = 0.5 and softmax at temperature 0.25'
    """
    return f"the classifier smoothed with {noise} and {map_name}{settings}"


def map_settings(temperature: float | None, mass: float) -> str:
    """Describes temperature and mass of a map; leaves out a temperature of None and a mass of 1."""
    at = "" if temperature is None else f" at temperature {temperature:.4g}"
    return at if mass == 1.0 else f"{at} with mass {mass:.4g}"


# ---------------------------------------------------------------------------------------------------------------------
# The interface of all methods.


class Method(ABC):  # noqa: B024 (its two kinds have only these facts in common)
    """A method to certify an input: a ``Planner``, which uses samples under noise, or ``Deterministic``."""

    samples: ClassVar[bool] = True
    """Whether the method uses samples under noise."""
    settled: ClassVar[Mapping[str, str]] = {}
    """For each setting that this method does not accept, the reason, for error messages."""

    @property
    def needs_constant(self) -> bool:
        """Whether the method needs a Lipschitz constant of the logits."""
        return False

    @property
    def uses_constant(self) -> bool:
        """Whether a Lipschitz constant of the logits can make the radii larger."""
        return True

    @property
    def scope(self) -> Scope:
        """Whether the map is chosen for each input, or is the same for all inputs."""
        return "this input"

    def classifier(self, noise: str) -> str:
        """Describes the classifier of its certificates; ``noise`` is the text of ``Noise.words``."""
        return smoothed_classifier(noise, self.scope)


# ---------------------------------------------------------------------------------------------------------------------
# Abstentions and correct answers.


ABSTAIN: Final = -1
"""The prediction of a certificate that abstains."""


@overload
def is_correct(answer: int, label: int) -> bool: ...
@overload
def is_correct(answer: NDArray[np.int64], label: NDArray[np.int64]) -> NDArray[np.bool_]: ...
def is_correct(answer: int | NDArray[np.int64], label: int | NDArray[np.int64]) -> bool | NDArray[np.bool_]:
    """Whether an answer is the label, or each of several answers is its label; an abstention is never correct.

    >>> is_correct(3, 3), is_correct(ABSTAIN, 3), is_correct(ABSTAIN, ABSTAIN)
    (True, False, False)
    """
    return (answer == label) & (answer != ABSTAIN)


# ---------------------------------------------------------------------------------------------------------------------
# Goals: when sampling of an input ends.


Verdict = Literal["certified", "cannot be certified", "undecided"]
CERTIFIED: Verdict = "certified"
IMPOSSIBLE: Verdict = "cannot be certified"
UNDECIDED: Verdict = "undecided"


class InterimResult(NamedTuple):
    """Radius and limit of an input after some number of samples."""

    n: int
    """Number of samples so far."""
    radius: float
    """The certified radius; 0 if nothing is certified."""
    limit: float
    """An upper bound on the radius of the exact means, which infinitely many samples could certify with this plan.

    Infinite if no bound is known.
    """


def verdict(radius: float, limit: float, target: float) -> Verdict:
    """Whether a target is certified, cannot be certified, or is undecided.

    Args:
        radius: the certified radius.
        limit: an upper bound on the radius of the exact means.
        target: the radius in question.

    >>> verdict(0.3, 0.6, 0.25), verdict(0.3, 0.6, 0.5), verdict(0.3, 0.6, 0.75)
    ('certified', 'undecided', 'cannot be certified')
    """
    if radius >= target:
        return CERTIFIED
    return IMPOSSIBLE if limit < target else UNDECIDED


@dataclass(frozen=True)
class Goal:
    """A goal of sampling: sampling of an input stops as soon as the goal is reached.

    Exactly one of ``targets``, ``tolerance`` and ``budget`` is given. Each target is to be certified (false with
    probability at most alpha) or shown to be out of reach of the plan: above the radius that the exact means give
    (false with probability at most beta).

    >>> Goal(targets=(0.25, 0.5)).reached(InterimResult(n=96, radius=0.3, limit=0.45))
    True
    >>> Goal(tolerance=0.1).reached(InterimResult(n=96, radius=0.3, limit=0.45))
    False
    """

    targets: tuple[float, ...] = ()
    """Radii to decide."""
    tolerance: float | None = None
    """How far the certified radius may stay below the limit."""
    beta: float = 0.001
    """The risk of the limit: the radius of the exact means is above it with probability at most beta."""
    budget: int | None = None
    """Samples for all inputs together, including selection samples. The samples of each input are allocated before they
    are drawn, to maximise the average radius. If labels are known, only right answers count."""

    def __post_init__(self) -> None:
        several: list[float] = []
        if not isinstance(self.targets, tuple) or self.targets:
            several = checks.several("targets", checks.positive("targets", self.targets))
        tolerance = None if self.tolerance is None else checks.positive_number("tolerance", self.tolerance)
        if self.limited and (several or tolerance is not None):
            other = "target-radius decides each input" if several else "tolerance stops each input"
            raise InvalidArgumentError(
                f"budget is for the average radius, and {other} after at most n samples; give one of them"
            )
        if not self.limited and bool(several) == (tolerance is not None):
            raise InvalidArgumentError("a goal has either targets or a tolerance; give one of them")
        if self.budget is not None:
            object.__setattr__(self, "budget", checks.count("budget", self.budget, least=1))
        beta = checks.single("beta", checks.fraction("beta", self.beta))
        for name, value in (("targets", tuple(several)), ("tolerance", tolerance), ("beta", beta)):
            object.__setattr__(self, name, value)

    @property
    def limited(self) -> bool:
        """Whether there is a budget for all inputs, which fixes the number of samples of each before they are drawn."""
        return self.budget is not None

    def reached(self, now: InterimResult) -> bool:
        """Whether sampling of an input can stop; never with a budget."""
        if self.limited:
            return False
        if self.tolerance is not None:
            return now.limit - now.radius <= self.tolerance
        return all(verdict(now.radius, now.limit, target) != UNDECIDED for target in self.targets)

    @property
    def words(self) -> str:
        """The condition to stop, as a phrase that follows "sampling stops"."""
        if self.limited:
            return (
                f"after a number allocated in advance, which divides {self.budget} samples among all inputs to make "
                "the average radius of right answers largest"
            )
        if self.tolerance is not None:
            return f"when the radius is within {self.tolerance:g} of what infinitely many samples could certify"
        targets = " and ".join(f"{target:g}" for target in self.targets)
        return f"when it is decided whether {targets} can be certified"


def check_goal(goal: object) -> Goal:
    """Return the goal; raise if it is not a Goal."""
    checks.instance("goal", goal, Goal, "a goal such as lvmrs.kernel.method.Goal(targets=(0.5,))")
    return goal  # type: ignore[return-value]
