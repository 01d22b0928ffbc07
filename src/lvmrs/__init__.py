"""Certified robustness by randomized smoothing, with certificates that really hold.

Names are imported when they are first used: torch takes seconds, and what only reads results does without it.
"""

from importlib import import_module

TYPE_CHECKING = False  # not from typing: the command line is to answer to signals within milliseconds

if TYPE_CHECKING:
    from lvmrs import (
        analysis,
        confidence,
        data,
        errors,
        forms,
        jobs,
        lipschitz,
        maps,
        models,
        moments,
        noise,
        planners,
        prove,
        radius,
        registry,
        runs,
        sampling,
        scores,
        simplex,
        testing,
        training,
    )
    from lvmrs.certificate import Certificate
    from lvmrs.deterministic import Deterministic
    from lvmrs.plan import Choice, Plan, Terms
    from lvmrs.planners import LVM, Cohen, Duels, Fixed, Lipschitz, Paper, Planner, Votes
    from lvmrs.runs import Run
    from lvmrs.smooth import SmoothedClassifier

__all__ = [
    "LVM",
    "Certificate",
    "Choice",
    "Cohen",
    "Deterministic",
    "Duels",
    "Fixed",
    "Lipschitz",
    "Paper",
    "Plan",
    "Planner",
    "Run",
    "SmoothedClassifier",
    "Terms",
    "Votes",
    "__version__",
    "analysis",
    "confidence",
    "data",
    "errors",
    "forms",
    "jobs",
    "lipschitz",
    "maps",
    "models",
    "moments",
    "noise",
    "planners",
    "prove",
    "radius",
    "registry",
    "runs",
    "sampling",
    "scores",
    "simplex",
    "testing",
    "training",
]

__version__: str

_HOMES = {
    "lvmrs.certificate": ("Certificate",),
    "lvmrs.deterministic": ("Deterministic",),
    "lvmrs.plan": ("Choice", "Plan", "Terms"),
    "lvmrs.planners": ("LVM", "Cohen", "Duels", "Fixed", "Lipschitz", "Paper", "Planner", "Votes"),
    "lvmrs.runs": ("Run",),
    "lvmrs.smooth": ("SmoothedClassifier",),
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("lvmrs")
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    if name in __all__:
        return import_module(f"lvmrs.{name}")
    raise AttributeError(f"module 'lvmrs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
