"""Simplex mass: certified accuracy for masses from 0.5 to 10 (a figure of the paper), on a network of constant 5.

    python experiments/simplex_mass.py

Each mass r has its own noise, σ = r/(5√π), as in the paper.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lab import figures, record
from lab.cases import sandwich
from lab.methods import certified
from lab.page import made_by, percent, size, table, wrapped
from lab.settings import Lab
from lvmrs import Lipschitz

__all__ = ["TITLE", "brief", "drawn", "measure", "shown"]

TITLE = "Simplex mass"
_MASSES = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
_EPSILONS = tuple(float(epsilon) for epsilon in np.linspace(0, 1.5, 31))


def measure(lab: Lab) -> record.Found:
    """R1 with the paper's bound and the ramp radius, for each mass."""
    found: dict[str, Any] = {}
    for mass in lab.some(_MASSES):
        case = sandwich(lab, 5.0, mass / (5 * np.pi**0.5))
        rows = {key: certified(case, f"mass-{mass:g}-{key}", Lipschitz(key, mass=mass)) for key in ("both", "ramp")}
        found[f"{mass:g}"] = {**case.facts, "rows": {key: each.summary(_EPSILONS) for key, each in rows.items()}}
    return {"masses": found}


def drawn(found: record.Found) -> dict[str, Figure]:
    """Certified accuracy against the radius, for R1."""
    curves = {
        f"r = {mass}": (_EPSILONS, [100 * share for share in each["rows"]["both"]["at"].values()])
        for mass, each in found["masses"].items()
    }
    return {"simplex-mass": figures.lines(curves, "radius", "certified accuracy (%), R1")}


def brief(found: record.Found) -> str:
    """The section of the first page: the figure."""
    text = (
        "Sparsemax of mass r has scores that sum to r. With R1, a larger mass permits more noise and larger radii, "
        "until noise hides the inputs from the network."
    )
    return f"{wrapped(text)}\n\n{_best(found)}\n\n![simplex mass](results/simplex-mass.svg)"


def shown(found: record.Found) -> str:
    """The table and its figure."""
    rows = []
    for mass, each in found["masses"].items():
        both, ramp = each["rows"]["both"], each["rows"]["ramp"]
        near = [percent(both["at"][epsilon]) for epsilon in ("0.25", "0.5", "1")]
        cells = [mass, f"{each['sigma']:.3f}", percent(each["noisy accuracy"]), size(both["average"]), *near]
        rows.append([*cells, size(ramp["average"])])
    head = ["mass r", "σ", "right under noise, %", "R1: average radius", "at 0.25, %", "at 0.5, %", "at 1, %",
            "ramp: average radius"]  # fmt: skip
    first = next(iter(found["masses"].values()))
    about = (
        f"{first['title']}: {first['inputs']} test inputs, n0 = {first['n0']}, n = {first['n']}, "
        f"α = {first['alpha']:g}, seed {first['seed']}; sparsemax at temperature 1 with betting bounds."
    )
    return "\n\n".join(
        [_TEXT, made_by(found), about, table(head, rows), _best(found), "![simplex mass](simplex-mass.svg)"]
    )


def _best(found: record.Found) -> str:
    """Which mass is best at which radius, for R1."""
    told = []
    for epsilon in ("0", "0.25", "0.5", "1"):
        shares = {mass: each["rows"]["both"]["at"][epsilon] for mass, each in found["masses"].items()}
        best = max(shares.values())
        masses = " and ".join(mass for mass, share in shares.items() if share == best)
        told.append(f"at {epsilon} r = {masses} ({percent(best)} %)" if best > 0 else f"at {epsilon} none")
    return wrapped(f"The largest certified accuracy with R1: {', '.join(told)}.")


_TEXT = """\
A larger mass goes with more noise, with which larger radii are possible, until the noise hides the inputs from the
network. The mass itself is a temperature in other words (sparsemax of
mass r is r times sparsemax at temperature r): what is chosen here is the noise."""


if __name__ == "__main__":
    sys.exit(record.main(__file__, __doc__, measure))
