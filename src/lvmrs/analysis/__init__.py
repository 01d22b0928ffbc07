"""Measures of runs: certified accuracy, average certified radius, summaries, comparisons, tables. Needs no torch."""

from lvmrs.analysis.attacked import AttackSummary, attack_summary
from lvmrs.analysis.compare import Comparison, compare, differences, unfinished
from lvmrs.analysis.curve import Curve, curve
from lvmrs.analysis.imported import import_results
from lvmrs.analysis.metrics import (
    Estimate,
    abstention,
    average_certified_radius,
    certified_accuracy,
    certified_accuracy_intervals,
    clean_accuracy,
)
from lvmrs.analysis.results import Attacked, Results, read, results_of
from lvmrs.analysis.spending import Decided, Spending, spending, spending_object, spending_words
from lvmrs.analysis.summary import Summary, best_over_runs, summarise

__all__ = [
    "AttackSummary",
    "Attacked",
    "Comparison",
    "Curve",
    "Decided",
    "Estimate",
    "Results",
    "Spending",
    "Summary",
    "abstention",
    "attack_summary",
    "average_certified_radius",
    "best_over_runs",
    "certified_accuracy",
    "certified_accuracy_intervals",
    "clean_accuracy",
    "compare",
    "curve",
    "differences",
    "import_results",
    "read",
    "results_of",
    "spending",
    "spending_object",
    "spending_words",
    "summarise",
    "unfinished",
]
