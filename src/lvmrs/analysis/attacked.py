"""Measures of an attack on a run: an upper bound for each certified radius, and the number of broken certificates.

certified ≤ true ≤ attacked: a certificate for the correct class holds at its radius (with probability 1 − α), and the
class does not win at the found point (with probability 1 − β). Inputs without an attack or without a found point count
as unbroken; abstentions and wrong predictions count as incorrect, as in certified accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lvmrs.analysis.metrics import Estimate, certified_accuracy_intervals
from lvmrs.analysis.results import Results, check_results
from lvmrs.kernel import checks

__all__ = ["AttackSummary", "attack_summary", "most_by_chance", "with_distances"]

# Probability that more certificates are broken by chance than ``most_by_chance`` says.
_SELDOM = 0.01


@dataclass(frozen=True)
class AttackSummary:
    """The measures of an attack."""

    inputs: int
    """Number of attacked certificates."""
    found: int
    """Number of certificates for which a point was found."""
    broken: int
    """Number of found points that are closer than the certified radius."""
    by_chance: int
    """Maximum number of broken certificates that the risks explain; see ``most_by_chance``."""
    beta: float
    """The probability that a found point is wrong, for each input."""
    accuracy: tuple[Estimate, ...]
    """At each radius, the share of inputs that are correct and not broken within it: at least the true accuracy."""
    certified: float | None
    """The mean certified radius of inputs with a found point; None if there are none."""
    attacked: float | None
    """The mean distance of the found points."""
    ratio: float | None
    """The mean of distance divided by radius."""


def attack_summary(results: Results, radii: Sequence[float], *, confidence: float = 0.95) -> AttackSummary | None:
    """Compute the measures of an attack on a run.

    Args:
        results: The results of the run.
        radii: The radii for the upper bound on accuracy.
        confidence: Confidence level of each interval, strictly between 0 and 1.

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
    """The results with the distances of an attack in place of radii; infinite where no point was found."""
    check_results(results)
    unknown = np.full(len(results), np.inf)
    return replace(results, radius=unknown if results.attacked is None else results.attacked.distance)


def most_by_chance(inputs: int, risk: float) -> int:
    """Maximum number of certificates that may seem broken by chance.

    A certificate is wrong with probability at most α, and a found point with probability at most β. If these
    probabilities hold, more certificates than this number are broken in less than one of a hundred attacks.

    Args:
        inputs: number of attacked certificates.
        risk: α + β.

    >>> most_by_chance(100, 0.002), most_by_chance(100, 0.0)
    (2, 0)
    """
    from scipy import special  # imported here, since the import takes longer than starting a command

    inputs = checks.count("inputs", inputs, least=0)
    share = min(1.0, checks.single("risk", checks.at_least_zero("risk", risk)))
    counts = np.arange(inputs + 1)
    beyond = np.where(counts < inputs, special.betainc(counts + 1, np.maximum(inputs - counts, 1), share), 0.0)
    return int(np.argmax(beyond <= _SELDOM))
