"""Planners: heuristics that choose, on the selection sample, how to certify an input.

A planner reads logits of noisy copies of the input and the terms of the certificate, and returns a ``Choice``. A bad
planner makes radii small, but never false, since the proof uses other samples. To write one, derive from ``Planner``
and implement ``choose``; ``lvmrs.testing.check_planner`` tests it.
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
