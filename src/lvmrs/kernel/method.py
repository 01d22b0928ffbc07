"""What a certificate is about, in words: one classifier for all inputs, or one whose map was chosen for this input.

Needs no torch: rows and manifests hold these words too.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import ClassVar, Final, Literal

__all__ = ["CHOSEN", "Method", "Scope", "map_settings", "smoothed_classifier", "smoothed_with"]

Scope = Literal["this input", "all inputs"]

CHOSEN: Final[dict[Scope, str]] = {"this input": "chosen for each input", "all inputs": "the same for all inputs"}
"""How the map of the classifier was chosen, for each scope."""


def smoothed_classifier(noise: str, scope: Scope) -> str:
    """A smoothed classifier whose map is not named; ``noise`` is the text of ``Noise.words``.

    >>> smoothed_classifier("Gaussian noise of σ = 0.5", "all inputs")
    'the classifier smoothed with Gaussian noise of σ = 0.5, with its map the same for all inputs'
    """
    return f"the classifier smoothed with {noise}, with its map {CHOSEN[scope]}"


def smoothed_with(noise: str, map_name: str, settings: str = "") -> str:
    """A classifier smoothed with a simplex map, which is named; ``settings`` is the text of ``map_settings``.

    >>> smoothed_with("Gaussian noise of σ = 0.5", "softmax", map_settings(0.25, 1.0))
    'the classifier smoothed with Gaussian noise of σ = 0.5 and softmax at temperature 0.25'
    """
    return f"the classifier smoothed with {noise} and {map_name}{settings}"


def map_settings(temperature: float | None, mass: float) -> str:
    """Temperature and mass of a map; the temperature is None where it has no effect, and a mass of 1 is not said."""
    at = "" if temperature is None else f" at temperature {temperature:.4g}"
    return at if mass == 1.0 else f"{at} with mass {mass:.4g}"


# ---------------------------------------------------------------------------------------------------------------------
# The interface of all methods of certifying: whether a method samples, what it needs, what it certifies.


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
