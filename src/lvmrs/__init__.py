"""Certified robustness by randomized smoothing, with certificates that really hold."""

from importlib.metadata import version

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
]

__version__ = version("lvmrs")
