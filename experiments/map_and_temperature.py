"""Map and temperature: corrected radius against t for softmax and sparsemax on single inputs (a figure of the paper).

    python experiments/map_and_temperature.py --cifar10 cifar10.npz

Votes and duels are lines. Three inputs are shown: near a tie, in the middle, and easy.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from lab import figures, record
from lab.cases import Case, families
from lab.methods import certified
from lab.page import made_by, size, table, wrapped
from lab.settings import Lab
from lvmrs import Duels, Votes
from lvmrs.kernel import radius
from lvmrs.kernel.bounds import bernstein, betting
from lvmrs.kernel.maps import SimplexMap, Softmax, Sparsemax
from lvmrs.planners.search import geometric
from lvmrs.record.scores import KeptScores

__all__ = ["TITLE", "brief", "drawn", "measure", "shown"]

TITLE = "Map and temperature"
_TEMPERATURES = geometric(0.01, 50, 25)
_MAPS = {"softmax": Softmax, "sparsemax": Sparsemax}
_BOUNDS = ("bernstein", "betting")


def measure(lab: Lab) -> record.Found:
    """The curves of three inputs of a network with much noise, on each data set."""
    known = families(lab)
    cases = [known[name][-1] for name in ("digits", "cifar10") if name in known]
    return {"cases": {case.name: _case(case) for case in cases}}


def _case(case: Case) -> dict[str, Any]:
    votes, duels = certified(case, "votes", Votes()), certified(case, "duels", Duels())
    ranked = [int(at) for at in np.argsort(votes.radii) if votes.radii[at] > 0]
    names = ("near a tie", "in the middle", "easy")
    places = [ranked[round(share * (len(ranked) - 1))] for share in (0.05, 0.5, 0.95)] if ranked else []
    kept, found, alpha = KeptScores.of(case.run), {}, case.run.manifest.terms.alpha or 0.0
    for name, place in zip(names, places, strict=False):
        index = duels.idx[place]
        logits = torch.cat(list(kept.logits(index, "certification")))
        curves = {
            f"{title}, {bound}": [_radius(logits, kind(t, 1.0), bound, case.sigma, alpha) for t in _TEMPERATURES]
            for title, kind in _MAPS.items()
            for bound in _BOUNDS
        }
        found[name] = {"index": index, "votes": votes.radius[place], "duels": duels.radius[place], "curves": curves}
    return {**case.facts, "temperatures": _TEMPERATURES, "inputs shown": found}


def _radius(logits: Tensor, map_: SimplexMap, bound: str, sigma: float, alpha: float) -> float:
    """R2 of this map on the certification scores, with half of the risk for each of the two bounds."""
    scores = map_.apply(logits).double()
    mean = scores.mean(dim=0)
    first, second = (scores[:, int(k)].numpy() for k in mean.topk(2).indices)
    low, rest = (_lower(values, bound, alpha / 2) for values in (first, 1 - second))
    p_a, p_b = low, min(1 - rest, 1 - low)
    return float(radius.r2(p_a, p_b, sigma=sigma)) if p_a > p_b else 0.0


def _lower(values: Any, bound: str, risk: float) -> float:
    if bound == "betting":
        return float(betting.lower(values, risk))
    return max(0.0, float(bernstein.lower(values.mean(), values.var(ddof=1), len(values), risk)))


def drawn(found: record.Found) -> dict[str, Figure]:
    """One figure for each input."""
    made = {}
    for name, case in found["cases"].items():
        t = case["temperatures"]
        for k, each in enumerate(case["inputs shown"].values()):
            curves = {title: (t, up) for title, up in each["curves"].items()}
            level = {key: ((t[0], t[-1]), (each[key], each[key])) for key in ("votes", "duels")}
            figure = figures.lines(curves | level, "temperature", "corrected radius", log=True, level=list(level))
            made[f"temperature-{name}-{k}"] = figure
    return made


def brief(found: record.Found) -> str:
    """The section of the first page: the figure of one input."""
    name, case = next(iter(found["cases"].items()))
    titles = list(case["inputs shown"])
    middle = len(titles) // 2
    text = (
        "The radius of one input against the temperature of the map, by map and bound; dashed lines are votes and "
        f"duels ({case['title']}, σ = {case['sigma']:g}, the input {titles[middle]}). The largest value of a curve is "
        "no certificate, because the temperature would be chosen on the sample that proves."
    )
    return f"{wrapped(text)}\n\n![{titles[middle]}](results/temperature-{name}-{middle}.svg)"


def shown(found: record.Found) -> str:
    """A table of the best temperatures, and the figures."""
    parts = [_TEXT, made_by(found)]
    for name, case in found["cases"].items():
        t = case["temperatures"]
        head = [
            "input",
            "votes, R2",
            "duels",
            *(f"{title}, {bound}: best (at t)" for title in _MAPS for bound in _BOUNDS),
        ]
        rows, pictures = [], []
        for k, (title, each) in enumerate(case["inputs shown"].items()):
            best = [f"{size(max(up))} ({t[int(np.argmax(up))]:.3g})" for up in each["curves"].values()]
            rows.append([f"{each['index']}, {title}", size(each["votes"]), size(each["duels"]), *best])
            pictures.append(f"![{title}](temperature-{name}-{k}.svg)")
        text = f"n = {case['n']}, α = {case['alpha']:g}, seed {case['seed']}."
        parts += [f"## {case['title']}, σ = {case['sigma']:g}", text, table(head, rows), " ".join(pictures)]
    return "\n\n".join(parts)


_TEXT = """\
The curves are drawn on the certification sample, so they show what each temperature would certify if it had been chosen
beforehand; the largest value of a curve is no certificate, and only the rival with the largest mean is bounded. Votes
and duels are certificates. The inputs are those at 5, 50 and 95 % of all that votes certify, by their radius."""


if __name__ == "__main__":
    sys.exit(record.main(__file__, __doc__, measure))
