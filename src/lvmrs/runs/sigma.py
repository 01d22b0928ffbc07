"""Which σ to take: forecasts at several σ on the same inputs, and paired intervals of their differences.

Each candidate is a job with its own σ, and often its own network, trained for that σ. ``check`` forecasts each of them
on the same inputs. The forecast of an input at one radius is a probability, and for the average radius an expected
radius; two candidates are compared by the differences of these numbers, input by input.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from lvmrs.analysis.metrics import Curve, Estimate, mean_interval, share_interval
from lvmrs.analysis.results import CERTIFIED_ACCURACY, CERTIFIED_SHARE
from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks
from lvmrs.kernel.checks import Floats
from lvmrs.runs.check import INPUTS, Check, average_radius, check
from lvmrs.runs.job import Job

# Points of a curve.
_POINTS = 300


@dataclass(frozen=True)
class SigmaChoice:
    """The σ with the best forecast for one purpose, and how surely it is better than each other σ."""

    radius: float | None
    """The radius at which accuracy is certified; None for the average certified radius."""
    sigmas: tuple[float, ...]
    """All candidates, in ascending order."""
    values: tuple[Estimate, ...]
    """The forecast of each candidate, with an interval for the choice of the inputs."""
    differences: tuple[Estimate, ...]
    """Forecast of the best candidate minus that of each candidate, paired. All intervals hold together."""
    inputs: int
    """Number of inputs that were compared."""

    @property
    def best(self) -> int:
        """The place of the candidate with the largest forecast."""
        return _best([value.value for value in self.values])

    @property
    def possible(self) -> bool:
        """Whether any candidate is expected to certify anything."""
        return self.values[self.best].value > 0

    @property
    def contenders(self) -> tuple[int, ...]:
        """The places of the candidates that are not shown to be worse than another one."""
        return tuple(k for k, by in enumerate(self.differences) if k == self.best or not by.low > 0)

    @property
    def decided(self) -> bool:
        """Whether the best candidate is shown to be better than every other one."""
        return self.possible and len(self.contenders) == 1

    @property
    def inputs_to_decide(self) -> int | None:
        """A guess of how many inputs would decide, if all differences stay as they are; None if there is no guess."""
        needed = [_inputs_to_decide(self.differences[k], self.inputs) for k in self.contenders if k != self.best]
        return None if not needed or None in needed else max(n for n in needed if n is not None)


@dataclass(frozen=True, eq=False)
class SigmaComparison:
    """Forecasts at several σ, on the same inputs."""

    jobs: tuple[Job, ...]
    """One job for each σ, in ascending order of σ."""
    checks: tuple[Check, ...]
    """The check of each job."""
    confidence: float
    """Confidence level of the intervals."""

    @property
    def sigmas(self) -> tuple[float, ...]:
        """The candidates, in ascending order."""
        return tuple(job.smoothed.sigma for job in self.jobs)

    @property
    def measure(self) -> str:
        """What is forecast at a radius: certified accuracy, or without labels the certified share."""
        return CERTIFIED_ACCURACY if self.checks[0].labelled else CERTIFIED_SHARE

    def seconds(self, place: int) -> float:
        """Expected seconds for an input, in one process, of the candidate at this place."""
        return self.checks[place].seconds / self.checks[place].inputs

    def ceiling(self, place: int) -> float:
        """The largest radius that the candidate at this place can certify with this n and α; infinite if unknown."""
        found = self.checks[place].evidence.ceiling
        return math.inf if found is None else found

    @property
    def highest_ceiling(self) -> float:
        """The largest radius that any candidate can certify with this n and α."""
        return max(map(self.ceiling, range(len(self.jobs))))

    def certified_accuracy(self, place: int, radius: float) -> Estimate:
        """Forecast for the candidate at this place, with an interval for the choice of the inputs."""
        if radius > self.ceiling(place):
            return Estimate(0.0, 0.0, 0.0)
        found = self.checks[place].certified(radius)
        return share_interval(float(found.sum()), len(found), self.confidence)

    def average_certified_radius(self, place: int) -> Estimate:
        """Forecast for the candidate at this place, with an interval for the choice of the inputs."""
        return average_radius(self.checks[place].expected_radii, self.confidence)

    def curve(self, place: int) -> Curve:
        """The forecast of certified accuracy against the radius, for the candidate at this place."""
        end = 1.03 * max(float(found.radii.max()) for found in self.checks) or 1.0
        radii = np.linspace(0, end, _POINTS)
        shares = np.array([self.certified_accuracy(place, radius) for radius in radii.tolist()])
        return Curve(radii, *shares.T)

    def choice(self, radius: float | None = None) -> SigmaChoice:
        """Compare the candidates.

        Args:
            radius: the radius at which accuracy is certified; None for the average certified radius.

        Returns:
            The best candidate and its differences to the others. At the confidence level of the comparison, the
            intervals of all differences between candidates hold together (Bonferroni), so that the choice of the best
            one on the same inputs does not invalidate them.
        """
        if radius is None:
            each = [found.expected_radii for found in self.checks]
            values = [self.average_certified_radius(k) for k in range(len(self.jobs))]
        else:
            radius = checks.nonnegative_number("radius", radius)
            each = [found.certified(radius) for found in self.checks]
            values = [self.certified_accuracy(k, radius) for k in range(len(self.jobs))]
        best, pairs = each[_best([value.value for value in values])], math.comb(len(each), 2)
        confidence = 1 - (1 - self.confidence) / pairs
        largest = self.highest_ceiling if radius is None else 1.0
        differences = [
            # A candidate that cannot reach the radius certifies nothing there, on any input.
            paired_difference(best, other, confidence, largest)
            if radius is None or radius <= self.ceiling(k)
            else share_interval(float(best.sum()), len(best), confidence)
            for k, other in enumerate(each)
        ]
        return SigmaChoice(radius, self.sigmas, tuple(values), tuple(differences), len(best))

    def next_sigma(self, choice: SigmaChoice) -> float | None:
        """A σ beyond those that were tried, where the best one is the largest or smallest of them.

        It is twice the largest, or half the smallest unless this n and α do not allow the radius with that. A radius
        beyond the reach of all of them needs a larger σ. None if the best lies between others, or nothing is certified.
        """
        least, most, radius = self.sigmas[0], self.sigmas[-1], choice.radius or 0.0
        to_reach = self.sigma_to_reach(radius) or 0.0
        if radius > self.highest_ceiling:
            return _doubled(2 * most, to_reach)
        if not choice.possible:
            return None
        if choice.sigmas[choice.best] == most:
            return 2 * most
        return least / 2 if choice.sigmas[choice.best] == least and least / 2 > to_reach else None

    def sigma_to_reach(self, radius: float) -> float | None:
        """The σ from which on this n and α allow a radius; None if radii are not proportional to σ.

        Radii are proportional to σ unless they rely on a Lipschitz constant.
        """
        if any(math.isfinite(job.smoothed.lipschitz) for job in self.jobs):
            return None
        slopes = [self.ceiling(k) / sigma for k, sigma in enumerate(self.sigmas)]
        return radius / max(slopes) if max(slopes) > 0 else None


def compare_sigmas(
    jobs: Sequence[Job],
    *,
    inputs: int = INPUTS,
    copies: int | None = None,
    confidence: float = 0.95,
    on_input: Callable[[int, int], None] = lambda done, total: None,
) -> SigmaComparison:
    """Forecast what several σ would certify on the same inputs.

    Args:
        jobs: one job for each σ, on the same data, selection and sampling. Nothing is certified or written.
        inputs: how many inputs to compare, spread evenly, or all if there are fewer; fewer if the network is slow.
        copies: noisy copies of each input; by default 100, or fewer if the network is slow.
        confidence: confidence level of the intervals, strictly between 0 and 1.
        on_input: called with the numbers of forecasts done and to do.

    Returns:
        The forecasts, and choices among them.

    >>> import torch
    >>> from lvmrs import Duels, SmoothedClassifier, data, models, runs
    >>> x = np.random.default_rng(0).random((60, 2))
    >>> inputs, model = data.Arrays("a square", "test", x, x.argmax(axis=1)), models.Loaded.of(torch.nn.Identity(), "a")
    >>> smoothed = [SmoothedClassifier(model.model, sigma, batch=100) for sigma in (0.05, 0.5)]
    >>> settings = runs.Sampling(n=1000), runs.Selection(60)
    >>> found = compare_sigmas([runs.Job(model, inputs, each, Duels(), *settings) for each in smoothed])
    >>> choice = found.choice()
    >>> choice.sigmas[choice.best], choice.decided, found.next_sigma(choice)
    (0.5, True, 1.0)
    """
    given = checks.instances("jobs", jobs, Job, "Jobs")
    checks.fraction("confidence", confidence)
    ordered = sorted(given, key=lambda job: job.smoothed.sigma)
    _check_comparable(ordered)
    found: list[Check] = []
    for k, job in enumerate(ordered):
        # The speed of the first network decides how many inputs all candidates are compared on.
        if found:
            inputs, copies = len(found[0].index), found[0].copies
        found.append(check(job, inputs=inputs, copies=copies, on_input=partial(_shown, on_input, k, len(ordered))))
    return SigmaComparison(tuple(ordered), tuple(found), confidence)


def paired_difference(one: Floats, other: Floats, confidence: float = 0.95, largest: float = math.inf) -> Estimate:
    """The mean of ``one - other``, input by input, with an interval for the choice of the inputs.

    This is Student's interval, widened at both ends by the largest difference of a single input divided by their
    number. For differences of 0 and ±1 that is the continuity correction of McNemar's test (Edwards 1948): without it,
    the interval is too narrow if few inputs differ.

    If all differences are equal, Student's interval has no width. Then the interval allows for the largest share of
    other inputs that this sample is likely to miss (Clopper and Pearson 1934).

    Args:
        one: a number for each input.
        other: another number for each input.
        confidence: confidence level of the interval.
        largest: the largest possible difference of one input.

    >>> one, other = np.repeat([1.0, 0.0], [6, 94]), np.zeros(100)
    >>> mean, low, high = paired_difference(one, other)
    >>> print(f"{mean:.3f}, between {low:.4f} and {high:.4f}")
    0.060, between 0.0026 and 0.1174
    >>> mean, low, high = paired_difference(np.ones(100), other, largest=1.0)
    >>> print(f"{mean:.3f}, between {low:.4f} and {high:.4f}")
    1.000, between 0.9410 and 1.0000
    """
    each = one - other
    if np.ptp(each) == 0:
        same = (1 - confidence) ** (1 / len(each))
        return Estimate(float(each[0]), same * each[0] - (1 - same) * largest, same * each[0] + (1 - same) * largest)
    found, more = mean_interval(each, confidence), float(np.abs(each).max()) / len(each)
    return Estimate(found.value, found.low - more, found.high + more)


def _check_comparable(jobs: Sequence[Job]) -> None:
    """Raise unless the jobs differ in σ and model only, and each has another σ; they are in ascending order of σ."""
    if len(jobs) < 2:
        raise InvalidArgumentError(f"there must be at least two sigmas to choose from, got {len(jobs)}")
    for job in jobs:
        if not job.method.samples:
            raise InvalidArgumentError(f"{type(job.method).__name__} takes no samples under noise, so it has no sigma")
        if job.sampling.goal is not None:
            raise InvalidArgumentError("forecasts at several sigmas are for a fixed number of samples; give no goal")
    for one, other in itertools.pairwise(jobs):
        if one.smoothed.sigma == other.smoothed.sigma:
            raise InvalidArgumentError(f"sigma = {one.smoothed.sigma:g} is given twice; give each sigma once")
        if one.sampling != other.sampling:
            raise InvalidArgumentError("jobs differ in their sampling (alpha, n0, n, seed); give all of them the same")
        same_data = one.data is other.data or one.data.fingerprint() == other.data.fingerprint()
        if not same_data or one.selection != other.selection:
            raise InvalidArgumentError(
                "jobs are on different inputs, so that their differences cannot be paired; give all of them the same "
                "data and selection"
            )


def _doubled(sigma: float, least: float) -> float | None:
    """The first of σ, 2σ, 4σ, … that is above a number; None if it is too large for a float."""
    while sigma <= least and math.isfinite(sigma):
        sigma *= 2
    return sigma if math.isfinite(sigma) else None


def _best(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def _inputs_to_decide(difference: Estimate, inputs: int) -> int | None:
    """How many inputs make the interval half as wide as the difference, since it shrinks as 1/√inputs."""
    if not difference.value > 0 or not math.isfinite(difference.low):
        return None
    return math.ceil(inputs * ((difference.value - difference.low) / difference.value) ** 2)


def _shown(on_input: Callable[[int, int], None], place: int, jobs: int, done: int, total: int) -> None:
    on_input(place * total + done, jobs * total)
