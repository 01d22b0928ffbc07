"""The anytime bounds against slow ones that are obviously right. tests/statistical counts how often they are false."""

import itertools
import math
import pickle

import numpy as np
import pytest
import torch
from scipy import optimize, special

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel.bounds import beta_mixture, betting_mixture, clopper_pearson
from lvmrs.kernel.bounds.beta_mixture import BetaMixture
from lvmrs.kernel.bounds.betting_mixture import BettingMixture
from tests.oracles import Floats


def evidence(throws: tuple[int, ...], q: float, a: float, b: float) -> float:
    """What a bookmaker with the prior Beta(a, b) makes of these throws, one by one, against a coin of mean q."""
    wealth, ones, zeros = 1.0, a, b
    for one in throws:
        expected = ones / (ones + zeros)
        wealth *= expected / q if one else (1 - expected) / (1 - q)
        ones, zeros = ones + one, zeros + 1 - one
    return wealth


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (20.5, 1.5), (1.0, 30.0)])
def test_the_evidence_is_a_fair_game_and_the_bounds_are_where_it_reaches_the_goal(a: float, b: float) -> None:
    q, risk = 0.7, 0.05
    games = {throws: evidence(throws, q, a, b) for throws in itertools.product((0, 1), repeat=9)}
    chances = {throws: q ** sum(throws) * (1 - q) ** (9 - sum(throws)) for throws in games}
    assert sum(games[throws] * chances[throws] for throws in games) == pytest.approx(1.0)
    for throws in games:
        low = float(beta_mixture.lower(sum(throws), 9, risk, prior=(a, b)))
        high = float(beta_mixture.upper(sum(throws), 9, risk, prior=(a, b)))
        assert low <= sum(throws) / 9 <= high
        for bound, outside in ((low, low * (1 - 1e-5)), (high, 1 - (1 - high) * (1 - 1e-5))):
            if 0 < bound < 1:
                assert evidence(throws, bound, a, b) == pytest.approx(1 / risk, rel=1e-6)
                assert evidence(throws, outside, a, b) > 1 / risk


@pytest.mark.parametrize("n", [1, 30, 1000, 100_000])
@pytest.mark.parametrize("share", [0.0, 0.003, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("risk", [0.05, 1e-3, 1e-9])
def test_the_root_is_found_for_every_count(n: int, share: float, risk: float) -> None:
    count = round(share * n)
    found = float(beta_mixture.lower(count, n, risk, prior=(32.5, 0.5)))
    if count == 0:
        assert found == 0
        return

    def beyond(log_q: float) -> float:
        of_zeros = special.xlog1py(n - count, -np.exp(log_q))
        mixture = special.betaln(32.5 + count, 0.5 + n - count) - special.betaln(32.5, 0.5)
        return float(mixture - count * log_q - of_zeros + np.log(risk))

    right = np.exp(optimize.brentq(beyond, -1e5, np.log(count / n) - 1e-15, xtol=1e-15))
    assert found <= right
    assert found == pytest.approx(right, rel=1e-6)
    assert found <= float(clopper_pearson.lower(count, n, risk)) + 1e-12  # holding at one n is easier than at all


def test_a_prior_close_to_the_truth_makes_bounds_narrower() -> None:
    plain, informed, misled = (
        float(beta_mixture.lower(297, 300, 0.001, prior=prior)) for prior in ((0.5, 0.5), (32.5, 0.8), (0.5, 30.5))
    )
    assert misled < plain < informed < 0.99


def wealth(samples: Floats, m: float) -> float:
    """The logarithm of the wealth of all gamblers, sample by sample."""
    stakes = np.minimum(1.98 * 1.6 ** -np.arange(14.0), 0.99 / m)
    return float(special.logsumexp(np.log1p(stakes[:, None] * (samples - m)).sum(axis=1)) - np.log(14))


def draws() -> list[Floats]:
    random = np.random.default_rng(0)
    return [
        random.beta(60, 2, 300), random.beta(0.02, 2, 2000), 1 - random.beta(0.02, 2, 500), random.random(50),
        (random.random(400) < 0.95).astype(float), np.full(200, 0.75), np.ones(100), np.zeros(100), np.array([0.3]),
    ]  # fmt: skip


def test_the_bound_on_the_wealth_is_below_the_wealth_and_close_to_it() -> None:
    for samples in draws():
        sums = betting_mixture.power_sums(samples)[:, None]
        points = np.linspace(0.001, 0.999, 200)
        found = betting_mixture._log_wealth(sums, points[None])[0]
        plain = np.array([wealth(samples, m) for m in points])
        assert (np.diff(plain) <= 1e-9).all()  # it falls in m
        assert (found <= plain + 1e-9).all()
    zeros_and_ones = (np.random.default_rng(1).random(1000) < 0.97).astype(float)
    found = betting_mixture._log_wealth(betting_mixture.power_sums(zeros_and_ones)[:, None], np.array([[0.95]]))
    assert float(found[0, 0]) == pytest.approx(wealth(zeros_and_ones, 0.95), abs=0.01)


def test_the_wealth_is_a_fair_game() -> None:
    games = [np.array(throws, dtype=float) for throws in itertools.product((0, 1), repeat=8)]
    for m in (0.2, 0.9):
        expected = sum(
            np.exp(wealth(throws, m)) * m ** throws.sum() * (1 - m) ** (8 - throws.sum()) for throws in games
        )
        assert expected == pytest.approx(1.0)


@pytest.mark.parametrize("risk", [0.05, 0.001])
def test_means_below_the_bound_are_rejected_and_the_search_loses_little(risk: float) -> None:
    for samples in draws():
        low = float(betting_mixture.lower(samples, risk))
        if low > 0:
            assert wealth(samples, low) >= np.log(1 / risk)
        points = np.linspace(1e-6, samples.mean(), 4001)
        found = betting_mixture._log_wealth(betting_mixture.power_sums(samples)[:, None], points[None])[0]
        rejected = points[found >= np.log(1 / risk) + 1e-6]
        best = rejected.max(initial=0.0)
        assert low >= best - (samples.mean() - best) / 100
        assert float(betting_mixture.upper(1 - samples, risk)) == pytest.approx(1 - low, abs=1e-12)


def test_mass_and_shapes() -> None:
    samples = np.random.default_rng(0).beta(8, 2, (2, 3, 100))
    whole = betting_mixture.lower(samples, np.array([0.01, 0.02, 0.05]))
    assert whole.shape == (2, 3)
    assert whole[1, 2] == betting_mixture.lower(samples[1, 2], 0.05)
    assert betting_mixture.lower(3 * samples, 0.05, mass=3.0) == pytest.approx(3 * betting_mixture.lower(samples, 0.05))
    assert beta_mixture.lower(9, 10, 0.05, mass=2.0) == 2 * beta_mixture.lower(9, 10, 0.05)
    assert beta_mixture.upper([1, 2], [10, 20], 0.05).shape == (2,)


def test_tallies_give_the_bounds_of_the_functions_at_every_moment() -> None:
    random = np.random.default_rng(2)
    soft = torch.from_numpy(random.beta(5, 2, (90, 2)))
    hard = soft > 0.6
    risks, upper = np.array([0.01, 0.02]), np.array([False, True])
    of_votes, of_scores = (
        BetaMixture((3.0, 1.0), (1.0, 2.0)).tally(90, risks, upper),
        BettingMixture().tally(90, risks, upper),
    )
    for stop in (30, 60, 90):
        of_votes.add(hard[stop - 30 : stop])
        of_scores.add(soft[stop - 30 : stop])
        of_votes, of_scores = pickle.loads(pickle.dumps((of_votes, of_scores)))  # noqa: S301 (our own bytes)
        wins = hard[:stop].sum(dim=0).numpy()
        assert of_votes.bounds() == pytest.approx([
            float(beta_mixture.lower(wins[0], stop, 0.01, prior=(3.0, 1.0))),
            float(beta_mixture.upper(wins[1], stop, 0.02, prior=(1.0, 2.0))),
        ], abs=1e-14)  # fmt: skip
        values = soft[:stop].numpy()
        assert of_scores.bounds() == pytest.approx(
            [float(betting_mixture.lower(values[:, 0], 0.01)), float(betting_mixture.upper(values[:, 1], 0.02))],
            rel=1e-9,
        )
    assert BetaMixture().tally(9, risks, upper).bounds().tolist() == [0.0, 1.0]  # before the first sample
    assert BettingMixture().tally(9, risks, upper).bounds().tolist() == [0.0, 1.0]


def test_bad_input() -> None:
    with pytest.raises(InvalidArgumentError, match="count must not exceed n"):
        beta_mixture.lower(11, 10, 0.05)
    with pytest.raises(InvalidArgumentError, match="prior must be"):
        beta_mixture.lower(5, 10, 0.05, prior=(0.0, 1.0))
    with pytest.raises(InvalidArgumentError, match="one number for each column"):
        BetaMixture((1.0,), ())
    with pytest.raises(InvalidArgumentError, match="for 1 columns, and there are 2"):
        BetaMixture((1.0,), (1.0,)).tally(9, np.array([0.1, 0.1]), np.array([False, False]))
    with pytest.raises(InvalidArgumentError, match="sums must have 5 rows"):
        betting_mixture.lower_from_sums(np.ones(3), 0.05)
    with pytest.raises(InvalidArgumentError, match="samples"):
        betting_mixture.lower([0.5, 1.5], 0.05)


@pytest.mark.parametrize("part", [1e300, 1e15, 1.1e6, 9e-7, 1e-300])
def test_priors_with_which_the_evidence_loses_its_digits_are_refused(part: float) -> None:
    """With the prior (1e15, 1e15) the bound for 60 of 100 was .6: that of no risk at all."""
    for prior in ((part, part), (part, 0.5), (0.5, part)):
        for bound in (beta_mixture.lower, beta_mixture.upper):
            with pytest.raises(InvalidArgumentError, match=r"prior must lie between 1e-06 and 1e\+06, got"):
                bound(60, 100, 0.001, prior=prior)
        with pytest.raises(InvalidArgumentError, match=r"(wins|losses) must lie between"):
            BetaMixture((prior[0],), (prior[1],))


@pytest.mark.parametrize("a", [1e6, 1e-6, 0.5])
@pytest.mark.parametrize("b", [1e6, 1e-6, 0.5])
def test_the_largest_and_smallest_priors_are_sound(a: float, b: float) -> None:
    throws = np.random.default_rng(0).random((400, 2000)) < 0.5
    ones = throws.cumsum(axis=1)[:, 49::50]
    n = np.arange(50, 2001, 50)
    low, high = (bound(ones, n, 0.02, prior=(a, b)) for bound in (beta_mixture.lower, beta_mixture.upper))
    assert (low > 0.5).any(axis=1).sum() <= 18  # as many of 400 have a probability of 0.0006 at a risk of 0.02
    assert (high < 0.5).any(axis=1).sum() <= 18


@pytest.mark.parametrize("a", [1e6, 3e5, 20.0, 0.5, 1e-6])
@pytest.mark.parametrize("b", [1e6, 0.5, 1e-6])
def test_rounding_moves_the_evidence_by_less_than_is_allowed_for(a: float, b: float) -> None:
    """The evidence after n samples is a product of n fractions, whose logarithms are summed without error."""
    for ones, zeros in ((3, 0), (40, 2), (1000, 1000), (0, 2000)):
        steps = [math.log((a + k) / (a + b + k)) for k in range(ones)]
        steps += [math.log((b + k) / (a + b + ones + k)) for k in range(zeros)]
        found = special.betaln(a + ones, b + zeros) - special.betaln(a, b)
        assert abs(found - math.fsum(steps)) < 0.5e-7
