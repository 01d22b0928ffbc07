"""From the words of a command line to an objective; what a user typed may name a class of theirs."""

from __future__ import annotations

from functools import partial
from inspect import isabstract
from typing import TYPE_CHECKING

from lvmrs._user_code import called, imported
from lvmrs.errors import InvalidArgumentError

if TYPE_CHECKING:
    from lvmrs.training import Objective

__all__ = ["chosen_objective"]

_OWN = "python:"


def chosen_objective(name: str, sigma: float, **settings: float | None) -> Objective:
    """The objective of that name with these settings; those that are None are left out.

    ``python:MODULE:CLASS`` names an objective of the user's own.
    """
    from lvmrs import training

    if not name.startswith(_OWN):
        return training.objective(name, sigma, **settings)
    own = imported(name, name.removeprefix(_OWN), error=InvalidArgumentError)
    if not isinstance(own, type) or not issubclass(own, training.Objective):
        raise InvalidArgumentError(f"{name} is not a class derived from Objective; see lvmrs.training.objectives")
    if isabstract(own):
        raise InvalidArgumentError(f"{name} has no method loss; write it: see lvmrs.training.objectives")
    made: Objective = called(name, partial(training.objective, own, sigma, **settings), error=InvalidArgumentError)
    return made
