"""How few samples a question needs: sampling that stops early, against a number of samples that is fixed before.

    python experiments/adaptive_sampling.py --cifar10 cifar10.npz

The scores of all samples are kept once. Then each goal takes of them what it needs: is a radius certified or not, how
close is the radius to what infinitely many samples could give, and what does a budget for all inputs buy.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from lab import record
from lab.cases import Case, adaptive
from lab.methods import Certified, paired, place_of
from lab.page import about, difference, made_by, percent, size, table, wrapped
from lab.settings import Lab
from lvmrs import Cohen, Duels, Planner, Run, Votes, jobs
from lvmrs.confidence.staged import stages
from lvmrs.goals import CERTIFIED, UNDECIDED, Goal, verdict
from lvmrs.planners import Anytime
from lvmrs.runs import Row

__all__ = ["TITLE", "measure", "shown"]

TITLE = "As few samples as the question needs"
_EPSILONS = (0.25, 0.5, 0.75, 1.0)
_TOLERANCES = (0.2, 0.1, 0.05)
_METHODS: dict[str, tuple[str, Planner]] = {
    "duels": ("duels", Duels()),
    "votes": ("votes, R2", Votes()),
    "cohen": ("votes, R3 (Cohen)", Cohen()),
}
_STEPS = 8  # numbers of samples that are tried in each power of ten


def measure(lab: Lab) -> record.Found:
    """One network: targets, tolerances and budgets."""
    case = adaptive(lab)
    return {
        "case": case.facts,
        "targets": {name: _targets(case, name) for name in _METHODS},
        "tolerances": {f"{tolerance:g}": _tolerance(case, tolerance) for tolerance in _TOLERANCES},
        "budgets": _budgets(case),
    }


def _targets(case: Case, name: str) -> dict[str, dict[str, Any]]:
    """What a yes or no costs at each radius, with bounds that hold at every moment and with a few stages."""
    planner, fixed = _METHODS[name][1], _rows(_fixed(case, name, case.size.n))
    found = {}
    for epsilon in _EPSILONS:
        goal, ends = Goal(targets=(epsilon,)), stages(case.size.n)
        at_any_time = _rows(_again(case, f"{name}-at-{epsilon:g}", planner, goal))
        staged = _rows(_again(case, f"{name}-staged-at-{epsilon:g}", Anytime(planner, staged=True), goal))
        # A proof looks at the bounds soon after a stage has ended; who stages would have stopped at its end.
        at_ends = [max(end for end in ends if end <= _used(row)) for row in staged]
        found[f"{epsilon:g}"] = {
            "anytime": _decided(case, epsilon, at_any_time, [_used(row) for row in at_any_time], fixed),
            "staged": _decided(case, epsilon, staged, at_ends, fixed),
        }
    return found


def _decided(case: Case, epsilon: float, rows: list[Row], used: Sequence[int], fixed: list[Row]) -> dict[str, Any]:
    """Samples, with those to plan on, and whether the answers are those of the fixed number of samples."""
    answers = [verdict(row.radius, _limit(row), epsilon) for row in rows]
    same = [
        (answer == CERTIFIED) == (other.radius >= epsilon)
        for answer, other in zip(answers, fixed, strict=True)
        if answer != UNDECIDED
    ]
    samples = np.array(used) + case.size.n0
    return {
        "mean": float(samples.mean()),
        "median": float(np.median(samples)),
        "fewer": (case.size.n + case.size.n0) / float(samples.mean()),
        "yes": answers.count(CERTIFIED),
        "undecided": answers.count(UNDECIDED),
        "decided": len(same),
        "same": sum(same),
    }


def _tolerance(case: Case, tolerance: float) -> dict[str, Any]:
    """What a tolerance costs, and the smallest fixed number of samples with at least the same average radius."""
    run = _again(case, f"duels-within-{tolerance:g}", Duels(), Goal(tolerance=tolerance))
    reached = Certified.of(run)
    grid = _grid(case.size.n)
    low, high = 0, len(grid)  # the radius grows with the samples, almost always
    while low < high:
        middle = (low + high) // 2
        enough = Certified.of(_fixed(case, "duels", grid[middle])).average >= reached.average
        low, high = (low, middle) if enough else (middle + 1, high)
    samples = np.array([_used(row) for row in _rows(run)])
    n = grid[low] if low < len(grid) else None
    return {
        "mean": float(samples.mean()),
        "median": float(np.median(samples)),
        "average": reached.average,
        "fixed n": n,
        "fixed average": None if n is None else Certified.of(_fixed(case, "duels", n)).average,
        "at cap": int((samples == case.size.n).sum()),
    }


def _grid(n: int) -> list[int]:
    """Numbers of samples up to n, in geometric progression.

    >>> _grid(100)[-3:]
    [56, 75, 100]
    """
    found = {round(n * 10 ** (-step / _STEPS)) for step in range(4 * _STEPS)}
    return sorted(each for each in found if each >= 10)


def _budgets(case: Case) -> dict[str, Any]:
    """A budget for all inputs, spent in two ways, and the same number of samples spread evenly."""
    each = case.size.n // 10
    evenly = Certified.of(_fixed(case, "duels", each))
    budget = len(evenly.idx) * (case.size.n0 + each)
    runs = {
        "for the average radius": _again(case, "duels-budget", Duels(), Goal(budget=budget)),
        "for certificates at the four radii": _again(case, "duels-budget-at", Duels(), Goal(_EPSILONS, budget=budget)),
    }
    rows = {"the same for each input": evenly.summary(_EPSILONS)}
    for name, run in runs.items():
        found = Certified.of(run)
        samples = np.array([_used(row) for row in _rows(run)])
        rows[name] = {
            **found.summary(_EPSILONS),
            "gap": paired(found.radii - evenly.radii),
            "mean": float(samples.mean()),
            "median": float(np.median(samples)),
        }
    return {"each": each, "rows": rows}


def _fixed(case: Case, name: str, n: int) -> Run:
    """The kept scores with a number of samples that is fixed before, and its bounds."""
    return _again(case, name, _METHODS[name][1], None, n)


def _again(case: Case, name: str, planner: Planner, goal: Goal | None, n: int | None = None) -> Run:
    """The kept scores, certified with a goal; what the cache has is not made again."""
    place = place_of(case, f"adaptive-{name}".replace(".", "_"), case.size.n0, n or case.size.n)
    place.parent.mkdir(parents=True, exist_ok=True)
    return jobs.recertify(case.run, place, planner, n0=case.size.n0, n=n or case.size.n, goal=goal)


def _rows(run: Run) -> list[Row]:
    return sorted(run.rows(), key=lambda row: row.idx)


def _used(row: Row) -> int:
    assert row.samples is not None  # noqa: S101 (sampling had a goal)
    return row.samples


def _limit(row: Row) -> float:
    return float("inf") if row.limit is None else row.limit


def shown(found: record.Found) -> str:
    """The tables."""
    case = found["case"]
    inputs = case["inputs"]
    head = ["radius", "method", "bounds", "mean samples", "median", "× fewer", "certified", "undecided, %",
            "as fixed n, % of decided"]  # fmt: skip
    rows = []
    for epsilon in map("{:g}".format, _EPSILONS):
        for name, (title, _) in _METHODS.items():
            for bounds, words in (("anytime", "at any time"), ("staged", "4 stages")):
                rows.append([epsilon, title, words, *_cells(found["targets"][name][epsilon][bounds], inputs)])
    tolerances = [_near(tolerance, each, case) for tolerance, each in found["tolerances"].items()]
    near = ["within", "mean samples", "median", "at the cap", "average radius", "fixed n", "its average radius",
            "× fewer"]  # fmt: skip
    budgets = found["budgets"]
    spent = ["samples", "mean", "median", "average radius", "− even (95 %)", "certified, %",
             *(f"at {epsilon:g}, %" for epsilon in _EPSILONS)]  # fmt: skip
    return "\n\n".join(
        [
            _TEXT,
            made_by(found),
            about(case),
            "### Is this radius certified?",
            _PUBLISHED,
            table(head, rows),
            "### How close is the radius to what infinitely many samples could give?",
            _NEAR,
            table(near, tolerances),
            "### A budget for all inputs",
            wrapped(f"{inputs} × {case['n0'] + budgets['each']} samples in all, with those to plan on. {_BUDGET}"),
            table(spent, [_spent(name, row, budgets["each"]) for name, row in budgets["rows"].items()]),
        ]
    )


def _cells(row: dict[str, Any], inputs: int) -> list[str]:
    return [
        f"{row['mean']:.0f}",
        f"{row['median']:.0f}",
        f"{row['fewer']:.1f}",
        str(row["yes"]),
        percent(row["undecided"] / inputs),
        f"{percent(row['same'] / row['decided'])} ({row['same']} of {row['decided']})" if row["decided"] else "",
    ]


def _near(tolerance: str, row: dict[str, Any], case: dict[str, Any]) -> list[str]:
    n0, n = case["n0"], row["fixed n"]
    fixed = ["more than there are", "", ""]
    if n is not None:
        fixed = [str(n), size(row["fixed average"]), f"{(n + n0) / (row['mean'] + n0):.1f}"]
    samples = [f"{row['mean']:.0f}", f"{row['median']:.0f}", str(row["at cap"])]
    return [tolerance, *samples, size(row["average"]), *fixed]


def _spent(name: str, row: dict[str, Any], each: int) -> list[str]:
    samples = [f"{row['mean']:.0f}", f"{row['median']:.0f}"] if "mean" in row else [str(each), str(each)]
    gap = difference(row["gap"]) if "gap" in row else ""
    return [name, *samples, size(row["average"]), gap, percent(row["certified"]), *map(percent, row["at"].values())]


_TEXT = """\
Most inputs need few of the samples that a fixed number spends on each: a hopeless one is seen to be hopeless soon. Here
sampling for an input stops when its question is answered, with bounds that hold at every moment at once
([theory.md](theory.md)), and after n samples at the latest. α = β = 0.001: a false *certified* has probability at most
α, and a false *cannot be certified* at most β."""

_PUBLISHED = """\
Each radius is a question of its own, on the same samples of the same inputs. *Samples* count those to plan on. *As
fixed n* is the share of the decided inputs whose answer is that of the same method with all n samples and bounds for
that n. *4 stages* are those of Horváth et al. (2022): Clopper and Pearson's bound after n/1000, n/100, n/10 and n
samples, which share the risk. Published adaptive methods report 10 to 20 × fewer samples for a yes or no at one radius,
for votes: confidence sequences (arXiv 2406.17830), e-processes (arXiv 2606.27694), stages (Horváth et al. 2022)."""

_NEAR = """\
Duels. *Fixed n* is the smallest number of samples, among eight in each power of ten, whose average radius is at least
that of the row; *× fewer* compares the samples of the two, with those to plan on. A tolerance asks for more than a
radius: what more samples could give must be bounded too, and both bounds hold at every moment, so they are wider than
one bound for one n. And inputs with large radii, which count most in the average, need the most samples to be close to
their limit. So a tolerance says how good a radius is, and saves few samples at equal average radius, or none."""

_BUDGET = (
    "Duels. The first row gives every input the same number, with bounds for that number; the others spend the samples "
    "where they are expected to gain most, with bounds that hold at every moment. Differences are paired over inputs."
)


if __name__ == "__main__":
    sys.exit(record.main(__file__, __doc__, measure))
