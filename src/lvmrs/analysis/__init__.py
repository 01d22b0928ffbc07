"""Measures of runs: certified accuracy, average certified radius, summaries, comparisons, tables. Needs no torch."""

from lvmrs.analysis.compare import Comparison, compare, differences, stopped_early, unfinished
from lvmrs.analysis.diagnosis import Evidence, Finding, diagnose, warn_of
from lvmrs.analysis.imported import import_results
from lvmrs.analysis.metrics import (
    Curve,
    Estimate,
    abstention,
    average_certified_radius,
    certified_accuracy,
    certified_accuracy_intervals,
    clean_accuracy,
    curve,
    p_lower_quantiles,
)
from lvmrs.analysis.results import Attacked, Results, named, read, results_of
from lvmrs.analysis.safe import safe_inputs
from lvmrs.analysis.summary import (
    AttackSummary,
    Decided,
    Spending,
    Summary,
    attack_summary,
    best_over_runs,
    spending,
    spending_object,
    spending_words,
    summarise,
)

__all__ = [
    "AttackSummary",
    "Attacked",
    "Comparison",
    "Curve",
    "Decided",
    "Estimate",
    "Evidence",
    "Finding",
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
    "diagnose",
    "differences",
    "import_results",
    "named",
    "p_lower_quantiles",
    "read",
    "results_of",
    "safe_inputs",
    "spending",
    "spending_object",
    "spending_words",
    "stopped_early",
    "summarise",
    "unfinished",
    "warn_of",
]
