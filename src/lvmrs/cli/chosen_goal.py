"""The goal of sampling, from the options of the command line."""

from __future__ import annotations

from lvmrs.cli.parsing import numbers
from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel.goals import Goal

__all__ = ["check_no_bound", "chosen_goal", "usual_n0"]

# Samples to plan on where sampling stops early: most inputs need few in all.
_FEW = 64
# Where numbers are planned before: a share of what an input gets on average, at least and at most so many samples.
_SHARE, _LEAST, _MOST = 16, 32, 256


def usual_n0(goal: Goal, inputs: int) -> int:
    """How many samples to plan on, unless another number is typed.

    >>> usual_n0(Goal((0.5,)), 100), usual_n0(Goal(budget=10**6), 100), usual_n0(Goal(budget=10**5), 100)
    (64, 256, 62)
    """
    if goal.budget is None:
        return _FEW
    return min(_MOST, max(_LEAST, goal.budget // max(1, inputs) // _SHARE))


def chosen_goal(
    target_radius: str | None,
    tolerance: float | None,
    beta: float | None,
    budget: int | None = None,
    *,
    bound: str | None = None,
) -> Goal | None:
    """The goal that was typed; None if all n samples are to be taken. What has no effect with it is refused."""
    if all(given is None for given in (target_radius, tolerance, budget)):
        if beta is not None:
            raise InvalidArgumentError("beta has no effect without a goal such as a target radius; leave it out")
        return None
    targets = tuple(numbers("target-radius", target_radius) or ())
    risk = {} if beta is None else {"beta": beta}
    goal = Goal(targets, tolerance, budget=budget, **risk)
    if not goal.limited:
        check_no_bound(bound)
    elif beta is not None:
        raise InvalidArgumentError(
            "beta has no effect where numbers of samples are planned before; leave it out, or give a target radius"
        )
    return goal


def check_no_bound(bound: str | None) -> None:
    """Refuse a bound that was typed where sampling stops at a goal."""
    if bound is not None:
        raise InvalidArgumentError(
            "bound has no effect where sampling stops at a goal, which needs bounds that hold at any time; leave it out"
        )
