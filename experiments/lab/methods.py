"""The methods that are compared, and how the kept scores of a case are certified by them."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.cases import Case
from lab.union import VotesWithUnion
from lvmrs import LVM, Cohen, Duels, Fixed, Lipschitz, Paper, Planner, Run, Votes, runs
from lvmrs.analysis.metrics import mean_interval
from lvmrs.cli.setup import chosen_workers
from lvmrs.record import Row
from lvmrs.record.manifest import ClassifierRecord

__all__ = [
    "NEED_CONSTANT",
    "PUBLISHED",
    "STEPS",
    "TITLES",
    "Certified",
    "certified",
    "gap",
    "paired",
    "place_of",
    "planners_of",
    "swapped",
    "titles_of",
]

Radii = NDArray[np.float64]
PUBLISHED = "published"

TITLES = {
    "cohen": "Cohen: votes, R3",
    "votes-union": "votes, R2, risk shared by all classes",
    "votes": "votes, R2, risk spent once",
    "paper-union": "soft maps, Bernstein, risk shared by all classes",
    "paper": "soft maps, Bernstein, risk spent once (the paper)",
    "paper-betting": "the same with betting",
    "soft": "soft maps, betting, predicted for n",
    "lvm": "LVM: the same, and votes unless it is sure to pay",
    "one-map": "one softmax for all inputs",
    "duels": "duels",
    "soft-duels": "soft duels, one width for all inputs",
    "ramp": "ramp radius, sparsemax of mass 1",
    "soft-duels-ramp": "soft duels with the ramp radius",
    PUBLISHED: "published code's rule (**not sound**)",
}
"""The methods in the order of the decomposition, in words."""
# Where a constant is known, these use it, too.
_WITH_CONSTANT = ("soft", "lvm", "one-map", "soft-duels")
NEED_CONSTANT = ("ramp", "soft-duels-ramp")
"""Methods for networks of known Lipschitz constant alone."""
STEPS = (
    ("cohen", "votes-union", "R2 instead of R3, risk shared by all classes"),
    ("votes-union", "votes", "the risk spent once instead of shared, and R3 where that is expected to be larger"),
    ("votes-union", "paper-union", "the paper's soft maps and Bernstein's bound instead of votes; risk shared"),
    ("paper-union", "paper", "the paper's rule with the risk spent once instead of shared"),
    ("votes", "paper", "the paper's soft maps and Bernstein's bound instead of votes; risk spent once"),
    ("paper", "paper-betting", "betting instead of Bernstein"),
    ("paper-betting", "soft", "the choice predicted for n, no votes"),
    ("votes", "soft", "all this together: the best soft map for each input, over votes with R2"),
    ("votes", "lvm", "LVM: soft maps only where they are sure to pay, over votes with R2"),
    ("soft", "one-map", "one softmax for all inputs, over the best soft map for each input"),
    ("votes", "duels", "duels, over votes with R2"),
    ("duels", "soft-duels", "soft duels of one width, over duels"),
    ("votes", "ramp", "known constant: ramp radius with sparsemax of mass 1, over votes with R2"),
    ("duels", "soft-duels-ramp", "known constant: soft duels with the ramp radius, over duels"),
    ("votes", PUBLISHED, "the published code's rule (not sound), over votes with R2"),
)
"""Pairs of methods, and what the second has that the first has not; the first pair of a method stands in tables."""


def titles_of(*, constant: bool) -> dict[str, str]:
    """The titles for a network whose Lipschitz constant is known, or is not."""
    return {name: f"{title}, ramp radius" if constant and name in _WITH_CONSTANT else title
            for name, title in TITLES.items()}  # fmt: skip


@dataclass(frozen=True)
class Certified:
    """What one method certified, input by input."""

    idx: list[int]
    radius: list[float]
    """0 where the answer is wrong or missing."""
    right: list[bool]
    p_lower: list[float]
    maps: dict[str, int]
    """How many certificates have each map; inputs without a certificate are not counted."""
    seconds: float
    """Time to plan and prove, for one input, without the forward passes."""

    @classmethod
    def of(cls, rows: Run | list[Row]) -> Certified:
        """Read a run, or rows of one, in the order of the inputs."""
        rows = sorted(rows.rows() if isinstance(rows, Run) else rows, key=lambda row: row.idx)
        return cls(
            [row.idx for row in rows],
            [row.radius if row.correct else 0.0 for row in rows],
            [bool(row.correct) for row in rows],
            [row.p_lower for row in rows],
            dict(Counter(row.map for row in rows if row.radius > 0)),
            float(np.mean([row.time for row in rows])),
        )

    @cached_property
    def radii(self) -> Radii:
        """The radii as an array."""
        return np.array(self.radius)

    @property
    def average(self) -> float:
        """Average certified radius."""
        return float(self.radii.mean())

    @property
    def interval(self) -> list[float]:
        """Average certified radius with Student's interval at 0.95."""
        return paired(self.radii)

    @property
    def share(self) -> float:
        """The share of inputs with a right answer that is certified at all."""
        return float(np.mean(self.right))

    def at(self, epsilon: float) -> float:
        """Certified accuracy at a radius."""
        return float((np.array(self.right) & (self.radii >= epsilon)).mean())

    def summary(self, epsilons: Iterable[float] = ()) -> dict[str, Any]:
        """What tables show of it."""
        return {
            "average": self.average,
            "certified": self.share,
            "at": {f"{epsilon:g}": self.at(epsilon) for epsilon in epsilons},
            "maps": self.maps,
            "seconds": self.seconds,
        }


def gap(one: Certified, other: Certified) -> list[float]:
    """The mean of other − one over the same inputs, and Student's paired interval at 0.95."""
    assert one.idx == other.idx  # noqa: S101 (else nothing is paired)
    return paired(other.radii - one.radii)


def swapped(one: Certified, other: Certified, epsilon: float = 0.0) -> list[int]:
    """How many inputs only the other certifies at a radius, and how many only the one."""
    assert one.idx == other.idx  # noqa: S101
    had, has = ((np.array(each.right) & (each.radii >= epsilon)) for each in (one, other))
    return [int((has & ~had).sum()), int((had & ~has).sum())]


def paired(differences: Radii) -> list[float]:
    """The mean and Student's interval at 0.95; equal values are their own interval."""
    if not differences.std():
        return [float(differences.mean())] * 3
    return [float(value) for value in mean_interval(differences)]


def planners_of(case: Case, *, calibrate: bool = True) -> dict[str, Planner]:
    """The methods that a case can be certified by, in the order of the decomposition."""
    found: dict[str, Planner] = {
        "cohen": Cohen(),
        "votes-union": VotesWithUnion(),
        "votes": Votes(),
        "paper-union": Paper(union=True),
        "paper": Paper(),
        "paper-betting": Paper(bound="betting"),
        "soft": LVM(maps=("softmax", "sparsemax"), bounds=("betting",)),
        "lvm": LVM(),
        "duels": Duels(),
    }
    if calibrate and (width := case.calibrated("width", "--method", "duels")):
        found["soft-duels"] = _recorded(width)
        n = ("--n", str(case.size.n), "--map", "softmax")
        found["one-map"] = _recorded(case.calibrated("map", "--method", "fixed", *n))
    if case.run.manifest.terms.lipschitz is not None:
        found |= {"ramp": Lipschitz("ramp"), "soft-duels-ramp": Duels("chosen")}
    return {name: found[name] for name in TITLES if name in found}


def _recorded(path: Path | None) -> Fixed | Duels:
    assert path is not None  # noqa: S101
    method = runs.recorded_method(ClassifierRecord.parse(path.read_text(encoding="utf-8"), str(path)), str(path))
    assert isinstance(method, Fixed | Duels)  # noqa: S101
    return method


def certified(case: Case, name: str, planner: Planner, n0: int | None = None, n: int | None = None) -> Certified:
    """Certify the kept scores of a case by a method; what the cache has is read."""
    n0, n = n0 or case.size.n0, n or case.size.n
    place = place_of(case, f"{name}-{hashlib.sha256(repr(planner).encode()).hexdigest()[:6]}", n0, n)
    place.parent.mkdir(parents=True, exist_ok=True)
    who = chosen_workers(case.lab.ray, case.lab.workers)
    made = runs.recertify(case.run, place, planner, n0=n0, n=n, workers=who)
    return Certified.of(made)


def place_of(case: Case, name: str, n0: int, n: int) -> Path:
    """Where the cache has what a method certified."""
    return case.lab.cache / "certified" / case.run.directory.name / re.sub(r"\W+", "-", f"{name}-{n0}-{n}")
