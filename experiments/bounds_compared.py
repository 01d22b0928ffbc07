"""Bernstein against Hoeffding (a figure of the paper), and betting, and Clopper–Pearson for votes: corrected radii.

python experiments/bounds_compared.py --cifar10 cifar10.npz
"""

from __future__ import annotations

import sys
from typing import Any

from matplotlib.figure import Figure

from lab import figures, record
from lab.cases import Case, families
from lab.methods import Certified, certified, gap
from lab.page import about, difference, made_by, percent, size, table, wrapped
from lab.settings import Lab
from lvmrs import Fixed

__all__ = ["TITLE", "brief", "drawn", "measure", "shown"]

TITLE = "Bounds compared"
_BOUNDS = ("hoeffding", "bernstein", "betting")
_MAPS = {"votes": ("hardmax", (*_BOUNDS, "clopper_pearson")), "softmax": ("softmax", _BOUNDS),
         "sparsemax": ("sparsemax", _BOUNDS)}  # fmt: skip


def measure(lab: Lab) -> record.Found:
    """Every bound with every map at temperature 1 and R2, for one network on each data set."""
    known = families(lab)
    chosen = [known[name][-1] for name in ("digits", "cifar10", "imagenet") if name in known]
    return {"cases": {case.name: _case(case) for case in chosen}}


def _case(case: Case) -> dict[str, Any]:
    found: dict[str, dict[str, Certified]] = {
        title: {bound: certified(case, f"{name}-{bound}", Fixed(name, form="r2", bounds=(bound,))) for bound in bounds}
        for title, (name, bounds) in _MAPS.items()
    }
    return {
        **case.facts,
        "maps": {
            title: {
                bound: {
                    **one.summary(),
                    "to bernstein": gap(each["bernstein"], one),
                    "not below bernstein": float((one.radii >= each["bernstein"].radii).mean()),
                }
                for bound, one in each.items()
            }
            for title, each in found.items()
        },
        "radii": {bound: [round(value, 4) for value in found["softmax"][bound].radius] for bound in _BOUNDS},
    }


def drawn(found: record.Found) -> dict[str, Figure]:
    """Radii of each input by other bounds against that by Hoeffding's."""
    made = {}
    for name, case in found["cases"].items():
        radii = case["radii"]
        pairs = {bound: (radii["hoeffding"], radii[bound]) for bound in ("bernstein", "betting")}
        made[f"bounds-{name}"] = figures.points(pairs, "radius by Hoeffding's bound", "radius by the other bound")
    return made


def brief(found: record.Found) -> str:
    """The section of the first page: a figure."""
    name = "cifar10-1" if "cifar10-1" in found["cases"] else next(iter(found["cases"]))
    case = found["cases"][name]
    text = (
        "The same scores, map and risk, with several bounds on a mean: one point for each input, softmax, "
        f"{case['title']}, σ = {case['sigma']:g}. Points above the diagonal are inputs for which the bound is narrower "
        "than Hoeffding's. For votes, Clopper and Pearson's bound is exact."
    )
    return f"{wrapped(text)}\n\n![radii by bound](results/bounds-{name}.svg)"


def shown(found: record.Found) -> str:
    """The tables and figures."""
    parts = [_TEXT, made_by(found)]
    head = ["map", "bound", "average radius", "certified, %", "− Bernstein (95 %)", "not below Bernstein, %"]
    for name, case in found["cases"].items():
        parts += [f"## {case['title']}, σ = {case['sigma']:g}", about(case)]
        rows = [
            [title, bound.replace("_", "–"), size(row["average"]), percent(row["certified"]),
             difference(row["to bernstein"]), percent(row["not below bernstein"])]
            for title, each in case["maps"].items()
            for bound, row in each.items()
        ]  # fmt: skip
        parts += [table(head, rows), f"![radii by bound](bounds-{name}.svg)"]
    return "\n\n".join(parts)


_TEXT = """\
Every bound is used with the same map, temperature 1 and R2 (or R3 where its forecast is larger), at the same risk, on
the same scores. The figures show softmax, one point for each input."""


if __name__ == "__main__":
    sys.exit(record.main(__file__, __doc__, measure))
