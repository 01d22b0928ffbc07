"""Certified robustness by randomized smoothing, with certificates that really hold."""

from importlib.metadata import version

from lvmrs import confidence, errors, lipschitz, moments, planners, prove, radius, sampling, simplex
from lvmrs.plan import Plan, Terms
from lvmrs.planners import LVM, Cohen, Fixed, Lipschitz, Paper, Planner
from lvmrs.prove import Certificate
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
    "SmoothedClassifier",
    "Terms",
    "__version__",
    "confidence",
    "errors",
    "lipschitz",
    "moments",
    "planners",
    "prove",
    "radius",
    "sampling",
    "simplex",
]

__version__ = version("lvmrs")
