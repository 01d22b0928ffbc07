"""The interface of all methods, and descriptions of the classifiers that certificates are about.

Needs no torch: rows and manifests contain these descriptions too.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import ClassVar, Final, Literal

__all__ = ["CHOSEN", "Method", "Scope", "map_settings", "smoothed_classifier", "smoothed_with"]

Scope = Literal["this input", "all inputs"]

CHOSEN: Final[dict[Scope, str]] = {"this input": "chosen for each input", "all inputs": "the same for all inputs"}
"""A phrase for each scope."""


def smoothed_classifier(noise: str, scope: Scope) -> str:
    """Describes a smoothed classifier without naming its map; ``noise`` is the text of ``Noise.words``.

    >>> smoothed_classifier("Gaussian noise of σ = 0.5", "all inputs")
    'the classifier smoothed with Gaussian noise of σ = 0.5, with its map the same for all inputs'
    """
    return f"the classifier smoothed with {noise}, with its map {CHOSEN[scope]}"


def smoothed_with(noise: str, map_name: str, settings: str = "") -> str:
    """Describes a classifier smoothed with a named simplex map; ``settings`` is the text of ``map_settings``.

    >>> smoothed_with("Gaussian noise of σ = 0.5", "softmax", map_settings(0.25, 1.0))
    'the classifier smoothed with Gaussian noise of σ = 0.5 and softmax at temperature 0.25'
    """
    return f"the classifier smoothed with {noise} and {map_name}{settings}"


def map_settings(temperature: float | None, mass: float) -> str:
    """Describes temperature and mass of a map; leaves out a temperature of None and a mass of 1."""
    at = "" if temperature is None else f" at temperature {temperature:.4g}"
    return at if mass == 1.0 else f"{at} with mass {mass:.4g}"


# ---------------------------------------------------------------------------------------------------------------------
# The interface of all methods.


class Method(ABC):  # noqa: B024 (its two kinds have only these facts in common)
    """A method to certify an input: a ``Planner``, which uses samples under noise, or ``Deterministic``."""

    samples: ClassVar[bool] = True
    """Whether the method uses samples under noise."""
    settled: ClassVar[Mapping[str, str]] = {}
    """Why this method does not take settings of other methods, by the names of the settings."""

    @property
    def needs_constant(self) -> bool:
        """Whether the method needs a Lipschitz constant of the logits."""
        return False

    @property
    def uses_constant(self) -> bool:
        """Whether a Lipschitz constant of the logits can make the radii larger."""
        return True

    @property
    def scope(self) -> Scope:
        """Whether the map is chosen for each input, or is the same for all inputs."""
        return "this input"

    def classifier(self, noise: str) -> str:
        """Describes the classifier of its certificates; ``noise`` is the text of ``Noise.words``."""
        return smoothed_classifier(noise, self.scope)
