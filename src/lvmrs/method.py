"""What every method of certifying says of itself: whether it samples, what it needs, what it certifies."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from lvmrs.plan import Scope

__all__ = ["Method"]


class Method(ABC):  # noqa: B024 (its two kinds have nothing in common but what they say of themselves)
    """A way to certify an input; it says what it needs."""

    samples: ClassVar[bool] = True
    """Whether it works on samples under noise."""

    @property
    def needs_constant(self) -> bool:
        """Whether it needs a Lipschitz constant of the logits."""
        return False

    @property
    def scope(self) -> Scope:
        """Whether what is smoothed is chosen for each input, or is the same for all inputs."""
        return "this input"

    def classifier(self, noise: str) -> str:
        """The classifier that its certificates are about, in words; ``noise`` is that of ``Noise.words``."""
        chosen = "chosen for each input" if self.scope == "this input" else "the same for all inputs"
        return f"the classifier smoothed with {noise}, with its map {chosen}"
