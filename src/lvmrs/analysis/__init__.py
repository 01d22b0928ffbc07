"""What rows amount to: certified accuracy, average certified radius, comparisons, tables. Needs no torch."""

from lvmrs.analysis.compare import Comparison, compare, differences
from lvmrs.analysis.metrics import (
    Estimate,
    abstention,
    average_certified_radius,
    best_over_runs,
    certified_accuracy,
    certified_accuracy_intervals,
    clean_accuracy,
)
from lvmrs.analysis.results import Results, read, results_of

__all__ = [
    "Comparison",
    "Estimate",
    "Results",
    "abstention",
    "average_certified_radius",
    "best_over_runs",
    "certified_accuracy",
    "certified_accuracy_intervals",
    "clean_accuracy",
    "compare",
    "differences",
    "read",
    "results_of",
]
