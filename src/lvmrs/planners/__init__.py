"""Planners: heuristics that choose, on the selection sample, how an input is to be certified.

A planner sees logits of noisy copies of the input and the terms of the certificate, and answers with a ``Choice``. A
bad one makes certificates small, but never false, since the proof works on other samples. To write one, derive from
``Planner`` and write ``choose``; ``lvmrs.testing.check_planner`` tests it.
"""

from lvmrs.planners.anytime import Anytime
from lvmrs.planners.base import Planner
from lvmrs.planners.cohen import Cohen
from lvmrs.planners.duels import Duels
from lvmrs.planners.fixed import Fixed
from lvmrs.planners.lipschitz import Lipschitz
from lvmrs.planners.lvm import LVM
from lvmrs.planners.paper import Paper
from lvmrs.planners.votes import Votes

__all__ = ["LVM", "Anytime", "Cohen", "Duels", "Fixed", "Lipschitz", "Paper", "Planner", "Votes"]
