"""Objectives by name, and their settings as text and JSON."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

from lvmrs._util.settings import as_json, attributes, made
from lvmrs.errors import InvalidArgumentError
from lvmrs.registry import OBJECTIVES
from lvmrs.training.objectives.base import Objective


def objective(name: str | type[Objective], sigma: float, **settings: Any) -> Objective:
    """Make the objective of a name or class, for noise of standard deviation ``sigma``.

    Args:
        name: a name of ``lvmrs.registry.OBJECTIVES``, or your own class.
        sigma: standard deviation of the noise.
        settings: other settings of the objective; None selects the default.

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
    """The objective and its settings as text, equal in every process: ``Gaussian(sigma=0.5)``."""
    return f"{type(chosen).__name__}({', '.join(f'{key}={_text(value)}' for key, value in _settings(chosen).items())})"


def record(chosen: Objective) -> dict[str, Any]:
    """The settings of an objective as JSON values; a value that JSON cannot represent becomes its ``repr``."""
    return {key: as_json(value, _text) for key, value in _settings(chosen).items()}


def _settings(chosen: Objective) -> dict[str, Any]:
    """Sigma and all other settings, except attributes that begin with an underscore."""
    found = attributes(chosen)
    found = {**found, "sigma": chosen.sigma} if dataclasses.is_dataclass(chosen) else {"sigma": chosen.sigma, **found}
    return {name: value for name, value in found.items() if not name.startswith("_")}


def _text(value: object) -> str:
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))  # addresses differ between processes
