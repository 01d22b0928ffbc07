"""Variance and Lipschitz constant: the measured variance of the scores against the Gaussian–Poincaré bound σ²L².

python experiments/variance_and_constant.py
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from lab import figures, record
from lab.cases import Case, sandwich
from lab.page import made_by, percent, table, wrapped
from lab.settings import Lab
from lvmrs.kernel.maps import Softmax, Sparsemax
from lvmrs.record.scores import KeptScores

__all__ = ["TITLE", "brief", "drawn", "measure", "shown"]

TITLE = "Variance and Lipschitz constant"
_CONSTANTS = (1.0, 2.0, 5.0, 10.0)
_SIGMA = 0.4
_MAPS = {"softmax": Softmax(1.0, 1.0), "sparsemax": Sparsemax(1.0, 1.0)}


def measure(lab: Lab) -> record.Found:
    """Sandwich networks of several constants on digits, under the same noise."""
    return {"constants": {f"{gamma:g}": _row(sandwich(lab, gamma, _SIGMA), gamma) for gamma in lab.some(_CONSTANTS)}}


def _row(case: Case, gamma: float) -> dict[str, Any]:
    kept, found = KeptScores.of(case.run), {}
    for name, map_ in _MAPS.items():
        variances = []
        for row in case.run.rows():
            scores = map_.apply(torch.cat(list(kept.logits(row.idx, "certification")))).double()
            variances.append(float(scores.var(dim=0).max()))
        bound = (case.sigma * float(map_.slopes(gamma).one)) ** 2
        found[name] = {"mean": float(np.mean(variances)), "largest": max(variances), "bound": bound}
    return {**case.facts, "maps": found}


def drawn(found: record.Found) -> dict[str, Figure]:
    """Largest variance and its bound against the constant."""
    constants = [float(gamma) for gamma in found["constants"]]
    curves = {}
    for name in _MAPS:
        each = [row["maps"][name] for row in found["constants"].values()]
        curves[f"{name}, measured"] = (constants, [row["largest"] for row in each])
        curves[f"{name}, bound"] = (constants, [min(row["bound"], 0.25) for row in each])
    dashed = [name for name in curves if name.endswith("bound")]
    return {
        "variance": figures.lines(curves, "Lipschitz constant", "largest variance of a score", log=True, level=dashed)
    }


def brief(found: record.Found) -> str:
    """The section of the first page: the figure."""
    shares = [each["largest"] / each["bound"] for row in found["constants"].values() for each in row["maps"].values()]
    text = (
        "A score that is L-Lipschitz has a variance of at most σ²L² under Gaussian noise, which is the link between "
        "the two in LVM-RS. The largest variance measured was "
        f"{percent(min(shares))} to {percent(max(shares))} % of that bound."
    )
    return f"{wrapped(text)}\n\n![variance](results/variance.svg)"


def shown(found: record.Found) -> str:
    """The table and its figure."""
    rows = [
        [gamma, name, percent(row["noisy accuracy"]), f"{each['mean']:.5f}", f"{each['largest']:.5f}",
         f"{each['bound']:.5f}", f"{each['largest'] / each['bound']:.3f}"]
        for gamma, row in found["constants"].items()
        for name, each in row["maps"].items()
    ]  # fmt: skip
    head = ["L", "map, t = 1", "right under noise, %", "variance, mean", "largest", "bound σ²L²", "largest / bound"]
    first = next(iter(found["constants"].values()))
    about = (
        f"Sandwich networks on digits, trained with noise 0.4: {first['inputs']} test inputs, n = {first['n']}, σ = "
        f"{first['sigma']:g}, seed {first['seed']}."
    )
    return "\n\n".join([_TEXT, made_by(found), about, table(head, rows), "![variance](variance.svg)"])


_TEXT = """\
A score that is L-Lipschitz has a variance of at most σ²L² under Gaussian noise. The variance is that of the class whose
score varies most, for each input; the constant of a score is that of its map times the network's. No variance of a
score in [0, 1] exceeds 1/4, so the bound says something only for small σL; the figure stops it there."""


if __name__ == "__main__":
    sys.exit(record.main(__file__, __doc__, measure))
