"""Where the gain comes from: the same scores certified step by step, from Cohen to duels.

    python experiments/decomposition.py --cifar10 cifar10.npz --small-l2 wk_cifar_small.pth

The steps: the radius, the union over classes, soft maps, their bound, how they are chosen, duels, and the ramp radius
where a Lipschitz constant is known. Every difference is paired: the same noise of the same inputs.
"""

from __future__ import annotations

import sys
from typing import Any

from matplotlib.figure import Figure

from lab import figures, record
from lab.cases import Case, families, sandwich_families
from lab.methods import PUBLISHED, STEPS, TITLES, certified, gap, planners_of, swapped, titles_of
from lab.page import about, difference, made_by, percent, size, table, wrapped
from lab.settings import Lab
from lab.unsound import published
from lvmrs.planners.votes import sign_test

__all__ = ["TITLE", "brief", "drawn", "measure", "shown"]

TITLE = "Where the gain comes from"
_EPSILONS = (0.25, 0.5, 1.0)
# The steps of the figure.
_SHORT = {
    "cohen": "Cohen",
    "votes-union": "R2, risk shared",
    "votes": "R2, risk once",
    "paper": "soft maps, Bernstein",
    "paper-betting": "…, betting",
    "soft": "…, predicted for n",
    "lvm": "LVM",
    "duels": "duels",
    "soft-duels-ramp": "soft duels, ramp",
}


def measure(lab: Lab) -> record.Found:
    """The steps for every case, at both sizes of sample."""
    cases = [case for family in families(lab).values() for case in family]
    cases += sandwich_families(lab).values()
    return {"cases": {case.name: {**case.facts, "sizes": _sizes(case)} for case in cases}}


def _sizes(case: Case) -> list[dict[str, Any]]:
    planners, found = planners_of(case), []
    for n0, n in dict.fromkeys([*case.lab.sizes.few, (case.size.n0, case.size.n)]):
        if n0 > case.size.n0 or n > case.size.n:
            continue
        steps = {name: certified(case, name, planner, n0, n) for name, planner in planners.items()}
        steps[PUBLISHED] = published(case, n0, n)
        rows = {}
        for name in (name for name in TITLES if name in steps):
            row = steps[name].summary(_EPSILONS)
            row["to votes"] = gap(steps["votes"], steps[name])
            row["gained and lost"] = swapped(steps["votes"], steps[name])
            row["steps"] = {one: gap(steps[one], steps[name]) for one, other, _ in STEPS if other == name}
            rows[name] = row
        found.append({"n0": n0, "n": n, "rows": rows})
    return found


def drawn(found: record.Found) -> dict[str, Figure]:
    """Average radius at each step, as a multiple of that of votes with R2, for each case at its larger n."""
    ratios = {}
    for name, case in found["cases"].items():
        rows = case["sizes"][-1]["rows"]
        first = rows["votes"]["average"]
        if first > 0:
            ratios[name] = {_SHORT[key]: rows[key]["average"] / first for key in _SHORT if key in rows}
    return {"steps": figures.ladder(ratios, list(_SHORT.values()), "average radius / votes with R2")}


def brief(found: record.Found) -> str:
    """The section of the first page: the figure."""
    text = (
        f"The same kept scores of {len(found['cases'])} classifiers are certified step by step, from Cohen's method to "
        "LVM-RS and to duels. The figure has the average radius of each step as a multiple of that of votes with R2, "
        "at the larger n of each classifier. A line that rises between two steps means that the second step helps."
    )
    return f"{wrapped(text)}\n\n![average radius at each step](results/steps.svg)"


def shown(found: record.Found) -> str:
    """The tables."""
    parts = [_TEXT, made_by(found), "![average radius at each step](steps.svg)"]
    for case in found["cases"].values():
        titles = titles_of(constant=case["lipschitz"] is not None)
        parts += [f"## {case['title']}, σ = {case['sigma']:.3g}", about(case)]
        for sizes in case["sizes"]:
            head = [f"n0 = {sizes['n0']}, n = {sizes['n']}", "average radius", "certified, %",
                    *(f"at {epsilon:g}, %" for epsilon in _EPSILONS), "− votes, R2 (95 %)",
                    "against votes: gained, lost (p)", "− an earlier step (95 %)", "votes chosen"]  # fmt: skip
            parts.append(table(head, [_row(titles[name], name, row) for name, row in sizes["rows"].items()]))
    return "\n\n".join(parts)


def _row(title: str, name: str, row: dict[str, Any]) -> list[str]:
    gained, lost = row["gained and lost"]
    before = next((one for one in row["steps"] if one != "votes"), None)
    chooses = name in ("paper-union", "paper", "paper-betting", "lvm", PUBLISHED)
    return [
        title,
        size(row["average"]),
        percent(row["certified"]),
        *map(percent, row["at"].values()),
        "" if name == "votes" else difference(row["to votes"]),
        f"+{gained}, −{lost} ({sign_test(gained, lost):.2g})" if gained or lost else "",
        "" if before is None else f"{difference(row['steps'][before])} to {_SHORT.get(before, TITLES[before])}",
        f"{row['maps'].get('hardmax', 0)} of {sum(row['maps'].values())}" if chooses else "",
    ]


_TEXT = """\
The same kept scores are certified step by step. Average radius counts 0 where the answer is wrong or nothing is
certified. The differences are paired over the inputs, with Student's interval; p is that of the exact sign test.
*Risk shared* means that each class is bounded at α/c, which no certificate needs ([theory.md](../theory.md)). *Votes
chosen* counts certificates whose map is the vote. The rule of the paper's published code takes, for each input, the
largest radius of votes with R2 and 204 soft maps on the certification sample itself. The sample that chooses also
proves, so its certificates do not hold at risk α; the row shows what its search would be worth."""


if __name__ == "__main__":
    sys.exit(record.main(__file__, __doc__, measure))
