"""How few samples a question needs: sampling that stops early, against a number of samples that is fixed before.

    python experiments/adaptive_sampling.py --cifar10 cifar10.npz

The scores of all samples are kept once. Then each goal takes of them what it needs: is a radius certified or not, how
close is the radius to what infinitely many samples could give, and what does a budget for all inputs buy.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab import record
from lab.cases import Case, adaptive
from lab.methods import Certified, paired, place_of
from lab.page import about, difference, made_by, percent, size, table, wrapped
from lab.settings import Lab
from lvmrs import Cohen, Duels, Planner, Run, Terms, Votes, runs
from lvmrs.kernel.bounds.clopper_pearson import stages
from lvmrs.kernel.method import CERTIFIED, UNDECIDED, Goal, verdict
from lvmrs.planners import Anytime
from lvmrs.planners.allocation import steps
from lvmrs.record import Row
from lvmrs.record.scores import KeptScores
from lvmrs.registry import noise_named
from lvmrs.runs.recertify import KeptSource

__all__ = ["EVENLY", "PLANNED", "RIGHT", "TITLE", "brief", "measure", "shown"]

TITLE = "As few samples as the question needs"
EVENLY = "the same for each input"
"""The row of samples that are spread evenly."""
_WITH_LABELS = "{}, on right answers"
RIGHT = _WITH_LABELS.format("the same for each")
"""The row of samples that are spread evenly on right answers."""
PLANNED = _WITH_LABELS.format("planned for the average radius")
"""The row of a budget for a data set with labels."""
_EPSILONS = (0.25, 0.5, 0.75, 1.0)
_TOLERANCES = (0.2, 0.1, 0.05)
_METHODS: dict[str, tuple[str, Planner]] = {
    "duels": ("duels", Duels()),
    "votes": ("votes, R2", Votes()),
    "cohen": ("votes, R3 (Cohen)", Cohen()),
}
_STEPS = 8  # numbers of samples that are tried in each power of ten
_N0 = 64  # samples to plan on where sampling stops at a look, as the command line has it
_REFERENCES = (8, 4, 3, 0)  # the fixed numbers of samples that budgets are compared with: so many steps below the most


def measure(lab: Lab) -> record.Found:
    """One network: targets, tolerances and budgets."""
    case = adaptive(lab)
    return {
        "case": case.facts,
        "targets": {name: _targets(case, name) for name in _METHODS},
        "tolerances": {f"{tolerance:g}": _tolerance(case, tolerance) for tolerance in _TOLERANCES},
        "budgets": _budgets(case),
        "savings": _savings(case),
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
    samples = np.array(used) + _n0(case)
    return {
        "mean": float(samples.mean()),
        "median": float(np.median(samples)),
        "fewer": (case.size.n + _n0(case)) / float(samples.mean()),
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
    radii = np.stack([Certified.of(_fixed(case, "duels", n)).radii for n in grid])
    enough = [(n, average) for n, average in zip(grid, radii.mean(axis=1).tolist(), strict=True)
              if average >= reached.average]  # fmt: skip
    samples = np.array([_used(row) for row in _rows(run)])
    n, average = enough[0] if enough else (None, None)
    return {
        "mean": float(samples.mean()),
        "median": float(np.median(samples)),
        "average": reached.average,
        "fixed n": n,
        "fixed average": average,
        "at cap": int((samples == case.size.n).sum()),
        "hindsight": _with_hindsight(grid, radii, reached.average),
    }


def _with_hindsight(grid: Sequence[int], radii: NDArray[np.float64], wanted: float) -> float | None:
    """The fewest samples an input, on average, with which this average radius could have been reached.

    Each input may have another number of samples, or none, chosen by who knows all radii beforehand: no rule can do
    with fewer. What each input gains is bounded by a concave curve, and samples go where they gain most.

    Args:
        grid: the numbers of samples that are possible, in ascending order.
        radii: the radius of each input with each of these numbers (numbers, inputs).
        wanted: the average radius.

    Returns:
        The average number of samples; None if the radius cannot be reached.

    >>> _with_hindsight([10, 100], np.array([[0.5, 0.0], [0.6, 0.4]]), 0.45)
    55.0
    """
    every = [step for curve in radii.T.tolist() for step in steps([0, *grid], [0.0, *curve])]
    missing, spent = wanted * radii.shape[1], 0.0
    for gain, samples in sorted(every, reverse=True):
        if missing <= 0 or gain <= 0:
            break
        spent += min(float(samples), missing / gain)
        missing -= gain * samples
    return spent / radii.shape[1] if missing <= 1e-9 else None


def _grid(n: int) -> list[int]:
    """Numbers of samples up to n, in geometric progression.

    >>> _grid(100)[-3:]
    [56, 75, 100]
    """
    found = {round(n * 10 ** (-step / _STEPS)) for step in range(4 * _STEPS)}
    return sorted(each for each in found if each >= 10)


def _budgets(case: Case) -> dict[str, Any]:
    """A budget for all inputs, spent in several ways, and the same number of samples spread evenly."""
    each, inputs = case.size.n // 10, case.size.inputs
    evenly = Certified.of(_fixed(case, "duels", each))
    total = inputs * (_n0(case) + each)
    rows = {EVENLY: evenly.summary(_EPSILONS)}
    right = sum(row.top == row.label for row in _rows(_fixed(case, "duels", each)))
    more = min(case.size.n, inputs * each // max(1, right))
    ways = {
        RIGHT: [replace(row, samples=more if row.top == row.label else 0)
                                                    for row in _rows(_fixed(case, "duels", more))],
        "planned for the average radius": _planned(case, total, labelled=False),
        PLANNED: _planned(case, total, labelled=True),
    }  # fmt: skip
    for name, way in ways.items():
        found, samples = Certified.of(way), np.array([_used(row) for row in way])
        rows[name] = {
            **found.summary(_EPSILONS),
            "gap": paired(found.radii - evenly.radii),
            "mean": float(samples.mean()),
            "median": float(np.median(samples)),
        }
    return {"each": each, "rows": rows}


def _savings(case: Case) -> list[dict[str, Any]]:
    """The smallest budgets with which the average radius is at least that of a fixed number of samples."""
    grid = _grid(case.size.n)
    fixed = [Certified.of(_fixed(case, "duels", n)).radii for n in grid]
    found = []
    for below in _REFERENCES:
        at = len(grid) - 1 - below
        wanted = float(fixed[at].mean())
        row = {"n": grid[at], "average": wanted, "hindsight": _with_hindsight(grid, np.stack(fixed), wanted)}
        for name, labelled in (("budget", False), ("budget with labels", True)):
            row[name] = _smallest(case, wanted, grid[at], labelled=labelled)
        found.append(row)
    return found


def _smallest(case: Case, wanted: float, most: int, *, labelled: bool) -> float | None:
    """The fewest samples an input, to a fiftieth, with which a planned budget has this average radius."""
    low, high = float(_n0(case, planned=True) + 40), float(most)
    if _average(case, high, labelled=labelled) < wanted:
        return None
    while high > 1.02 * low:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if _average(case, middle, labelled=labelled) >= wanted else (middle, high)
    return high


def _average(case: Case, each: float, *, labelled: bool) -> float:
    return Certified.of(_planned(case, round(each * case.size.inputs), labelled=labelled)).average


def _planned(case: Case, budget: int, *, labelled: bool) -> list[Row]:
    """The kept scores, with a budget for the average radius."""
    source, n0 = case.run, _n0(case, planned=True)
    known = replace(source.manifest.terms, n0=n0, n=case.size.n, goal=Goal(budget=budget))
    terms = Terms(known.sigma or 0.0, known.alpha or 0.0, case.size.n, noise=noise_named(known.noise),
                  dimensions=known.dimensions or 0)  # fmt: skip
    rows = sorted(source.rows(), key=lambda row: row.idx)
    return list(KeptSource(KeptScores.of(source), Duels(), terms, known).rows(rows, labelled=labelled))


def _n0(case: Case, *, planned: bool = False) -> int:
    """Samples to plan on."""
    return case.size.n0 if planned else min(_N0, case.size.n0)


def _fixed(case: Case, name: str, n: int) -> Run:
    """The kept scores with a number of samples that is fixed before, and its bounds."""
    return _again(case, name, _METHODS[name][1], None, n)


def _again(case: Case, name: str, planner: Planner, goal: Goal | None, n: int | None = None) -> Run:
    """The kept scores, certified with a goal; what the cache has is not made again."""
    n0 = _n0(case)
    place = place_of(case, f"adaptive-{name}".replace(".", "_"), n0, n or case.size.n)
    place.parent.mkdir(parents=True, exist_ok=True)
    return runs.recertify(case.run, place, planner, n0=n0, n=n or case.size.n, goal=goal)


def _rows(run: Run) -> list[Row]:
    return sorted(run.rows(), key=lambda row: row.idx)


def _used(row: Row) -> int:
    assert row.samples is not None  # noqa: S101 (sampling had a goal)
    return row.samples


def _limit(row: Row) -> float:
    return float("inf") if row.limit is None else row.limit


def brief(found: record.Found) -> str:
    """The section of the first page: what a yes or no at one radius costs by duels."""
    text = (
        "Sampling for an input stops when its question is answered, with bounds that hold at every moment at once "
        f"([theory.md](theory.md)). Duels, is this radius certified? With at most n = {found['case']['n']} samples:"
    )
    head = ["radius", "mean samples", "median", "× fewer", "certified", "undecided, %"]
    inputs = found["case"]["inputs"]
    rows = [[epsilon, *_cells(each["anytime"], inputs)[:-1]] for epsilon, each in found["targets"]["duels"].items()]
    return f"{wrapped(text)}\n\n{table(head, rows)}"


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
    n0 = min(_N0, case["n0"])
    tolerances = [_near(tolerance, each, n0) for tolerance, each in found["tolerances"].items()]
    near = ["within", "mean samples", "median", "at the cap", "average radius", "fixed n", "its average radius",
            "× fewer", "× fewer, with hindsight"]  # fmt: skip
    budgets = found["budgets"]
    spent = ["samples", "mean", "median", "average radius", "− even (95 %)", "certified, %",
             *(f"at {epsilon:g}, %" for epsilon in _EPSILONS)]  # fmt: skip
    return "\n\n".join(
        [
            _TEXT,
            made_by(found),
            about(case),
            "## Is this radius certified?",
            _PUBLISHED,
            table(head, rows),
            "## How close is the radius to what infinitely many samples could give?",
            _NEAR,
            table(near, tolerances),
            "## A budget for all inputs",
            wrapped(f"{inputs} × {n0 + budgets['each']} samples in all, with those to plan on. {_BUDGET}"),
            table(spent, [_spent(name, row, budgets["each"]) for name, row in budgets["rows"].items()]),
            _SAVED,
            table(
                [
                    "fixed n",
                    "average radius",
                    "budget: samples an input",
                    "× fewer",
                    "with labels",
                    "× fewer",
                    "× fewer, with hindsight",
                ],
                [_saved(row, n0) for row in found["savings"]],
            ),
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


def _near(tolerance: str, row: dict[str, Any], n0: int) -> list[str]:
    n = row["fixed n"]
    fixed = ["more than there are", "", "", ""]
    if n is not None:
        known = (row["mean"], row["hindsight"])
        fewer = ["" if samples is None else f"{(n + n0) / (samples + n0):.1f}" for samples in known]
        fixed = [str(n), size(row["fixed average"]), *fewer]
    samples = [f"{row['mean']:.0f}", f"{row['median']:.0f}", str(row["at cap"])]
    return [tolerance, *samples, size(row["average"]), *fixed]


def _spent(name: str, row: dict[str, Any], each: int) -> list[str]:
    samples = [f"{row['mean']:.0f}", f"{row['median']:.0f}"] if "mean" in row else [str(each), str(each)]
    gap = difference(row["gap"]) if "gap" in row else ""
    return [name, *samples, size(row["average"]), gap, percent(row["certified"]), *map(percent, row["at"].values())]


def _saved(row: dict[str, Any], n0: int) -> list[str]:
    cells = [str(row["n"]), size(row["average"])]
    for name in ("budget", "budget with labels"):
        each = row[name]
        cells += ["more", ""] if each is None else [f"{each:.0f}", f"{(row['n'] + n0) / each:.1f}"]
    best = row["hindsight"]
    return [*cells, "" if best is None else f"{(row['n'] + n0) / (best + n0):.1f}"]


_TEXT = """\
Most inputs need few of the samples that a fixed number spends on each: a hopeless one is seen to be hopeless soon. Here
sampling for an input stops when its question is answered, with bounds that hold at every moment at once
([theory.md](../theory.md)), and after n samples at the latest; a planned budget has bounds for numbers that are settled
before. α = β = 0.001: a false *certified* has probability at most α, and a false *cannot be certified* at most β.
Targets and tolerances are planned on the first 64 of the n0 samples, planned budgets on all of them."""

_PUBLISHED = """\
Each radius is a question of its own, on the same samples of the same inputs. *Samples* count those to plan on.
*Certified* counts inputs whatever their label. *As fixed n* is the share of the decided inputs whose answer is that of
the same method with all n samples and bounds for that n. *4 stages* are those of Horváth et al. (2022): Clopper and
Pearson's bound after n/1000, n/100, n/10 and n samples, which share the risk. Published adaptive methods report 10 to
20 × fewer samples for a yes or no at one radius, for votes: confidence sequences (arXiv 2406.17830), e-processes (arXiv
2606.27694), stages (Horváth et al. 2022)."""

_NEAR = """\
Duels. *Fixed n* is the smallest number of samples, among eight in each power of ten, whose average radius is at least
that of the row; *× fewer* compares the samples of the two, with those to plan on. *With hindsight* gives each input the
number of samples, among the same ones, that is best for the average, chosen with all labels known, and all radii
that all numbers of samples would certify: no rule can save more.

A tolerance says how good each radius is. It is no good way to save samples at equal average radius. With
n samples, radius i stays about aᵢ/√n below its limit, and aᵢ grows with the radius. To bring all inputs within τ of
their limits takes mean(a²)/τ² samples an input; a fixed n with the same average distance takes mean(a)²/τ², which is
never more. What a tolerance saves is on inputs that cannot be certified; what it spends more is on those of large
radius, and on bounds that hold at every moment and on both sides. A budget, which asks no input to be that near, can
save some: the next tables."""

_BUDGET = (
    "Duels. The first row gives every input the same number. *On right answers* means that labels are known, as for a "
    "data set they are: an input whose plan is for another class than its label cannot count, and gets 32 samples at "
    "most. *Planned* numbers are settled on the samples to plan on, so that bounds are those of a number that is known "
    "before. *Mean* and *median* are of samples to prove on; shares count right answers. Differences are paired "
    "over inputs."
)
_SAVED = """\
How many samples does a planned budget need, with those to plan on, for the average radius of a fixed number? The budget
is the smallest one, to 2 %. *With hindsight* is as above."""


if __name__ == "__main__":
    sys.exit(record.main(__file__, __doc__, measure))
