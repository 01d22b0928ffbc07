"""What sampling with a goal has cost and decided: samples for each input, and a verdict for each target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lvmrs.analysis.results import Results
from lvmrs.kernel.goals import CERTIFIED, IMPOSSIBLE, UNDECIDED, verdict

__all__ = ["Decided", "Spending", "spending", "spending_object", "spending_words"]


@dataclass(frozen=True)
class Decided:
    """How many inputs have each verdict about one target; whether the class is the label does not count here."""

    target: float
    certified: int
    impossible: int
    """It cannot be certified with this plan, however many samples are taken."""
    undecided: int

    @property
    def words(self) -> str:
        """It in words."""
        counts = zip((self.certified, self.impossible, self.undecided), (CERTIFIED, IMPOSSIBLE, UNDECIDED), strict=True)
        return f"{self.target:g}: {', '.join(f'{count} {verdict}' for count, verdict in counts)}"


@dataclass(frozen=True)
class Spending:
    """The samples of a run whose sampling stops at a goal, and what they decided."""

    total: int
    """Samples to prove on, of all inputs."""
    mean: float
    """Of them, for an input."""
    median: float
    most: int
    """The most that an input may take."""
    n0: int
    """Samples to plan on, for each input, which are not among those above."""
    targets: tuple[Decided, ...]
    """Verdicts; empty if the goal has no targets."""
    left: int = 0
    """With a budget: inputs that were planned for another class than their label, and so left after a few samples."""
    unspent: int = 0
    """Samples of a budget that were not drawn, since no input that counts could use them."""
    shared: bool = False
    """Whether inputs shared a budget, so that the most that one may take was not to be expected."""

    @property
    def fewer(self) -> float:
        """How many times fewer samples were taken, with those to plan on, than without a goal."""
        return (self.most + self.n0) / (self.mean + self.n0)


def spending(results: Results) -> Spending | None:
    """What a run has spent and decided; None if it has no goal.

    Args:
        results: The results of the run.

    Returns:
        Samples in all and for each input, and how many inputs are decided at each target; None without a goal.

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
    """It in lines for people.

    Args:
        spent: what was spent and decided.

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
    """It by name, as JSON has it.

    Args:
        spent: what was spent and decided.

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
