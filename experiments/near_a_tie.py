"""Where soft maps pay without a Lipschitz constant: inputs close to a tie, and few samples.

    python experiments/near_a_tie.py --cifar10 cifar10.npz

Near a tie a hard vote throws away by how much it was won. For margins with a normal distribution the mean of the
margin needs 2/π = 0.64 times the samples that the share of wins needs to show which side is ahead. So soft duels
should certify some inputs that hard ones do not, the more the fewer samples there are, and cost radius elsewhere.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from lab import figures, record
from lab.cases import Case, families
from lab.methods import Certified, certified, paired, planners_of, swapped
from lab.page import difference, made_by, percent, size, table, wrapped
from lab.settings import Lab
from lvmrs.errors import InvalidArgumentError
from lvmrs.planners.votes import sign_test

__all__ = ["TITLE", "brief", "drawn", "measure", "shown"]

TITLE = "Where soft maps pay"
_METHODS = {"votes": "votes, R2", "soft": "soft maps", "duels": "duels", "soft-duels": "soft duels, one width"}
_PAIRS = (("votes", "soft"), ("duels", "soft-duels"))
_SIZES = {100: 100, 1000: 200, 10_000: 1000}


def measure(lab: Lab) -> record.Found:
    """All cases that have held-out inputs to find a width on, at several n."""
    cases = [case for family in families(lab).values() for case in family if case.held_out is not None]
    if not cases:
        raise InvalidArgumentError("no family has held-out inputs; include digits or a family of cifar10 images")
    most = max(case.size.n for case in cases)
    sizes = [n for n in _SIZES if n <= most] or [min(case.size.n for case in cases)]
    whole = [case for case in cases if case.size.n >= max(sizes)]
    return {
        "cases": [{"title": case.title, "sigma": case.sigma, "inputs": case.size.inputs} for case in cases],
        "sizes": {str(n): _size([case for case in cases if case.size.n >= n], n) for n in sizes},
        "figure": {str(n): _size(whole, n) for n in sizes},
    }


def _size(cases: list[Case], n: int) -> dict[str, Any]:
    """All inputs of these cases together, certified with n samples."""
    found: dict[str, list[Certified]] = {name: [] for name in _METHODS}
    for case in cases:
        planners = planners_of(case)
        n0 = min(case.size.n0, _SIZES.get(n, n))
        for name in _METHODS:
            found[name].append(certified(case, name, planners[name], n0, n))
    return {
        "inputs": len(_radii(found["votes"])),
        "certified": {name: sum(sum(each.right) for each in all_) for name, all_ in found.items()},
        "average": {name: float(_radii(all_).mean()) for name, all_ in found.items()},
        "pairs": {f"{a} to {b}": _pair(cases, found[a], found[b]) for a, b in _PAIRS},
    }


def _pair(cases: list[Case], one: list[Certified], other: list[Certified]) -> dict[str, Any]:
    """What changes. An image that is in several cases counts once in the interval, with its mean difference."""
    counts = np.sum([swapped(a, b) for a, b in zip(one, other, strict=True)], axis=0)
    differences: dict[tuple[str, int], list[float]] = {}
    for case, a, b in zip(cases, one, other, strict=True):
        for index, change in zip(a.idx, (b.radii - a.radii).tolist(), strict=True):
            differences.setdefault((case.data, index), []).append(change)
    means = np.array([np.mean(each) for each in differences.values()])
    return {"gained": int(counts[0]), "lost": int(counts[1]), "images": len(means), "gap": paired(means)}


def _radii(found: list[Certified]) -> NDArray[np.float64]:
    return np.concatenate([each.radii for each in found])


def drawn(found: record.Found) -> dict[str, Figure]:
    """The share of inputs that are certified, against n, over the cases that have the largest n."""
    sizes = {int(n): each for n, each in found["figure"].items()}
    curves = {
        title: (list(sizes), [100 * each["certified"][name] / each["inputs"] for each in sizes.values()])
        for name, title in _METHODS.items()
    }
    return {"near-a-tie": figures.lines(curves, "samples n", "certified and right (%)", log=True)}


def brief(found: record.Found) -> str:
    """The section of the first page: the figure."""
    text = (
        "Near a tie, a vote discards how large the margin was. Soft maps and soft duels use the margin, so they could "
        "certify inputs that votes and duels do not, above all with few samples. The figure has the share of inputs "
        f"that are certified with a right answer, against n, over {len(found['cases'])} cases."
    )
    return f"{wrapped(text)}\n\n![certified inputs against n](results/near-a-tie.svg)"


def shown(found: record.Found) -> str:
    """The table and its figure."""
    head = ["n", "inputs", *(f"{title}: certified, % (average radius)" for title in _METHODS.values()),
            *(f"{_METHODS[b]} against {_METHODS[a]}: gained, lost (p); radius (95 %)" for a, b in _PAIRS)]  # fmt: skip
    rows = []
    for n, each in found["sizes"].items():
        cells = [
            f"{percent(each['certified'][name] / each['inputs'])} ({size(each['average'][name])})" for name in _METHODS
        ]
        pairs = [
            f"+{pair['gained']}, −{pair['lost']} ({sign_test(pair['gained'], pair['lost']):.2g}); "
            f"{difference(pair['gap'])}"
            for pair in each["pairs"].values()
        ]
        rows.append([n, str(each["inputs"]), *cells, *pairs])
    cases = "\n".join(f"- {each['inputs']} inputs: {each['title']}, σ = {each['sigma']:g}" for each in found["cases"])
    picture = "![certified inputs against n](near-a-tie.svg)"
    return "\n\n".join([_TEXT, made_by(found), table(head, rows), picture, f"The inputs are of\n\n{cases}"])


_TEXT = """\
Near a tie a hard vote throws away by how much it was won. For margins with a normal distribution the mean of the margin
needs 2/π = 0.64 times the samples that the share of wins needs to show which leads. So soft duels should certify some
inputs that hard ones do not, the more the fewer samples there are, and cost radius elsewhere. All cases without a
Lipschitz constant that have training inputs to find a width on are taken together; *soft maps* are the best of softmax
and sparsemax for each input, with betting bounds; p is that of the exact sign test. Intervals are over images: one that
is in several cases counts once, with its mean difference. n0 is 100 for n = 100, 200 for n = 1000 and 1000 for n = 10
000, or what there is. The figure has the cases that reach the largest n."""


if __name__ == "__main__":
    sys.exit(record.main(__file__, __doc__, measure))
