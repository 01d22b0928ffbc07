"""Forecasts at several σ: what certifying then gives, intervals of paired differences, and choices made of them."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from lvmrs import Duels, SmoothedClassifier, data, models
from lvmrs.analysis.diagnosis import Evidence
from lvmrs.analysis.metrics import share_interval
from lvmrs.analysis.results import CERTIFIED_SHARE
from lvmrs.data import Arrays
from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel.deterministic import Deterministic
from lvmrs.kernel.method import Goal, Method
from lvmrs.runs import Check, Job, Sampling, Selection, SigmaComparison, compare_sigmas
from lvmrs.runs.sigma import paired_difference
from tests.quick import without_trials

SQUARE = Arrays("a square", "test", np.random.default_rng(0).random((40, 2)), np.zeros(40, int))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    without_trials(monkeypatch)


def job_of(
    sigma: float,
    inputs: data.Dataset = SQUARE,
    method: Method | None = None,
    lipschitz: float | None = None,
    **other: Any,
) -> Job:
    model = models.Loaded.of(nn.Identity(), "larger")
    smoothed = SmoothedClassifier(model.model, sigma, lipschitz, batch=100)
    settings = Sampling(**{"n0": 100, "n": 1000, **other})
    return Job(model, inputs, smoothed, method or Duels(), settings, Selection(len(inputs)))


def made(
    radii: dict[float, np.ndarray], ceilings: dict[float, float] | None = None, *, lipschitz: float | None = None
) -> SigmaComparison:
    """A comparison of candidates with these radii, of shape (inputs,), all of which are certified correctly."""
    found = []
    for sigma, each in radii.items():
        ceiling = 3 * sigma if ceilings is None else ceilings[sigma]
        none = np.zeros(len(each), int)
        evidence = Evidence(classes=2, label=none, clean=none, noisy=none, sigma=sigma, ceiling=ceiling)
        found.append(Check(1000, 100, np.arange(len(each)), evidence, none + 1.0, none, each[:, None], 1000.0, 2000.0))
    jobs = [job_of(sigma, lipschitz=lipschitz) for sigma in radii]
    return SigmaComparison(tuple(jobs), tuple(found), 0.95)


class NearestMean(nn.Module):
    """Answers with the digit whose mean image is nearest."""

    def __init__(self) -> None:
        super().__init__()
        digits = data.load("digits", split="train")
        x, label = digits.many(range(len(digits)))
        self.means = torch.stack([x[label == k].flatten(1).mean(dim=0) for k in range(10)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return -torch.cdist(x.flatten(1), self.means).square()


def test_forecasts_are_near_what_certifying_gives_on_other_inputs() -> None:
    digits, model = data.load("digits"), models.Loaded.of(NearestMean(), "nearest mean")
    jobs: dict[int, list[Job]] = {1: [], 2: []}
    for sigma, shard in itertools.product((0.25, 0.75), jobs):
        smoothed, selection = SmoothedClassifier(model.model, sigma, batch=100), Selection(360, shard=shard, shards=2)
        jobs[shard].append(Job(model, digits, smoothed, Duels(), Sampling(n0=100, n=400), selection))
    found = compare_sigmas(jobs[1], inputs=60, copies=100)
    outcomes = []
    for place, job in enumerate(jobs[2]):
        radii = np.array([row.radius * bool(row.correct) for row in job.rows(job.selection.indices[:60])])
        outcomes.append(radii)
        for radius in (0.1, 0.4, 0.7):
            told, got = found.certified_accuracy(place, radius), share_interval(int((radii >= radius).sum()), 60)
            assert told.low <= got.high
            assert got.low <= told.high
        average = found.average_certified_radius(place)
        assert abs(average.value - radii.mean()) < math.sqrt(2) * (average.high - average.low) / 2
        assert found.ceiling(place) >= radii.max()
    choice = found.choice()
    difference = choice.differences[1 - choice.best]
    got_difference = outcomes[choice.best].mean() - outcomes[1 - choice.best].mean()
    assert abs(got_difference - difference.value) < math.sqrt(2) * (difference.high - difference.low) / 2
    # The smaller sigma certifies more inputs at a small radius, and none at a large one.
    assert found.choice(0.1).best == 0
    assert found.choice(0.9).best == 1
    assert found.seconds(0) > 0


def test_all_candidates_are_checked_on_the_same_inputs_with_as_many_copies() -> None:
    seen: list[tuple[int, int]] = []
    inputs = Arrays("a square", "test", SQUARE.inputs, SQUARE.inputs.argmax(axis=1))
    found = compare_sigmas([job_of(0.5, inputs), job_of(0.1, inputs)], inputs=9, on_input=lambda *n: seen.append(n))
    assert found.sigmas == (0.1, 0.5)
    assert [one.index.tolist() for one in found.checks] == [found.checks[0].index.tolist()] * 2
    assert len({one.copies for one in found.checks}) == 1
    assert seen == [(k, 18) for k in range(1, 19)]
    assert found.measure == "certified accuracy"


def test_without_labels_all_answers_count() -> None:
    inputs = Arrays("a square", "test", SQUARE.inputs, None)
    found = compare_sigmas([job_of(sigma, inputs) for sigma in (0.1, 0.5)], inputs=5, copies=20)
    assert found.measure == CERTIFIED_SHARE
    assert found.certified_accuracy(0, 0.0).value > 0.5


@pytest.mark.parametrize("share", [0.01, 0.05, 0.3])
def test_paired_intervals_hold_as_often_as_they_say(share: float) -> None:
    """Also where few inputs differ, for shares that are 0 or 1 and for radii."""
    generator, inputs, trials = np.random.default_rng(7), 200, 2000
    misses = np.zeros(2)
    for _ in range(trials):
        draws = generator.choice([-1.0, 0.0, 1.0], size=inputs, p=[share / 3, 1 - share, 2 * share / 3])
        sizes = generator.exponential(0.5, size=inputs)
        for k, (each, truth) in enumerate(((draws, share / 3), (draws * sizes, share / 6))):
            found = paired_difference(each, np.zeros(inputs))
            misses[k] += not found.low <= truth <= found.high
    assert (misses / trials <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)).all()


def test_paired_intervals_are_near_those_of_the_bootstrap() -> None:
    generator = np.random.default_rng(3)
    one = generator.exponential(1.0, size=300)
    other = 0.7 * one + generator.exponential(0.2, size=300)
    found, each = paired_difference(one, other), one - other
    means = each[generator.integers(0, 300, size=(4000, 300))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    more = np.abs(each).max() / 300
    assert found.value == pytest.approx(each.mean())
    assert (found.low, found.high) == pytest.approx((low - more, high + more), abs=0.1 * (high - low))
    alone = (one.var() + other.var()) / 300
    assert found.high - found.low < 2 * 1.96 * math.sqrt(alone)  # pairing makes it narrower


def test_few_inputs_do_not_decide_more_than_the_exact_test() -> None:
    """Against a binomial test of the inputs that differ, for all small numbers of them."""
    from scipy import stats

    for better, worse in itertools.product(range(12), range(12)):
        each = np.repeat([1.0, -1.0, 0.0], [better, worse, 200 - better - worse])
        found = paired_difference(each, np.zeros(200))
        if found.low > 0:
            assert stats.binomtest(better, better + worse).pvalue < 0.06, (better, worse)


def test_the_chosen_sigma_is_rarely_called_better_where_all_are_equal() -> None:
    generator, wrong = np.random.default_rng(5), 0
    found = made({sigma: np.zeros(100) for sigma in (0.25, 0.5, 1.0)})
    for _ in range(300):
        level = generator.exponential(0.3, size=100)
        for one in found.checks:
            one.radii[:, 0] = level * generator.uniform(0.5, 1.5, size=100)
        choice = found.choice()
        wrong += any(by.low > 0 for by in choice.differences)
    assert wrong / 300 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)


def test_intervals_hold_where_all_inputs_of_the_sample_differ_alike() -> None:
    """Against the share of rare other inputs that a sample misses with probability 1 in 20."""
    for inputs in (1, 2, 60):
        found = paired_difference(np.full(inputs, 0.1378), np.zeros(inputs), largest=3.0)
        missed = 1 - 0.05 ** (1 / inputs)
        assert found.low == pytest.approx((1 - missed) * 0.1378 - missed * 3)
        assert found.high == pytest.approx((1 - missed) * 0.1378 + missed * 3)
    nothing = np.zeros(60)
    assert paired_difference(nothing, nothing).low == -math.inf
    assert paired_difference(nothing, nothing, largest=1.0).low == pytest.approx(0.05 ** (1 / 60) - 1)


EVEN = np.linspace(0, 1, 100)


def test_a_choice_where_all_inputs_differ_alike() -> None:
    found = made({0.25: np.full(200, 0.7), 0.5: np.full(200, 1.4)})
    assert (found.choice().best, found.choice().decided) == (1, True)
    assert (found.choice(0.72).best, found.choice(0.72).decided) == (1, True)
    assert not found.choice(0.5).decided  # all are certified with both
    few = made({0.25: np.full(2, 0.7), 0.5: np.full(2, 1.4)})
    assert not few.choice().decided
    assert not few.choice(0.72).decided


def test_a_clear_choice() -> None:
    found = made({0.25: 0.5 * EVEN, 0.5: EVEN, 1.0: 0.4 * EVEN})
    choice = found.choice()
    assert (choice.sigmas[choice.best], choice.decided, choice.contenders) == (0.5, True, (1,))
    assert choice.differences[0].value == pytest.approx(0.25)
    assert (choice.inputs_to_decide, found.next_sigma(choice)) == (None, None)
    assert found.choice(0.45).best == 1
    assert found.choice(0.45).values[0].value == pytest.approx(0.1)


def test_an_undecided_choice_says_how_many_inputs_may_decide() -> None:
    noise = np.random.default_rng(0).normal(size=100)
    found = made({0.25: EVEN + 2.0, 0.5: EVEN + 2.02 + 0.1 * (noise - noise.mean()), 1.0: EVEN})
    choice = found.choice()
    assert (choice.best, choice.contenders, choice.decided) == (1, (0, 1), False)
    by = choice.differences[0]
    assert choice.inputs_to_decide == math.ceil(100 * ((by.value - by.low) / by.value) ** 2)
    equal = made({0.25: EVEN, 0.5: EVEN}).choice()
    assert (equal.decided, equal.inputs_to_decide) == (False, None)


def test_beyond_the_edge_another_sigma_is_to_be_tried() -> None:
    rising = made({0.25: 0.5 * EVEN, 0.5: EVEN})
    falling = made({0.25: EVEN, 0.5: 0.5 * EVEN})
    assert rising.next_sigma(rising.choice()) == 1.0
    assert falling.next_sigma(falling.choice()) == 0.125
    assert falling.next_sigma(falling.choice(0.3)) == 0.125
    assert falling.next_sigma(falling.choice(0.4)) is None  # 0.125 has the ceiling 0.375
    assert falling.sigma_to_reach(0.6) == pytest.approx(0.2)
    assert rising.next_sigma(rising.choice(7.0)) == 4.0  # twice 1.0 has the ceiling 6
    assert not rising.choice(7.0).possible
    near = made({0.25: EVEN, 0.5: EVEN}, {0.25: 0.01, 0.5: 0.02})
    assert near.next_sigma(near.choice(1e308)) is None  # no float is large enough
    assert rising.next_sigma(rising.choice(1.2)) is None  # below the ceiling, but no input has this radius
    constant = made({0.25: EVEN, 0.5: 0.5 * EVEN}, lipschitz=1.0)
    assert constant.sigma_to_reach(0.6) is None  # radii are not proportional to sigma
    assert constant.next_sigma(constant.choice(7.0)) == 1.0


def test_radii_beyond_the_ceiling_of_a_sigma_are_not_uncertain() -> None:
    found = made({0.25: 0.7 * EVEN, 0.5: EVEN})
    assert found.certified_accuracy(0, 0.8) == (0.0, 0.0, 0.0)
    few = made({0.25: 0.7 * EVEN, 0.5: 0.81 * EVEN})
    assert few.choice(0.8).decided  # one input in 100, and none is possible with the other
    assert few.choice(0.8).differences[0] == few.certified_accuracy(1, 0.8)
    assert not few.choice(0.9).possible
    curve = found.curve(0)
    assert curve.high[curve.radius > 0.75].max() == 0.0
    assert curve.share[0] == pytest.approx(0.99)
    assert curve.radius[-1] == pytest.approx(1.03)


def test_jobs_that_cannot_be_compared() -> None:
    other = Arrays("another", "test", SQUARE.inputs + 0, SQUARE.labels)
    moved = Arrays("a square", "test", SQUARE.inputs[::-1].copy(), SQUARE.labels)
    whole = job_of(0.5)
    part = Job(whole.model, SQUARE, whole.smoothed, whole.method, whole.sampling, Selection(40, skip=2))
    paired = "jobs are on different inputs, so that their differences cannot be paired; give all of them the same"
    refused: list[tuple[list[Job], str]] = [
        ([], "jobs must be Jobs, and there is none; give at least one"),
        ([job_of(0.5)], "there must be at least two sigmas to choose from, got 1"),
        ([job_of(0.5), job_of(0.5)], "sigma = 0.5 is given twice; give each sigma once"),
        ([job_of(0.25), job_of(0.5, moved)], paired),
        ([job_of(0.25), part], paired),
        ([job_of(0.25), job_of(0.5, n=500)], "jobs differ in their sampling"),
        ([job_of(0.25), job_of(0.5, goal=Goal((0.1,)))], "are for a fixed number of samples; give no goal"),
        ([job_of(0.25), job_of(0.5, method=Deterministic(), lipschitz=2.0)], "Deterministic takes no samples under"),
    ]
    for jobs, sentence in refused:
        with pytest.raises(InvalidArgumentError, match=sentence.replace("(", r"\(")):
            compare_sigmas(jobs)
    with pytest.raises(InvalidArgumentError, match="confidence must lie strictly between 0 and 1"):
        compare_sigmas([job_of(0.25), job_of(0.5)], confidence=1.0)
    with pytest.raises(InvalidArgumentError, match="radius must be"):
        made({0.25: EVEN, 0.5: EVEN}).choice(-1.0)
    assert len(compare_sigmas([job_of(0.25), job_of(0.5, other)], inputs=2, copies=20).checks) == 2  # the same inputs
    assert torch.equal(torch.as_tensor(SQUARE.inputs), torch.as_tensor(other.inputs))
