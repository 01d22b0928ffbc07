"""What an attack says about a run: an upper bound beside each certified radius, and certificates that are broken.

certified ≤ true ≤ attacked: a certificate for the right class holds at its radius (each at the risk α), and the class
does not win at the point that an attack found (each at the risk β). Inputs that were not attacked, or for which nothing
was found, count as unbroken; abstentions and wrong answers count for nothing, as in certified accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lvmrs.analysis.metrics import Estimate, certified_accuracy_intervals
from lvmrs.analysis.results import Results, check_results
from lvmrs.kernel import checks

__all__ = ["AttackSummary", "attack_summary", "most_by_chance", "with_distances"]

# How seldom more certificates are broken by chance than ``most_by_chance`` says.
_SELDOM = 0.01


@dataclass(frozen=True)
class AttackSummary:
    """The measures of an attack."""

    inputs: int
    """How many certificates were attacked."""
    found: int
    """For how many of them a point was found."""
    broken: int
    """How many of these points are closer than the certified radius."""
    by_chance: int
    """How many broken certificates the risks explain; see ``most_by_chance``."""
    beta: float
    """The risk of what is said about each input."""
    accuracy: tuple[Estimate, ...]
    """At each radius, the share of inputs that are right and not broken within it: at least the true accuracy."""
    certified: float | None
    """The mean certified radius, where a point was found; None if there is none."""
    attacked: float | None
    """The mean distance of these points."""
    ratio: float | None
    """The mean of distance over radius."""


def attack_summary(results: Results, radii: Sequence[float], *, confidence: float = 0.95) -> AttackSummary | None:
    """The measures of an attack on a run.

    Args:
        results: The results of the run.
        radii: The radii at which the upper bound on its accuracy is wanted.
        confidence: The probability with which each interval holds the true value, strictly between 0 and 1.

    Returns:
        The measures; None if the run was not attacked.

    >>> from lvmrs.analysis.results import Attacked
    >>> classes, found = np.array([0, 1]), Attacked(np.array([0.3, np.inf]), np.array([True, False]), 0.001)
    >>> run = Results("a run", np.arange(2), classes, classes, radius=np.array([0.2, 0.4]), attacked=found)
    >>> summary = attack_summary(run, [0.25, 0.5])
    >>> [share.value for share in summary.accuracy], summary.broken, round(summary.ratio, 9)
    ([1.0, 0.5], 0, 1.5)
    """
    check_results(results)
    if results.attacked is None:
        return None
    known, tried = results.attacked, int(results.attacked.tried.sum())
    found = np.isfinite(known.distance)
    radius, distance = results.radius[found], known.distance[found]
    alpha = 0.0 if results.manifest is None else results.manifest.terms.alpha or 0.0
    return AttackSummary(
        inputs=tried,
        found=int(found.sum()),
        broken=int((distance < radius).sum()),
        by_chance=most_by_chance(tried, alpha + known.beta),
        beta=known.beta,
        accuracy=tuple(certified_accuracy_intervals(with_distances(results), radii, confidence=confidence)),
        certified=float(radius.mean()) if found.any() else None,
        attacked=float(distance.mean()) if found.any() else None,
        ratio=float((distance / radius).mean()) if found.any() else None,
    )


def with_distances(results: Results) -> Results:
    """The results with the distances that an attack found in place of radii; infinite where it found nothing."""
    check_results(results)
    unknown = np.full(len(results), np.inf)
    return replace(results, radius=unknown if results.attacked is None else results.attacked.distance)


def most_by_chance(inputs: int, risk: float) -> int:
    """How many of so many certificates may seem broken by chance.

    A certificate is false with probability at most α, and a finding with at most β. If all of them are what they say,
    more than this number are broken in less than one attack of a hundred.

    Args:
        inputs: how many certificates were attacked.
        risk: α + β.

    >>> most_by_chance(100, 0.002), most_by_chance(100, 0.0)
    (2, 0)
    """
    from scipy import special  # not above: it takes longer to import than a command to start

    inputs = checks.count("inputs", inputs, least=0)
    share = min(1.0, checks.single("risk", checks.at_least_zero("risk", risk)))
    counts = np.arange(inputs + 1)
    beyond = np.where(counts < inputs, special.betainc(counts + 1, np.maximum(inputs - counts, 1), share), 0.0)
    return int(np.argmax(beyond <= _SELDOM))
