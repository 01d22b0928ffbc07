"""The interface of all planners."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from torch import Tensor

from lvmrs.plan import Plan, Terms
from lvmrs.sampling import Stream

__all__ = ["Planner"]


class Planner(ABC):
    """Chooses how to certify an input, from logits of noisy copies that the certificate will not be made from."""

    @abstractmethod
    def plan(self, scores: Iterable[Tensor], terms: Terms, origin: Stream) -> Plan:
        """A plan from the selection scores, in batches (samples, classes); ``origin`` goes into the plan."""
