"""Computes all measures of a run that tables, JSON and reports show.

Besides accuracy and radii these are, for sampling with a goal, the samples of each input and a verdict for each target,
and, for an attacked run, an upper bound for each certified radius and the number of broken certificates.

certified ≤ true ≤ attacked: a certificate for the correct class holds at its radius (with probability 1 − α), and the
class does not win at the found point (with probability 1 − β). Inputs without a found point count as unbroken;
abstentions and wrong predictions count as incorrect, as in certified accuracy. If some certificates were not attacked,
the upper bound is about the attacked inputs alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lvmrs.analysis.metrics import (
    Estimate,
    abstention,
    average_certified_radius,
    clean_accuracy,
    counted_intervals,
    p_lower_quantiles,
)
from lvmrs.analysis.results import CERTIFIED_ACCURACY, CERTIFIED_SHARE, Results, check_results
from lvmrs.errors import RunError
from lvmrs.kernel import checks
from lvmrs.kernel.method import ABSTAIN, CERTIFIED, IMPOSSIBLE, UNDECIDED, verdict

# Probability that more certificates are broken by chance than ``most_by_chance`` says.
_SELDOM = 0.01


@dataclass(frozen=True)
class Summary:
    """The measures of one run, each with its interval for the finite test set."""

    name: str
    inputs: int
    """Number of inputs with a row; all shares are shares of these."""
    missing: int
    """Number of inputs without a row in an unfinished run."""
    confidence: float
    """Confidence level of all intervals."""
    radii: tuple[float, ...]
    certified_accuracy: tuple[Estimate, ...]
    """One for each of the radii; without labels, the share of inputs that are certified, right or wrong."""
    average_certified_radius: Estimate
    clean_accuracy: Estimate | None
    """Accuracy of the base classifier without noise; None if it was not measured for every input."""
    abstention: Estimate
    attack: AttackSummary | None = None
    """Measures of an attack on the run; None if it was not attacked."""
    spent: Spending | None = None
    """Samples and verdicts of a run whose sampling stops at a goal; None for others."""
    caution: str | None = None
    """How the goal of its sampling limits what the radii say; None without a goal."""
    p_lower: tuple[float, ...] | None = None
    """Quantiles of the lower bound on the mean score of the label, at ``metrics.QUANTILES``; None if not known."""
    maps: tuple[str, ...] = ()
    """Names of the maps of these scores."""

    @property
    def notes(self) -> list[str]:
        """Lines for people that stand below a table."""
        return [
            *([] if self.spent is None else spending_words(self.spent)),
            *([] if self.caution is None else [self.caution]),
            *([] if self.attack is None else [self.attack.words]),
        ]

    measure: str = CERTIFIED_ACCURACY
    """The name of ``certified_accuracy``: "certified share" if the inputs have no labels."""


def summarise(results: Results, radii: Sequence[float], *, confidence: float = 0.95) -> Summary:
    """Compute the measures of one run.

    Args:
        results: The results of the run.
        radii: The radii for certified accuracy.
        confidence: Confidence level of each interval, between 0 and 1.

    Returns:
        All measures, each with its interval.

    >>> import numpy as np
    >>> classes, radii = np.array([0, 1, 1, 2]), np.array([0.2, 0.7, 0.4, 0.9])
    >>> run = Results("a run", np.arange(4), label=classes, predict=np.array([0, 1, -1, 2]), radius=radii)
    >>> summary = summarise(run, [0.0, 0.5])
    >>> [share.value for share in summary.certified_accuracy], summary.abstention.value
    ([0.75, 0.5], 0.25)
    """
    check_results(results)
    radii = checks.radii(radii)
    return Summary(
        results.name,
        len(results),
        results.missing,
        confidence,
        tuple(radii),
        tuple(counted_intervals(results, radii, confidence)),
        average_certified_radius(results, confidence=confidence),
        clean_accuracy(results, confidence=confidence),
        abstention(results, confidence=confidence),
        attack_summary(results, radii, confidence=confidence),
        spending(results),
        results.caution,
        p_lower_quantiles(results),
        results.maps,
        results.measure,
    )


def common_measure(runs: Sequence[Results | Summary]) -> str:
    """The measure of all these runs. Raises a RunError if only some of them have labels."""
    measures = {run.measure: run.name for run in runs}
    if len(measures) > 1:
        raise RunError(
            f"{measures[CERTIFIED_ACCURACY]} has labels, and {measures[CERTIFIED_SHARE]} has none, so that accuracies "
            "would stand beside shares of certified inputs; give only runs with labels, or only runs without"
        )
    return next(iter(measures), CERTIFIED_ACCURACY)


def best_over_runs(runs: Sequence[Summary]) -> list[tuple[float, Summary]]:
    """The largest certified accuracy at each radius, with its run: the envelope over σ that papers show.

    The best run is chosen on the same inputs, so there is no interval.

    Args:
        runs: Summaries of at least one run, all at the same radii.

    Returns:
        For each radius the largest certified accuracy, and its summary.

    >>> import numpy as np
    >>> classes = np.array([0, 1])
    >>> one = Results("one", np.arange(2), classes, predict=np.array([0, 0]), radius=np.array([0.9, 0.9]))
    >>> two = Results("two", np.arange(2), classes, predict=classes, radius=np.array([0.2, 0.2]))
    >>> best = best_over_runs([summarise(run, [0.0, 0.5]) for run in (one, two)])
    >>> [(share, run.name) for share, run in best]
    [(1.0, 'two'), (0.5, 'one')]
    """
    if not runs:
        raise RunError("no runs were given; there is nothing to take the best of")
    if any(run.radii != runs[0].radii for run in runs):
        raise RunError("the runs are summarised at different radii; take the same radii for all of them")
    common_measure(runs)
    shares = np.array([[share.value for share in run.certified_accuracy] for run in runs])
    return [(float(shares[k, j]), runs[k]) for j, k in enumerate(shares.argmax(axis=0))]


@dataclass(frozen=True)
class Decided:
    """Number of inputs with each verdict about one target. Wrong answers count, too."""

    target: float
    certified: int
    impossible: int
    """Number of inputs that cannot be certified at the target with their plan, with any number of samples."""
    undecided: int
    correct: int | None
    """Number of inputs that are certified at the target for their label; None if labels are unknown."""

    @property
    def counts(self) -> dict[str, int]:
        """The numbers by verdict."""
        return {CERTIFIED: self.certified, IMPOSSIBLE: self.impossible, UNDECIDED: self.undecided}

    @property
    def words(self) -> str:
        """One-line summary for people."""
        certified, *others = (f"{count} {verdict}" for verdict, count in self.counts.items())
        right = "" if self.correct is None else f" ({self.correct} of them correctly)"
        return ", ".join([f"{self.target:g}: {certified}{right}", *others])


@dataclass(frozen=True)
class Spending:
    """The samples and verdicts of a run whose sampling stops at a goal."""

    total: int
    """Number of certification samples of all inputs."""
    mean: float
    """Mean number of certification samples of an input."""
    median: float
    most: int
    """Maximum number of certification samples of an input."""
    n0: int
    """Number of selection samples of each input, which the numbers above do not include."""
    targets: tuple[Decided, ...]
    """Verdicts; empty if the goal has no targets."""
    left: int = 0
    """With a budget: number of inputs whose planned class is not their label, and that got only a few samples."""
    unspent: int = 0
    """Number of samples of a budget that were not drawn, since no correctly planned input could use them."""
    shared: bool = False
    """Whether inputs shared a budget, so that a comparison with the maximum number of samples means little."""

    @property
    def fewer(self) -> float:
        """The number of samples without a goal divided by that with it, including selection samples."""
        return (self.most + self.n0) / (self.mean + self.n0)


def spending(results: Results) -> Spending | None:
    """The samples and verdicts of a run; None if it has no goal.

    Args:
        results: The results of the run.

    Returns:
        Total and mean samples, and the number of inputs with each verdict at each target; None without a goal.

    >>> import numpy as np
    >>> classes = np.array([0, 1])
    >>> print(spending(Results("a run", np.arange(2), classes, classes, radius=np.array([0.2, 0.4]))))
    None
    """
    made = results.manifest
    if made is None or made.terms.goal is None or results.samples is None or results.limit is None:
        return None
    found = []
    for target in made.terms.goal.targets:
        answers = [verdict(*pair, target) for pair in zip(results.radius, results.limit, strict=True)]
        certified, impossible, undecided = map(answers.count, (CERTIFIED, IMPOSSIBLE, UNDECIDED))
        known = results.label is not None
        correct = int((results.correct & (results.radius >= target)).sum()) if known else None
        found.append(Decided(target, certified, impossible, undecided, correct))
    samples, n0, goal = results.samples, made.terms.n0 or 0, made.terms.goal
    wrong = 0
    if goal.limited and results.top is not None and results.label is not None:
        wrong = int((results.top != results.label).sum())
    spent = int(samples.sum()) + n0 * len(results)
    return Spending(
        int(samples.sum()),
        float(samples.mean()),
        float(np.median(samples)),
        made.terms.n or 0,
        n0,
        tuple(found),
        left=wrong,
        unspent=0 if goal.budget is None or results.missing else max(0, goal.budget - spent),
        shared=goal.limited,
    )


def spending_words(spent: Spending) -> list[str]:
    """The samples and verdicts in lines for people.

    Args:
        spent: the samples and verdicts.

    Returns:
        The lines.

    >>> for line in spending_words(Spending(300, 150.0, 150.0, 1000, 50, (Decided(0.5, 2, 0, 1, 1),))):
    ...     print(line)
    150 certification samples an input (median 150); with n0, 200 in all instead of 1050, 5.2 × fewer
    0.5: 2 certified (1 of them correctly), 0 cannot be certified, 1 undecided
    """
    first = f"{spent.mean:.0f} certification samples an input (median {spent.median:.0f})"
    if not spent.shared:
        all_ = f"{spent.n0 + spent.mean:.0f} in all instead of {spent.n0 + spent.most}"
        first += f"; with n0, {all_}, {spent.fewer:.1f} × fewer"
    words = [first, *(decided.words for decided in spent.targets)]
    if spent.left:
        words.append(f"{spent.left} inputs planned for another class than their label, and left after few samples")
    if spent.unspent:
        words.append(f"{spent.unspent} samples of the budget not drawn: no input that counts could use them")
    return words


def spending_object(spent: Spending) -> dict[str, Any]:
    """The samples and verdicts by name, for JSON.

    Args:
        spent: the samples and verdicts.

    Returns:
        Plain values by name.

    >>> spending_object(Spending(300, 150.0, 150.0, 1000, 50, ()))["times fewer"]
    5.25
    """
    return {
        "total": spent.total,
        "mean": spent.mean,
        "median": spent.median,
        "at most": spent.most,
        "n0": spent.n0,
        "times fewer": spent.fewer,
        "left": spent.left,
        "unspent": spent.unspent,
        "targets": [
            {"target": each.target, **each.counts, "certified correctly": each.correct} for each in spent.targets
        ],
    }


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
    """At each radius, the share of inputs that are correct and not broken within it: at least the true accuracy.

    Without labels, the share of inputs with an answer that is not broken.
    """
    certified_accuracy: tuple[Estimate, ...]
    """Certified accuracy of the same inputs at each radius: at most their true accuracy."""
    of: int
    """Number of inputs in these shares: all inputs if every certificate was attacked, else the attacked inputs."""
    is_part: bool
    """Whether some certificates were not attacked."""
    certified: float | None
    """The mean certified radius of inputs with a found point; None if there are none."""
    attacked: float | None
    """The mean distance of the found points."""
    ratio: float | None
    """The mean of distance divided by radius."""

    @property
    def words(self) -> str:
        """One-line summary for people."""
        ratio = "" if self.ratio is None else f", attacked/certified {self.ratio:.2f}"
        alone = f"; its lines below the first are about these {self.of} inputs alone" if self.is_part else ""
        return f"{self.inputs} certificates attacked, {self.broken} broken{ratio}{alone}"


def attack_summary(results: Results, radii: Sequence[float], *, confidence: float = 0.95) -> AttackSummary | None:
    """Compute the measures of an attack on a run.

    Args:
        results: The results of the run.
        radii: The radii for the upper bound on accuracy.
        confidence: Confidence level of each interval, strictly between 0 and 1.

    Returns:
        The measures; None if the run was not attacked.

    >>> from lvmrs.analysis.results import Attacked
    >>> classes, found = np.array([0, 1]), Attacked(np.array([0.3, np.inf]), np.array([True, True]), 0.001)
    >>> run = Results("a run", np.arange(2), classes, classes, radius=np.array([0.2, 0.4]), attacked=found)
    >>> summary = attack_summary(run, [0.25, 0.5])
    >>> [share.value for share in summary.accuracy], summary.broken, round(summary.ratio, 9)
    ([1.0, 0.5], 0, 1.5)
    """
    check_results(results)
    if results.attacked is None:
        return None
    known, tried, part = results.attacked, int(results.attacked.tried.sum()), attacked_part(results)
    found = np.isfinite(known.distance)
    radius, distance = results.radius[found], known.distance[found]
    alpha = 0.0 if results.manifest is None else results.manifest.terms.alpha or 0.0
    return AttackSummary(
        inputs=tried,
        found=int(found.sum()),
        broken=int((distance < radius).sum()),
        by_chance=most_by_chance(tried, alpha + known.beta),
        beta=known.beta,
        accuracy=tuple(counted_intervals(with_distances(results), radii, confidence)),
        certified_accuracy=tuple(counted_intervals(part, radii, confidence)),
        of=len(part),
        is_part=len(part) < len(results),
        certified=float(radius.mean()) if found.any() else None,
        attacked=float(distance.mean()) if found.any() else None,
        ratio=float((distance / radius).mean()) if found.any() else None,
    )


def attacked_part(results: Results) -> Results:
    """The inputs that the accuracy under an attack is about: all if every certificate was attacked, else those alone.

    Inputs without a certificate are never attacked. They count as incorrect where all inputs count.
    """
    check_results(results)
    if results.attacked is None:
        return results
    waiting = (results.predict != ABSTAIN) & (results.radius > 0) & ~results.attacked.tried
    return results.only(np.flatnonzero(results.attacked.tried)) if waiting.any() else results


def with_distances(results: Results) -> Results:
    """The attacked part with the distances of the attack in place of radii; infinite where no point was found."""
    part = attacked_part(results)
    unknown = np.full(len(part), np.inf)
    return replace(part, radius=unknown if part.attacked is None else part.attacked.distance)


def most_by_chance(inputs: int, risk: float) -> int:
    """Maximum number of attacked certificates that may seem broken by chance, at the risk α + β.

    A certificate is wrong with probability at most α, and a found point with probability at most β. If these
    probabilities hold, more certificates than this number are broken in less than one of a hundred attacks.

    >>> most_by_chance(100, 0.002), most_by_chance(100, 0.0)
    (2, 0)
    """
    from scipy import special  # imported here, since the import takes longer than starting a command

    inputs = checks.count("inputs", inputs, least=0)
    share = min(1.0, checks.nonnegative_number("risk", risk))
    counts = np.arange(inputs + 1)
    beyond = np.where(counts < inputs, special.betainc(counts + 1, np.maximum(inputs - counts, 1), share), 0.0)
    return int(np.argmax(beyond <= _SELDOM))
