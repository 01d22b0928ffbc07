"""The settings of an attack."""

from __future__ import annotations

from dataclasses import dataclass

from lvmrs.errors import InvalidArgumentError, shown
from lvmrs.kernel import checks

__all__ = ["Search"]


@dataclass(frozen=True)
class Search:
    """The effort of an attack, and the number of samples and the risk of its tests.

    >>> Search(steps=20).restarts
    2
    """

    steps: int = 10
    """Steps of gradient ascent from each start; at least 1."""
    restarts: int = 2
    """The number of ascents at each distance: the first from the input, the others from random points near it."""
    samples: int = 32
    """Noisy copies for each gradient; at least 1."""
    n: int = 10_000
    """Fresh samples for each test of a point; at least 2."""
    beta: float = 0.001
    """The probability that the finding for an input is wrong: that the class does win at the point."""
    seed: int = 0
    """The seed of the noise and of the random starting points, from 0 to 2⁶³ − 1."""
    farthest: float | None = None
    """The largest distance of the search; by default 16 times the larger of σ and the radius."""
    clip: bool = False
    """Whether the search is limited to points in [0, 1]; certificates are about all points."""

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
