"""Objectives by name with their settings, and the settings of an objective in words and for records."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

from lvmrs._util.settings import as_json, attributes, made
from lvmrs.errors import InvalidArgumentError
from lvmrs.registry import OBJECTIVES
from lvmrs.training.objectives import Objective

__all__ = ["description", "objective", "record"]


def objective(name: str | type[Objective], sigma: float, **settings: Any) -> Objective:
    """The objective of that name, or of a class of yours, for noise of standard deviation ``sigma``.

    Args:
        name: a name of ``lvmrs.registry.OBJECTIVES``, or your own class.
        sigma: standard deviation of the noise.
        settings: other settings of the objective; those that are None are left out, so that its own defaults hold.

    Returns:
        The objective.

    >>> objective("smoothadv", 0.5, epsilon=1.0, margin=None)
    SmoothAdv(sigma=0.5, epsilon=1.0, steps=2, samples=2)
    """
    maker = name if isinstance(name, type) else OBJECTIVES.find(name)
    shown = name.__name__ if isinstance(name, type) else name
    if "sigma" not in inspect.signature(maker).parameters:
        raise InvalidArgumentError(f"sigma is not a setting of objective {shown}; give the class a parameter sigma")
    chosen: Objective = made(maker, f"objective {shown}", {"sigma": sigma, **settings}, {})
    return chosen


def description(chosen: Objective) -> str:
    """The objective and its settings, the same in every process: ``Gaussian(sigma=0.5)``."""
    return f"{type(chosen).__name__}({', '.join(f'{key}={_text(value)}' for key, value in _settings(chosen).items())})"


def record(chosen: Objective) -> dict[str, Any]:
    """The settings of an objective as plain JSON values; what JSON does not have is written as Python shows it."""
    return {key: as_json(value, _text) for key, value in _settings(chosen).items()}


def _settings(chosen: Objective) -> dict[str, Any]:
    """Sigma and all other settings, without attributes that begin with an underscore."""
    found = attributes(chosen)
    found = {**found, "sigma": chosen.sigma} if dataclasses.is_dataclass(chosen) else {"sigma": chosen.sigma, **found}
    return {name: value for name, value in found.items() if not name.startswith("_")}


def _text(value: object) -> str:
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))  # an address is another one in every process
