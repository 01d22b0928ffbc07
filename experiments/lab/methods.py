"""The methods that are compared, and how the kept scores of a case are certified by them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lab.cases import Case
from lvmrs import LVM, Choice, Cohen, Duels, Fixed, Lipschitz, Paper, Planner, Run, Terms, Votes, jobs, radius
from lvmrs.analysis.metrics import mean_interval
from lvmrs.confidence import bernstein, clopper_pearson
from lvmrs.confidence.clopper_pearson import ClopperPearson
from lvmrs.forms import R2
from lvmrs.maps import Hardmax
from lvmrs.planners.grid import geometric
from lvmrs.planners.survey import Survey
from lvmrs.runs.classifier import ClassifierRecord
from lvmrs.runs.scores import KeptScores

__all__ = [
    "PUBLISHED",
    "TITLES",
    "Certified",
    "VotesWithUnion",
    "certified",
    "gap",
    "paired",
    "planners_of",
    "published",
]

Radii = NDArray[np.float64]
# The rule of the paper's published code searches about this many soft maps.
_TEMPERATURES = geometric(0.01, 50, 100)
PUBLISHED = "published"

TITLES = {
    "cohen": "Cohen: votes, R3",
    "votes-union": "votes, R2, risk shared by all classes",
    "votes": "votes, R2, risk spent once",
    "paper": "soft maps, Bernstein, risk shared (the paper)",
    "paper-betting": "the same with betting",
    "soft": "soft maps, betting, risk once, predicted for n",
    "lvm": "LVM: the same, and votes unless it is sure to pay",
    "one-map": "one softmax for all inputs",
    "duels": "duels",
    "soft-duels": "soft duels, one width for all inputs",
    "ramp": "ramp radius, sparsemax",
    "soft-duels-ramp": "soft duels with the ramp radius",
    PUBLISHED: "published code's rule (**not sound**)",
}
"""The methods in the order of the decomposition, in words."""


@dataclass(frozen=True)
class VotesWithUnion(Planner):
    """Votes with Clopper–Pearson for every class at the risk α/c, and R2."""

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """The class with most votes."""
        plain = Cohen().choose(logits, terms)
        share = terms.alpha / plain.classes
        return Choice(
            top=plain.top,
            classes=plain.classes,
            map=Hardmax(),
            bound=ClopperPearson(),
            form=R2(),
            risk_top=share,
            risk_rival=share,
        )


@dataclass(frozen=True)
class Certified:
    """What one method certified, input by input."""

    idx: list[int]
    radius: list[float]
    """0 where the answer is wrong or missing."""
    right: list[bool]
    p_lower: list[float]
    maps: dict[str, int]
    """How many inputs got each map."""
    seconds: float
    """Time to plan and prove, for one input, without the forward passes."""

    @classmethod
    def of(cls, run: Run) -> Certified:
        """Read a run, in the order of its inputs."""
        rows = sorted(run.rows(), key=lambda row: row.idx)
        return cls(
            [row.idx for row in rows],
            [row.radius if row.correct else 0.0 for row in rows],
            [bool(row.correct) for row in rows],
            [row.p_lower for row in rows],
            dict(Counter(row.map for row in rows)),
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
    return paired(other.radii - one.radii)


def paired(differences: Radii) -> list[float]:
    """The mean and Student's interval at 0.95; equal differences are their own interval."""
    if not differences.std():
        return [float(differences.mean())] * 3
    return [float(value) for value in mean_interval(differences)]


def planners_of(case: Case, *, calibrate: bool = True) -> dict[str, Planner]:
    """The methods that a case can be certified by, in the order of the decomposition."""
    found: dict[str, Planner] = {
        "cohen": Cohen(),
        "votes-union": VotesWithUnion(),
        "votes": Votes(),
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
    method = jobs.recorded_method(ClassifierRecord.parse(path.read_text(encoding="utf-8"), str(path)), str(path))
    assert isinstance(method, Fixed | Duels)  # noqa: S101
    return method


def certified(case: Case, name: str, planner: Planner, n0: int | None = None, n: int | None = None) -> Certified:
    """Certify the kept scores of a case by a method; what the cache has is read."""
    n0, n = n0 or case.size.n0, n or case.size.n
    place = _place(case, name, n0, n)
    place.parent.mkdir(parents=True, exist_ok=True)
    made = jobs.recertify(case.run, place, planner, n0=n0, n=n)
    return Certified.of(made)


def published(case: Case, n0: int | None = None, n: int | None = None) -> Certified:
    """Certify by the rule of the paper's published code, whose certificates do not hold at risk α.

    The largest R2 of votes (Clopper–Pearson) and 200 soft maps (Bernstein), each with the risk shared by all classes,
    is taken on the certification sample itself: the sample that chose the map also bounds its scores.
    """
    n0, n = n0 or case.size.n0, n or case.size.n
    file = _place(case, PUBLISHED, n0, n).with_suffix(".json")
    if file.exists():
        return Certified(**json.loads(file.read_text(encoding="utf-8")))
    found = _published(case.run, n)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(asdict(found)), encoding="utf-8")
    return found


def _published(run: Run, n: int) -> Certified:
    kept, terms = KeptScores.of(run), run.manifest.terms
    rows = sorted(run.rows(), key=lambda row: row.idx)
    radii, right, lows, maps = [], [], [], Counter[str]()
    for row in rows:
        logits = torch.cat(list(kept.logits(row.idx, "certification", n)))
        top, size, low, name = _best_on(logits, terms.sigma or 0.0, terms.alpha or 0.0)
        answer = top if size > 0 else -1
        radii.append(size if answer == row.label else 0.0)
        right.append(answer == row.label)
        lows.append(low)
        maps[name] += 1
    return Certified([row.idx for row in rows], radii, right, lows, dict(maps), 0.0)


def _best_on(logits: Tensor, sigma: float, alpha: float) -> tuple[int, float, float, str]:
    """Class, radius, lower bound and map of the best candidate on these samples."""
    n, classes = logits.shape
    risk = alpha / classes
    votes = Survey.of([logits], maps=("hardmax",))
    soft = Survey.of([logits], maps=("softmax", "sparsemax"), temperatures=_TEMPERATURES)
    counts = np.round(votes.mean * n)
    low = np.vstack([clopper_pearson.lower(counts, n, risk), bernstein.lower(soft.mean, soft.variance, n, risk)])
    high = np.vstack([
        1 - clopper_pearson.lower(n - counts, n, risk), 1 - bernstein.lower(1 - soft.mean, soft.variance, n, risk),
    ])  # fmt: skip
    tops = np.concatenate([votes.tops, soft.tops])
    each = np.arange(len(tops))
    p_a = np.clip(low[each, tops], 0.0, 1.0)
    high[each, tops] = 0.0
    p_b = np.minimum(np.clip(high.max(axis=1), 0.0, 1.0), 1 - p_a)
    sizes = np.where(p_a > p_b, radius.r2(np.maximum(p_a, p_b), np.minimum(p_a, p_b), sigma=sigma), 0.0)
    best = int(sizes.argmax())
    return int(tops[best]), float(sizes[best]), float(p_a[best]), (*votes.maps, *soft.maps)[best].name


def _place(case: Case, name: str, n0: int, n: int) -> Path:
    return case.lab.cache / "certified" / case.run.directory.name / re.sub(r"\W+", "-", f"{name}-{n0}-{n}")
