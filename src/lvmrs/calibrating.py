"""What a smoothed classifier can find out on held-out inputs: one map, or one width of duels, for all inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from torch import Tensor

from lvmrs import _checks
from lvmrs.errors import InvalidArgumentError
from lvmrs.noise import Stage
from lvmrs.plan import Terms
from lvmrs.planners.duels import Duels, calibrated_width
from lvmrs.planners.fixed import Fixed, calibrated
from lvmrs.scores import Scores

__all__ = ["Calibrating"]


class Calibrating(ABC):
    """The part of a smoothed classifier that calibrates it."""

    @abstractmethod
    def scores(self, x: Tensor, n: int, *, seed: int = 0, index: int = 0, stage: Stage = "certification") -> Scores:
        """Make the scores of n noisy copies of an input."""

    @abstractmethod
    def terms(self, alpha: float, n: int) -> Terms:
        """The terms of certificates to come."""

    def calibrate(
        self,
        inputs: Iterable[Tensor],
        *,
        labels: Iterable[int] | None = None,
        objective: Literal["average radius", "accuracy"] = "average radius",
        epsilon: float = 0.0,
        n0: int = 1_000,
        n: int = 100_000,
        alpha: float = 0.001,
        seed: int = 0,
        **search: Any,
    ) -> Fixed:
        """Find one map, temperature and form of the radius for all inputs, on held-out inputs.

        The arguments are those of ``certify`` and of ``lvmrs.planners.fixed.calibrated``, which does the search.
        """
        terms = self.terms(alpha, n)
        inputs = list(_checks.iterable("inputs", inputs, "tensors"))
        known = None if labels is None else _checks.class_numbers("labels", labels)
        if known is not None and len(known) != len(inputs):
            raise InvalidArgumentError(f"{len(known)} labels for {len(inputs)} inputs; give one for each")
        samples = self._calibration(inputs, n0, seed)
        return calibrated(samples, terms, labels=known, objective=objective, epsilon=epsilon, **search)

    def calibrate_duels(self, inputs: Iterable[Tensor], *, n0: int = 1_000, seed: int = 0) -> Duels:
        """Find one width of soft duels for all inputs, on held-out inputs; see ``calibrated_width``."""
        return Duels(calibrated_width(self._calibration(inputs, n0, seed)))

    def _calibration(self, inputs: Iterable[Tensor], n0: int, seed: int) -> Iterator[Iterator[Tensor]]:
        for index, x in enumerate(_checks.iterable("inputs", inputs, "tensors")):
            yield self.scores(x, n0, seed=seed, index=index, stage="calibration").logits()
