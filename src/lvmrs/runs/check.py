"""Checks a job before it runs: accuracy with and without noise, a forecast of certificates, and likely mistakes.

A check runs the model on a few hundred inputs, and on the first selection samples of each. Certification samples are
never drawn, so that certificates of the same job stay valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmrs.analysis.diagnosis import Classes, Evidence, Finding, diagnose
from lvmrs.analysis.metrics import Estimate, mean_interval
from lvmrs.engine.pipeline import Item, Procedure
from lvmrs.engine.sources import GivenScores
from lvmrs.errors import InvalidArgumentError, ModelError, guarded
from lvmrs.kernel import checks
from lvmrs.kernel.checks import Floats
from lvmrs.kernel.deterministic import Deterministic
from lvmrs.kernel.sampler import Model
from lvmrs.kernel.scores import Scores, held
from lvmrs.kernel.terms import Plan, Terms
from lvmrs.models.denoisers import Denoised
from lvmrs.models.preprocessing import Preprocessed
from lvmrs.planners.allocation import largest_radius, plausible_radii
from lvmrs.planners.base import Planner
from lvmrs.runs.job import Job

INPUTS, COPIES = 200, 100
"""The usual numbers of inputs of a check, and of noisy copies of each."""
# A check aims at this time; fewer copies than _FEWEST say little, and fewer inputs than _LEAST_INPUTS too.
_SECONDS, _FEWEST, _LEAST_INPUTS = 10.0, 20, 40
# The largest number of samples that is tried to reach a target.
_MOST_SAMPLES = 10**12
# Mean and standard deviation of the channels of ImageNet, which many networks normalise with.
_MEAN, _STD = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1), torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)

Change = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Check:
    """What a check has found; inputs count as right if labels are not known."""

    inputs: int
    """Number of inputs of the job."""
    copies: int
    """Number of noisy copies of each checked input; 0 for a method without samples."""
    index: Classes
    """The indices of the checked inputs."""
    evidence: Evidence
    """Labels, answers and settings."""
    right_copies: Floats
    """For each checked input, the share of its noisy copies with its label, or without labels with the clean answer."""
    top: Classes
    """The class that a certificate would be about."""
    radii: Floats
    """Radii that may be certified for this class, (inputs, levels): equally likely, ascending, 0 for an abstention."""
    rate: float
    """Samples per second."""
    seconds: float
    """Expected time of the job in one process."""
    largest: tuple[Plan, Terms] | None = None
    """The plan that can certify the largest radius, and its terms; None without samples."""

    @property
    def findings(self) -> list[Finding]:
        """Likely mistakes."""
        return diagnose(self.evidence)

    @property
    def labelled(self) -> bool:
        """Whether all checked inputs have labels."""
        return self.evidence.label is not None and bool((self.evidence.label >= 0).all())

    @property
    def clean_accuracy(self) -> float | None:
        """Share of right answers without noise; None without labels."""
        return float(np.mean(self.evidence.clean == self.evidence.label)) if self.labelled else None

    @property
    def noisy_accuracy(self) -> float | None:
        """Share of noisy copies that are classified as the label; None without labels or without noise."""
        return float(self.right_copies.mean()) if self.labelled and self.copies else None

    @property
    def abstention(self) -> float:
        """Expected share of inputs without a certificate."""
        return float((self.radii <= 0).mean())

    def certified(self, radius: float) -> Floats:
        """For each checked input, the probability that its answer is right with at least this certified radius."""
        counts = (self.radii >= radius) & (self.radii > 0)
        found: Floats = (counts & self._right[:, None]).mean(axis=1)
        return found

    def certified_accuracy(self, radius: float) -> float:
        """Expected share of inputs that are right with at least this certified radius."""
        return float(self.certified(radius).mean())

    def samples_for(self, radius: float) -> int | None:
        """The smallest n for which a radius can be certified if all samples agree; None if it is beyond reach."""
        return None if self.largest is None else samples_for(*self.largest, radius)

    @property
    def expected_radii(self) -> Floats:
        """For each checked input, the expected certified radius; 0 for wrong answers."""
        return np.where(self._right, self.radii.mean(axis=1), 0.0)

    @property
    def average_certified_radius(self) -> Estimate:
        """Expected average certified radius, 0 for wrong answers, with an interval for the inputs not checked."""
        return average_radius(self.expected_radii)

    @property
    def _right(self) -> NDArray[np.bool_]:
        return self.top == self.evidence.label if self.labelled else np.ones(len(self.top), bool)


def check(
    job: Job,
    *,
    inputs: int = INPUTS,
    copies: int | None = None,
    on_input: Callable[[int, int], None] = lambda done, total: None,
) -> Check:
    """Check a job on some of its inputs, spread evenly.

    Args:
        job: the job. Nothing is written.
        inputs: how many inputs to check, or all if there are fewer; fewer if the network is slow.
        copies: noisy copies of each input; by default 100, or fewer if the network is slow.
        on_input: called with the numbers of inputs done and to do.

    Returns:
        Accuracies, forecasts and likely mistakes.

    >>> from lvmrs import Duels, SmoothedClassifier, data, models, runs
    >>> labels = np.arange(40) % 2
    >>> corners = data.Arrays("corners", "test", np.eye(2)[labels], 1 - labels)
    >>> model = models.Loaded.of(torch.nn.Identity(), "larger")
    >>> smoothed = SmoothedClassifier(model.model, 0.25, batch=100)
    >>> job = runs.Job(model, corners, smoothed, Duels(), runs.Sampling(n=1000), runs.Selection(40))
    >>> found = check(job)
    >>> found.clean_accuracy, [finding.mistake for finding in found.findings]
    (0.0, ['labels permuted'])
    """
    checks.instance("job", job, Job, "a Job")
    inputs = checks.count("inputs", inputs, least=1)
    copies = None if copies is None else checks.count("copies", copies, least=1)
    smoothed, sampling, method = job.smoothed, job.sampling, job.method
    indices = np.asarray(job.selection.indices)
    throughput = smoothed.prepare(job.input(int(indices[0]))[0]) if method.samples else None
    if throughput is not None and copies is None:
        affordable = int(_SECONDS * throughput.rate)
        inputs = min(inputs, max(_LEAST_INPUTS, affordable // _FEWEST))
        copies = min(COPIES, sampling.n0, max(_FEWEST, affordable // min(inputs, len(indices))))
    count = min(inputs, len(indices))
    chosen = indices[np.round(np.linspace(0, len(indices) - 1, count)).astype(int)]
    rows: list[_Seen] = []
    for row in _seen(job, chosen.tolist(), copies or 0):
        rows.append(row)
        on_input(len(rows), count)
    label = np.array([-1 if row.label is None else row.label for row in rows])
    planned = [(row.plan, row.terms) for row in rows if row.plan is not None and row.terms is not None]
    largest = max(planned, key=lambda pair: largest_radius(pair[0], pair[1], pair[1].n), default=None)
    names = sorted({name for row in rows for name in row.other_units})
    radii, right_copies = np.array([row.radii for row in rows]), np.array([row.right for row in rows])
    evidence = replace(
        evidence_of_settings(job),
        **_limits(job, largest),
        classes=rows[0].classes,
        label=None if (label < 0).all() else label,
        clean=np.array([row.clean for row in rows]),
        noisy=np.array([row.top for row in rows]) if method.samples else None,
        right_copies=right_copies if method.samples else None,
        abstains=radii.mean(axis=1) <= 0,
        flatness=float(np.mean([row.largest for row in rows])),
        other_units={name: np.array([row.other_units.get(name, -1) for row in rows]) == label for name in names},
    )
    rate = 1.0 if throughput is None else throughput.rate
    spent = len(indices) * job.samples_each
    if sampling.goal is not None and sampling.goal.budget is not None:
        spent = min(spent, sampling.goal.budget)
    return Check(
        inputs=len(indices),
        copies=copies or 0,
        index=chosen,
        evidence=evidence,
        right_copies=right_copies,
        top=np.array([row.top for row in rows]),
        radii=radii,
        rate=rate,
        seconds=0.0 if throughput is None else spent / rate,
        largest=largest,
    )


def average_radius(radii: Floats, confidence: float = 0.95) -> Estimate:
    """The mean of expected radii, with an interval for the inputs not checked."""
    found = mean_interval(radii, confidence)
    return found if found.low > 0 else found._replace(low=0.0)


@dataclass(frozen=True)
class _Seen:
    """What was seen of one input."""

    label: int | None
    clean: int
    classes: int
    largest: float
    """The largest softmax probability without noise."""
    other_units: dict[str, int]
    """The answer without noise for other units of the pixels."""
    top: int
    right: float
    radii: Floats
    plan: Plan | None = None
    terms: Terms | None = None


def _seen(job: Job, indices: Sequence[int], copies: int) -> Iterator[_Seen]:
    smoothed, sampling = job.smoothed, job.sampling
    method = smoothed.check_method(job.method)
    changes: dict[str, Change] | None = None
    for index in indices:
        x, label = job.input(index)
        changes = _changes(job.model.model, x) if changes is None else changes
        sampler, given = smoothed.sampler(x)
        logits = sampler.answers(given[None].clone(), 0, finite=False)
        try:
            answers = [
                int(sampler.answers(change(given)[None], 0, finite=False).argmax()) for change in changes.values()
            ]
        except ModelError:  # the model may refuse other units
            changes, answers = {}, []
        clean = smoothed.answer(x)
        seen = partial(
            _Seen,
            label=label,
            clean=clean,
            classes=logits.shape[1],
            largest=float(logits[0].double().softmax(dim=0).max()),
            other_units=dict(zip(changes, answers, strict=True)),
        )
        if isinstance(method, Deterministic):
            found = smoothed.certain(method, x)
            yield seen(top=found.top, right=0.0, radii=np.array([found.radius]))
            continue
        terms = smoothed.terms(sampling.alpha, sampling.n, x, method=method)
        scores, noisy = held(smoothed.scores(x, copies, seed=sampling.seed, index=index, stage="selection"))
        plan = _planned(method, index, scores, terms)
        n = terms.n
        if sampling.goal is not None and sampling.goal.budget is not None:
            n = max(2, min(n, sampling.goal.budget // len(job.selection.indices) - sampling.n0))
        with guarded(f"the forecast of a plan by {plan.planner} fails", error=InvalidArgumentError):
            radii = plausible_radii(plan, terms, noisy, [n])[0]
        right = float((noisy.argmax(dim=1) == (clean if label is None else label)).double().mean())
        yield seen(top=plan.top, right=right, radii=radii, plan=plan, terms=terms)


def _planned(planner: Planner, index: int, scores: Scores, terms: Terms) -> Plan:
    """The plan of the loop that certifies, from these selection scores."""
    item, source = Item(index, None, lambda: terms), GivenScores[Item](lambda item, need: scores)
    ((_, planned),) = source.run([item], Procedure(planner, scores.count).planned)
    return planned.plan


def _changes(model: Model, x: Tensor) -> dict[str, Change]:
    """Other units of the pixels, by name, that networks are often made for."""
    if isinstance(model, Denoised):
        return {}  # the denoiser would see the other units
    found: dict[str, Change] = {
        "pixels from 0 to 255 (mean 0, std 0.00392)": lambda x: 255 * x,
        "pixels from −1 to 1 (mean 0.5, std 0.5)": lambda x: 2 * x - 1,
        "inverted pixels": lambda x: 1 - x,
    }
    if isinstance(model, Preprocessed):
        mean, std = model.mean, model.std
        found["pixels without this normalisation"] = lambda x: x * std + mean
    elif x.dim() == 3 and x.shape[0] == 3:
        found["pixels normalised as for ImageNet (mean 0.485,0.456,0.406, std 0.229,0.224,0.225)"] = lambda x: (
            (x - _MEAN.to(x)) / _STD.to(x)
        )
    return found


def evidence_of_settings(job: Job) -> Evidence:
    """The evidence in the settings of a job, for which nothing is sampled."""
    sigma = job.smoothed.sigma if job.method.samples else None
    return Evidence(sigma=sigma, model=job.model.facts, data=job.data.facts)


def _limits(job: Job, largest: tuple[Plan, Terms] | None) -> dict[str, Any]:
    """The largest radius that this plan can certify, and what larger targets need."""
    if largest is None:
        return {}
    plan, terms = largest
    ceiling = largest_radius(plan, terms, terms.n)
    wanted = () if job.sampling.goal is None else job.sampling.goal.targets
    beyond = {target: samples_for(plan, terms, target) for target in wanted if target > ceiling}
    return {"n": terms.n, "alpha": terms.alpha, "ceiling": ceiling, "out_of_reach": beyond}


def samples_for(plan: Plan, terms: Terms, radius: float) -> int | None:
    """The smallest n for which a plan can certify a radius if all samples agree; None if it is beyond reach.

    >>> from lvmrs import Duels, SmoothedClassifier
    >>> smoothed, x = SmoothedClassifier(torch.nn.Identity(), 0.5, batch=100), torch.tensor([1.0, 0.0])
    >>> terms = Terms(0.5, 0.001, 1000)
    >>> plan = Duels().plan(smoothed.scores(x, 100, stage="selection"), terms)
    >>> samples_for(plan, terms, 1.0)
    301
    """
    low, high = 1, 2
    while largest_radius(plan, terms, high) < radius:
        low, high = high, 2 * high
        if high > _MOST_SAMPLES:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if largest_radius(plan, terms, middle) >= radius else (middle, high)
    return high
