"""The settings of a search, checked."""

from __future__ import annotations

from dataclasses import dataclass

from lvmrs.errors import InvalidArgumentError, shown
from lvmrs.kernel import checks

__all__ = ["Search"]


@dataclass(frozen=True)
class Search:
    """How hard an attack searches, and on how many samples its findings are judged.

    >>> Search(steps=20).restarts
    2
    """

    steps: int = 10
    """Steps of gradient ascent from each start; at least 1."""
    restarts: int = 2
    """How often the ascent is begun at each distance: first from the input, then from random points near it."""
    samples: int = 32
    """Noisy copies over which each gradient is averaged; at least 1."""
    n: int = 10_000
    """Fresh samples on which a finding is judged; at least 2."""
    beta: float = 0.001
    """The risk that what is said about an input is wrong: that its class does not win at the point that was found."""
    seed: int = 0
    """The seed of the noise and of the starts, from 0 to 2⁶³ − 1."""
    farthest: float | None = None
    """The search gives up beyond this distance; by default 16 times σ or the radius, whichever is larger."""
    clip: bool = False
    """Whether points are kept in [0, 1]; certificates are about all points."""

    def __post_init__(self) -> None:
        far = self.farthest
        plain = {
            "steps": checks.count("steps", self.steps, least=1),
            "restarts": checks.count("restarts", self.restarts, least=1),
            "samples": checks.count("samples", self.samples, least=1),
            "n": checks.count("n", self.n, least=2),
            "beta": checks.single("beta", checks.fraction("beta", self.beta)),
            "seed": checks.seed("seed", self.seed),
            "farthest": None if far is None else checks.positive_number("farthest", far),
        }
        if not isinstance(self.clip, bool):
            raise InvalidArgumentError(f"clip must be True or False, got {shown(self.clip)}")
        for name, value in plain.items():
            object.__setattr__(self, name, value)
