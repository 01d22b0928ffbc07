"""Measures sampling with a goal: samples for each input, and a verdict for each target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lvmrs.analysis.results import Results
from lvmrs.kernel.goals import CERTIFIED, IMPOSSIBLE, UNDECIDED, verdict

__all__ = ["Decided", "Spending", "spending", "spending_object", "spending_words"]


@dataclass(frozen=True)
class Decided:
    """Number of inputs with each verdict about one target, whether or not the class is the label."""

    target: float
    certified: int
    impossible: int
    """Number of inputs that cannot be certified at the target with their plan, with any number of samples."""
    undecided: int

    @property
    def words(self) -> str:
        """One-line summary for people."""
        counts = zip((self.certified, self.impossible, self.undecided), (CERTIFIED, IMPOSSIBLE, UNDECIDED), strict=True)
        return f"{self.target:g}: {', '.join(f'{count} {verdict}' for count, verdict in counts)}"


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
        found.append(Decided(target, *(answers.count(each) for each in (CERTIFIED, IMPOSSIBLE, UNDECIDED))))
    samples, n0, goal = results.samples, made.terms.n0 or 0, made.terms.goal
    wrong = 0 if results.top is None or not goal.limited else int((results.top != results.label).sum())
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

    >>> spending_words(Spending(300, 150.0, 150.0, 1000, 50, (Decided(0.5, 1, 0, 1),)))
    ['150 samples an input (median 150), 5.2 × fewer than 1000', '0.5: 1 certified, 0 cannot be certified, 1 undecided']
    """
    fewer = "" if spent.shared else f", {spent.fewer:.1f} × fewer than {spent.most}"
    first = f"{spent.mean:.0f} samples an input (median {spent.median:.0f}){fewer}"
    words = [first, *(decided.words for decided in spent.targets)]
    if spent.left:
        words.append(f"{spent.left} inputs planned for another class than their label, and left after few samples")
    return (
        [*words, f"{spent.unspent} samples of the budget not drawn: no input that counts could use them"]
        if spent.unspent
        else words
    )


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
            {"target": each.target, CERTIFIED: each.certified, IMPOSSIBLE: each.impossible, UNDECIDED: each.undecided}
            for each in spent.targets
        ],
    }
