"""The interface of all methods of certifying: whether a method samples, what it needs, what it certifies."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import ClassVar

from lvmrs.scope import Scope, smoothed_classifier

__all__ = ["Method"]


class Method(ABC):  # noqa: B024 (its two kinds have only these facts in common)
    """A way to certify an input: a ``Planner``, which works on samples under noise, or ``Deterministic``."""

    samples: ClassVar[bool] = True
    """Whether it works on samples under noise."""
    settled: ClassVar[Mapping[str, str]] = {}
    """Why settings of other methods cannot be chosen for this one, by the names of the settings."""

    @property
    def needs_constant(self) -> bool:
        """Whether it needs a Lipschitz constant of the logits."""
        return False

    @property
    def uses_constant(self) -> bool:
        """Whether its radii can be larger with a Lipschitz constant of the logits than without."""
        return True

    @property
    def scope(self) -> Scope:
        """Whether the map that is smoothed is chosen for each input, or is the same for all inputs."""
        return "this input"

    def classifier(self, noise: str) -> str:
        """The classifier that its certificates are about, in words; ``noise`` is the text of ``Noise.words``."""
        return smoothed_classifier(noise, self.scope)
