"""Certified robustness by randomized smoothing, with certificates that really hold."""

from importlib.metadata import version

from lvmrs import confidence, errors, lipschitz, moments, radius, simplex

__all__ = ["__version__", "confidence", "errors", "lipschitz", "moments", "radius", "simplex"]

__version__ = version("lvmrs")
