"""Beyond the average radius: how the lower bounds are spread, curves, and a statement about the data set as a whole.

    python experiments/beyond_average.py --cifar10 cifar10.npz

The average certified radius depends on n, and grows most by making easy inputs easier. So here are the distribution of
the lower bound, certified accuracy over the radius, and what holds for all certificates together.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from lab import figures, record
from lab.cases import Case, families
from lab.methods import Certified, certified, planners_of
from lab.page import about, made_by, percent, table, wrapped
from lab.settings import Lab

__all__ = ["TITLE", "brief", "drawn", "measure", "shown"]

TITLE = "Beyond the average radius"
_METHODS = {"cohen": "Cohen", "votes": "votes, R2", "lvm": "LVM", "duels": "duels"}
_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
_EPSILONS = (0.0, 0.25, 0.5, 1.0)
_RISK = 0.001  # of the statement about the whole data set


def measure(lab: Lab) -> record.Found:
    """Every family, at its middle σ."""
    chosen = [cases[len(cases) // 2] for cases in families(lab).values()]
    return {"cases": {case.name: _case(case) for case in chosen}}


def _case(case: Case) -> dict[str, Any]:
    planners = planners_of(case, calibrate=False)
    found = {key: certified(case, key, planners[key]) for key in _METHODS}
    alpha = case.run.manifest.terms.alpha or 0.0
    return {
        **case.facts,
        "rows": {
            key: {
                "quantiles": [float(value) for value in np.quantile(each.p_lower, _QUANTILES)],
                "at": {f"{epsilon:g}": each.at(epsilon) for epsilon in _EPSILONS},
                "all together": {f"{epsilon:g}": _together(each, epsilon, alpha) for epsilon in _EPSILONS},
                "radii": sorted(round(value, 4) for value in each.radius),
            }
            for key, each in found.items()
        },
    }


def _together(found: Certified, epsilon: float, alpha: float) -> float:
    """A certified accuracy that holds for these inputs with probability 1 − _RISK over all of the noise.

    Each certificate is false with probability at most α, each with its own noise, so the number of false ones is
    at most the quantile of a binomial distribution (Cohen et al. 2019 bound the same by Bernstein's inequality).
    """
    count = sum(right and size >= epsilon for right, size in zip(found.right, found.radius, strict=True))
    false = int(stats.binom.ppf(1 - _RISK, len(found.right), alpha))
    return max(0, count - false) / len(found.right)


def drawn(found: record.Found) -> dict[str, Figure]:
    """Curves of certified accuracy."""
    return {
        f"curves-{name}": figures.steps(
            {_METHODS[key]: row["radii"] for key, row in case["rows"].items()}, "radius", "certified accuracy (%)"
        )
        for name, case in found["cases"].items()
    }


def brief(found: record.Found) -> str:
    """The section of the first page: the curves of up to two networks."""
    names = [name for name in found["cases"] if name in ("digits-0.5", "cifar10-0.5")] or list(found["cases"])[:1]
    text = (
        "An average radius alone hides which inputs are certified. The tables have quantiles of p̲, the lower bound of "
        f"the proof, and certified accuracy that holds with probability {1 - _RISK:g} for all certificates together. "
        f"The curves are certified accuracy, σ = 0.5: {' and '.join(found['cases'][name]['title'] for name in names)}."
    )
    pictures = " ".join(f"![certified accuracy](results/curves-{name}.svg)" for name in names)
    return f"{wrapped(text)}\n\n{pictures}"


def shown(found: record.Found) -> str:
    """The tables and curves."""
    parts = [_TEXT, made_by(found)]
    for name, case in found["cases"].items():
        head = ["method", *(f"p̲ at {share:g}" for share in _QUANTILES),
                *(f"certified at {epsilon:g}, % (all together)" for epsilon in _EPSILONS)]  # fmt: skip
        rows = [
            [title, *(f"{value:.4f}" for value in row["quantiles"]),
             *(f"{percent(share)} ({percent(row['all together'][key])})" for key, share in row["at"].items())]
            for key_, title in _METHODS.items()
            for row in (case["rows"][key_],)
        ]  # fmt: skip
        parts += [f"## {case['title']}, σ = {case['sigma']:g}", about(case), table(head, rows)]
        parts.append(f"![certified accuracy](curves-{name}.svg)")
    return "\n\n".join(parts)


_TEXT = f"""\
p̲ is the lower bound of the proof, at quantiles over all inputs, also those with a wrong answer: for Cohen, votes and
LVM on the mean score of the top class, and for duels on the hardest duel, so the last row is about another number. In
brackets is the certified accuracy on these inputs that holds with probability {1 - _RISK:g} for all certificates
together, each of which may be false with probability α."""


if __name__ == "__main__":
    sys.exit(record.main(__file__, __doc__, measure))
