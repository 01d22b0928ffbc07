"""What a budget bought against the same samples spread evenly: an estimate, from the rows alone.

A row has a bound on a mean, and the number of samples. From them follows, closely, the share of ones that was counted;
with the same share among the samples that each input would have got, the bound for a fixed number of samples gives the
radius. No certificate relies on it. For scores that are not 0/1 there is no estimate, since their bounds depend on more
than a share.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from lvmrs import _checks
from lvmrs._decimals import percent, rounded_down
from lvmrs.confidence import beta_mixture, clopper_pearson
from lvmrs.confidence.beta_mixture import BetaMixture
from lvmrs.confidence.clopper_pearson import ClopperPearson
from lvmrs.planners.anytime import prior_of
from lvmrs.registry import FORMS, MAPS
from lvmrs.runs import Row, Run

__all__ = ["Evenly", "spread_evenly"]


class Evenly(NamedTuple):
    """What inputs would get if all had the same number of samples: an estimate."""

    n: int
    """Samples to prove on, for each input: what they took on average, rounded down."""
    average: float
    """The average certified radius, 0 where the answer is wrong."""
    targets: dict[float, float]
    """Certified accuracy at each target of the goal."""

    @property
    def words(self) -> str:
        """It in words."""
        found = f"the same samples spread evenly, {self.n} an input, would give about {rounded_down(self.average)}"
        at = [f"certified accuracy {percent(share)} % at {target:g}" for target, share in self.targets.items()]
        return ", ".join([found, *at]) + " (an estimate)"

    @property
    def object(self) -> dict[str, Any]:
        """It by name, as JSON has it."""
        at = [{"target": target, "certified accuracy": share} for target, share in self.targets.items()]
        return {"n": self.n, "average certified radius": self.average, "targets": at, "estimate": True}


def spread_evenly(run: Run) -> Evenly | None:
    """Estimate what a run with a budget would have certified, had each input got the same number of samples.

    Args:
        run: the run.

    Returns:
        The estimate; None if there is none: without a budget, without rows, or if scores are not 0/1 or have parts
            that are not known.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import torch
    >>> from lvmrs import Duels, SmoothedClassifier, data, jobs, models, runs
    >>> from lvmrs.goals import Goal
    >>> inputs = data.Arrays("two corners", "test", np.eye(2), np.arange(2))
    >>> model = models.Loaded.of(torch.nn.Identity(), "larger")
    >>> smoothed = SmoothedClassifier(model.model, 0.5, batch=100)
    >>> sampling = jobs.Sampling(n0=100, n=1000, goal=Goal(budget=1200))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     job = jobs.Job(model, inputs, smoothed, Duels(), sampling, runs.Selection(2))
    ...     evenly = jobs.spread_evenly(jobs.certify(job, Path(folder, "run")))
    >>> evenly.n <= 500, 0.4 < evenly.average < 0.71
    (True, True)
    """
    _checks.instance("run", run, Run, "a lvmrs.Run")
    goal, n0 = run.manifest.terms.goal, run.manifest.terms.n0 or 0
    rows = run.rows() if goal is not None and goal.limited else []
    if goal is None or not rows or not all(_is_known(row) for row in rows):
        return None
    each = sum(row.samples or 0 for row in rows) // len(rows)
    radii = np.array([_radius(row, each, n0, run.manifest.terms.sigma or 0.0) for row in rows])
    right = np.array([row.top == row.label for row in rows]) & (radii > 0)
    targets = {target: float((right & (radii >= target)).mean()) for target in goal.targets}
    return Evenly(each, float(np.where(right, radii, 0.0).mean()), targets)


def _is_known(row: Row) -> bool:
    """Whether a row has 0/1 scores, and parts that come with lvmrs or are registered."""
    return row.bound in _LOWER and row.samples is not None and row.map in MAPS and row.form in FORMS


def _radius(row: Row, n: int, n0: int, sigma: float) -> float:
    """The radius that n samples would give, with bounds for that number."""
    used = row.samples or 0
    alone = row.risk_groups == "-"
    risk_rival = 0.0 if alone else float(row.risk_groups)
    share = _share(row.bound, row.p_lower / row.mass, used, row.risk_top or risk_rival, n0)
    p_a = _fixed(share, n, row.risk_top or risk_rival)
    p_b = 1 - p_a
    if row.risk_top and not alone:  # rivals have bounds of their own
        p_b = min(p_b, 1 - _fixed(_share(row.bound, 1 - row.p_upper / row.mass, used, risk_rival, n0), n, risk_rival))
    slopes = MAPS.find(row.map)(row.temperature, row.mass).slopes(math.inf)
    return float(FORMS.find(row.form)().radius(np.asarray(p_a), np.asarray(p_b), sigma=sigma, slopes=slopes))


def _share(name: str, bound: float, n: int, risk: float, n0: int) -> float:
    """The share of ones for which a bound of this name is this number."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        reached = _LOWER[name](middle, n, risk, n0) >= bound - 1e-12
        low, high = (low, middle) if reached else (middle + 1, high)
    return low / n


def _at_any_time(ones: int, n: int, risk: float, n0: int) -> float:
    """The bound that holds at every moment, with a prior as planners choose it."""
    return float(beta_mixture.lower(ones, n, risk, prior=prior_of(np.asarray(ones / n * n0), n0)))


def _of_this_number(ones: int, n: int, risk: float, n0: int) -> float:
    return float(clopper_pearson.lower(ones, n, risk))


_LOWER = {BetaMixture.name: _at_any_time, ClopperPearson.name: _of_this_number}


def _fixed(share: float, n: int, risk: float) -> float:
    """The bound for a share of n, between those of the two counts next to it."""
    ones = min(share * n, float(n))
    few = math.floor(ones + 1e-9)
    low, high = (float(clopper_pearson.lower(count, n, risk)) for count in (few, min(few + 1, n)))
    return low + max(0.0, ones - few) * (high - low)
