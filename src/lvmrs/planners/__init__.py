"""Planners: heuristics that choose, on the selection sample, how an input is to be certified.

A planner sees logits of noisy copies of the input and the terms of the certificate, and answers with a ``Plan``. It can
make certificates small, never false: the prover works on other samples. To write one, derive from ``Planner``.
"""

from lvmrs.planners.base import Planner
from lvmrs.planners.cohen import Cohen
from lvmrs.planners.fixed import Fixed
from lvmrs.planners.lipschitz import Lipschitz
from lvmrs.planners.lvm import LVM
from lvmrs.planners.paper import Paper

__all__ = ["LVM", "Cohen", "Fixed", "Lipschitz", "Paper", "Planner"]
