"""From the words of a command line to an objective; what a user typed may name a class of theirs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lvmrs._util.user_code import called
from lvmrs.cli.own_parts import OWN, own, whole_class
from lvmrs.errors import InvalidArgumentError

if TYPE_CHECKING:
    from lvmrs.training import Objective

__all__ = ["chosen_objective"]


def chosen_objective(name: str, sigma: float, **settings: float | None) -> Objective:
    """The objective of that name with these settings; those that are None are left out.

    ``python:MODULE:CLASS`` names an objective of the user's own.
    """
    from lvmrs import training

    if not name.startswith(OWN):
        return training.objective(name, sigma, **settings)
    chosen = whole_class(name, own(name), training.Objective, "Objective", "lvmrs.training.objectives")
    made: Objective = called(name, partial(training.objective, chosen, sigma, **settings), error=InvalidArgumentError)
    return made
