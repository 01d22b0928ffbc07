"""Risk, numbers of samples and seed of the certificates of a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lvmrs.kernel import checks
from lvmrs.kernel.goals import Goal, check_goal
from lvmrs.kernel.noise import Stream
from lvmrs.kernel.terms import Terms

__all__ = ["Sampling"]


@dataclass(frozen=True)
class Sampling:
    """Risk, numbers of samples and seed of the certificates of a job."""

    alpha: float = 0.001
    """The risk of each certificate, strictly between 0 and 1."""
    n0: int = 1_000
    """Number of selection samples, for the plan; at least 1."""
    n: int = 100_000
    """Number of certification samples, for the proof; at least 2."""
    seed: int = 0
    """The seed of the noise, from 0 to 2⁶³ − 1."""
    goal: Goal | None = None
    """When sampling for an input stops before n samples; None takes all n."""

    def __post_init__(self) -> None:
        terms = Terms(1.0, self.alpha, self.n)
        if self.goal is not None:
            check_goal(self.goal)
        n0, seed = checks.count("n0", self.n0, least=1), Stream(self.seed, 0, "selection").seed
        for name, value in (("alpha", terms.alpha), ("n0", n0), ("n", terms.n), ("seed", seed)):
            object.__setattr__(self, name, value)

    @property
    def of_all(self) -> dict[str, Any]:
        """All settings but the goal, by name."""
        return {name: value for name, value in vars(self).items() if name != "goal"}
