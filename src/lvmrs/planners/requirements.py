"""Checks that a smoothed classifier meets the requirements of a method: σ, a Lipschitz constant, full precision."""

from __future__ import annotations

import math

import torch

from lvmrs.errors import InvalidArgumentError, guarded, shown
from lvmrs.kernel import checks
from lvmrs.kernel.deterministic import Deterministic
from lvmrs.kernel.goals import Goal, check_goal
from lvmrs.kernel.method import Method
from lvmrs.kernel.noise import Noise
from lvmrs.planners.base import Planner

__all__ = ["check_goal_for", "check_one_classifier", "checked_method", "relies_on_constant"]


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


def checked_method(
    method: object, *, lipschitz: float, sigma: float | None, autocast: torch.dtype | None, noise: Noise
) -> Planner | Deterministic:
    """Return the method; reject an object that is no method, and a method whose requirements are not met.

    Args:
        method: a planner, or ``Deterministic``.
        lipschitz: the Lipschitz constant of the logits; infinite if none is known.
        sigma: the scale of the noise; None if none was given.
        autocast: the autocast precision of the model; None without autocast.
        noise: the kind of noise.
    """
    if not isinstance(method, Planner | Deterministic):
        raise InvalidArgumentError(f"planner must be a Planner such as Duels() or LVM(), got {shown(method)}")
    name = type(method).__name__
    if method.needs_constant and math.isinf(lipschitz):
        raise InvalidArgumentError(
            f"lipschitz is not known and {name} needs it; give it (lvmrs lipschitz computes one)"
        )
    rounded = method.samples and noise.rounds
    if rounded and method.needs_constant:
        raise InvalidArgumentError(
            f"{name} needs a Lipschitz constant of what is smoothed, and {noise.name} noise rounds inputs, which "
            "leaves none; take gaussian noise or another method"
        )
    if autocast is not None and not rounded and relies_on_constant(method, lipschitz):
        raise InvalidArgumentError(
            f"autocast rounds inside of the model, so {name} cannot rely on its Lipschitz constant; leave autocast "
            "out, or take a method that does not use the constant, such as hard duels or votes"
        )
    if method.samples and sigma is None:
        raise InvalidArgumentError(f"sigma must be given, since {name} takes samples under noise")
    return method
