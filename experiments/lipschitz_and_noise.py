"""Lipschitz constant, noise, and both (Table 1 of the paper), on a network of known constant 5.

    python experiments/lipschitz_and_noise.py --cifar10 cifar10.npz

The scores have mass 3, and σ = 3/(5√π), where constant and noise help each other most. The ramp radius and soft duels
are ours.
"""

from __future__ import annotations

import sys
from typing import Any

from lab import commands, record
from lab.cases import Case, sandwich_families
from lab.methods import Certified, certified, gap, swapped
from lab.page import about, difference, made_by, percent, size, table, wrapped
from lab.published import LIPSCHITZ
from lab.settings import Lab
from lvmrs import Duels, Lipschitz, Planner, Run, Votes
from lvmrs.planners.votes import sign_test

__all__ = ["TITLE", "brief", "measure", "shown"]

TITLE = "Lipschitz constant, noise, and both"
_EPSILONS = (0.14, 0.19, 0.25, 0.28, 0.42, 0.5)
_TITLES = {
    "deterministic": "Lipschitz constant alone",
    "noise": "noise alone, R1",
    "both": "both, R1 (the paper's new bound)",
    "ramp": "ramp radius",
    "votes": "votes, R2: noise alone",
    "duels": "duels: noise alone",
    "soft-duels-ramp": "soft duels with the ramp radius",
}
_ORDER = (("deterministic", "both"), ("noise", "both"), ("both", "ramp"), ("ramp", "soft-duels-ramp"))


def _planners() -> dict[str, Planner]:
    return {
        "noise": Lipschitz("noise", mass=3.0),
        "both": Lipschitz("both", mass=3.0),
        "ramp": Lipschitz("ramp", mass=3.0),
        "votes": Votes(),
        "duels": Duels(),
        "soft-duels-ramp": Duels("chosen"),
    }


def measure(lab: Lab) -> record.Found:
    """All procedures on digits and, if it is given, CIFAR-10."""
    return {"cases": {name: _case(case) for name, case in sandwich_families(lab).items()}}


def _case(case: Case) -> dict[str, Any]:
    found = {"deterministic": _deterministic(case)}
    found |= {f"{name}": certified(case, f"mass-3-{name}", planner) for name, planner in _planners().items()}
    return {
        **case.facts,
        "rows": {name: each.summary(_EPSILONS) for name, each in found.items()},
        "gaps": {f"{a} to {b}": gap(found[a], found[b]) for a, b in _ORDER},
        "at every radius": {
            f"{a} to {b}": {f"{epsilon:g}": swapped(found[a], found[b], epsilon) for epsilon in _EPSILONS}
            for a, b in _ORDER
        },
    }


def _deterministic(case: Case) -> Certified:
    assert case.network is not None  # noqa: S101
    selection = case.run.manifest.selection
    words = ["--model", f"trained:{case.network.file(case.lab)}", "--data", case.data, "--skip", str(selection.skip)]
    words += [] if selection.max is None else ["--max", str(selection.max)]
    rows = Run(
        commands.certified(case.lab, f"{case.name}-deterministic", [*words, "--method", "lipschitz-deterministic"])
    )
    return Certified.of(rows)


def brief(found: record.Found) -> str:
    """The section of the first page: the average radii of the sandwich networks."""
    text = (
        "A sandwich network has its Lipschitz constant by construction. Its margin is a certificate without noise; "
        "noise alone is another; R1 and the ramp radius use both, and soft duels use the ramp radius. Average radius:"
    )
    cases = found["cases"].values()
    rows = [[title, *(size(case["rows"][key]["average"]) for case in cases)] for key, title in _TITLES.items()]
    return f"{wrapped(text)}\n\n{table(['method', *(case['title'] for case in cases)], rows)}"


def shown(found: record.Found) -> str:
    """The tables."""
    parts = [_TEXT, made_by(found)]
    for name, case in found["cases"].items():
        parts += [f"## {case['title']}", about(case)]
        head = ["certified accuracy, %", *(f"{epsilon:g}" for epsilon in _EPSILONS), "average radius", "s an input"]
        rows = []
        for key, title in _TITLES.items():
            row = case["rows"][key]
            sampling = 0.0 if key == "deterministic" else case["seconds an input"]
            seconds = f"{row['seconds'] + sampling:.3f}"
            rows.append([title, *map(percent, row["at"].values()), size(row["average"]), seconds])
            if name == "cifar10" and key in LIPSCHITZ:
                rows.append([f"paper: {title}", *(f"{share:g}" for share in LIPSCHITZ[key].values()), "", ""])
        parts.append(table(head, rows))
        parts.append("\n".join(f"- {_verdict(pair, case)}" for pair in case["gaps"]))
    return "\n\n".join(parts)


def _verdict(pair: str, case: dict[str, Any]) -> str:
    one, _, other = pair.partition(" to ")
    told = [
        f"{epsilon}: +{gained} −{lost} ({sign_test(gained, lost):.2g})"
        for epsilon, (gained, lost) in case["at every radius"][pair].items()
    ]
    return f"{_TITLES[other]} − {_TITLES[one]}: {difference(case['gaps'][pair])}; inputs at {', '.join(told)}"


_TEXT = """\
The network has the Lipschitz constant 5 by its construction. All rows but the first smooth its scores: sparsemax with
mass 3 at temperature 1 for R1 and the ramp radius (the paper's setting; mass 3 is temperature 3 in other words), votes
or duels where the row says so. The paper's network is Sandwich Small too, certified on CIFAR-10 with n = 10⁴; it gives
.004, .9 and .9 seconds an input for its three rows, on another machine. Below each table are paired differences of the
average radius with intervals at 95 %, and for each radius how many inputs are certified by the first method alone (+)
and by the second alone (−), with the p of the exact sign test. R1 is linear in the two bounds, so where a network is
sure it gives far less than R2 and the ramp radius; where the noise costs the network accuracy, R1 by both can be below
the constant alone, which needs no noise."""


if __name__ == "__main__":
    sys.exit(record.main(__file__, __doc__, measure))
