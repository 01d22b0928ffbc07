"""Certified robustness by randomized smoothing, with certificates that really hold.

Names are imported when they are first used: torch takes seconds, and what only reads results does without it.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lvmrs import (
        analysis,
        confidence,
        data,
        errors,
        lipschitz,
        models,
        moments,
        planners,
        prove,
        radius,
        runs,
        sampling,
        simplex,
        training,
        work,
    )
    from lvmrs.plan import Plan, Terms
    from lvmrs.planners import LVM, Cohen, Fixed, Lipschitz, Paper, Planner
    from lvmrs.prove import Certificate
    from lvmrs.runs import Run
    from lvmrs.smooth import SmoothedClassifier

__all__ = [
    "LVM",
    "Certificate",
    "Cohen",
    "Fixed",
    "Lipschitz",
    "Paper",
    "Plan",
    "Planner",
    "Run",
    "SmoothedClassifier",
    "Terms",
    "__version__",
    "analysis",
    "confidence",
    "data",
    "errors",
    "lipschitz",
    "models",
    "moments",
    "planners",
    "prove",
    "radius",
    "runs",
    "sampling",
    "simplex",
    "training",
    "work",
]

__version__ = version("lvmrs")

_HOMES = {
    "lvmrs.plan": ("Plan", "Terms"),
    "lvmrs.planners": ("LVM", "Cohen", "Fixed", "Lipschitz", "Paper", "Planner"),
    "lvmrs.prove": ("Certificate",),
    "lvmrs.runs": ("Run",),
    "lvmrs.smooth": ("SmoothedClassifier",),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    if name in __all__:
        return import_module(f"lvmrs.{name}")
    raise AttributeError(f"module 'lvmrs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
