"""The anytime bounds hold whatever makes one stop; a bound for one n that is looked at again and again does not.

The adversary looks at each bound at many moments and stops at the first at which it is false. So a sequence of samples
counts as false if its bound is on the wrong side of the mean at *any* look.
"""

import numpy as np
import pytest

from lvmrs.kernel.bounds import beta_mixture, betting_mixture, clopper_pearson
from lvmrs.testing import too_many
from tests.oracles import Floats
from tests.statistical.coverage import DISTRIBUTIONS, Distribution, bernoulli

PRIORS = {"plain": (0.5, 0.5), "informed": (32.5, 0.8), "misled": (2.0, 40.0)}


def looks(n: int) -> list[int]:
    """About 40 moments up to n, each a little later than the one before."""
    return sorted(set(np.geomspace(1, n, 45).astype(int).tolist()))


def ever_false(bounds: dict[int, Floats], mean: float, side: str) -> int:
    """How many sequences have a bound on the wrong side of the mean at some look."""
    wrong = [bound > mean + 1e-12 if side == "lower" else bound < mean - 1e-12 for bound in bounds.values()]
    return int(np.any(wrong, axis=0).sum())


def drawn(distribution: Distribution, n: int, repeats: int) -> Floats:
    return distribution.draw(np.random.default_rng([n, repeats]), (repeats, n))


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", [name for name, known in DISTRIBUTIONS.items() if known.binary])
def test_bounds_on_counts_are_false_at_any_time_no_more_often_than_the_risk(name: str, prior: str) -> None:
    distribution, repeats = DISTRIBUTIONS[name], 1500
    counts = np.cumsum(drawn(distribution, 3000, repeats), axis=1)
    for risk in (0.05, 0.01):
        for side in ("lower", "upper"):
            bound = getattr(beta_mixture, side)
            bounds = {t: bound(counts[:, t - 1], t, risk, prior=PRIORS[prior]) for t in looks(3000)}
            wrong = ever_false(bounds, distribution.mean, side)
            assert not too_many(wrong, repeats, risk), f"{wrong} of {repeats} {side} bounds are ever false"


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_bounds_by_betting_are_false_at_any_time_no_more_often_than_the_risk(name: str) -> None:
    distribution, repeats, n = DISTRIBUTIONS[name], 250, 2000
    samples = drawn(distribution, n, repeats)
    for side, values, mean in (("lower", samples, distribution.mean), ("upper", 1 - samples, 1 - distribution.mean)):
        sums = np.stack([np.cumsum((values - 0.5) ** k, axis=1) for k in range(5)])
        bounds = {t: betting_mixture.lower_from_sums(sums[:, :, t - 1], 0.05) for t in looks(n)}
        wrong = ever_false(bounds, mean, "lower")
        assert not too_many(wrong, repeats, 0.05), f"{wrong} of {repeats} {side} bounds are ever false"


def test_the_bounds_are_not_far_from_their_risk() -> None:
    """A bound that is never false would be no use: at a large risk some are false, on long sequences."""
    repeats, risk = 600, 0.2
    counts = np.cumsum(drawn(bernoulli(0.6), 3000, repeats), axis=1)
    bounds = {t: beta_mixture.lower(counts[:, t - 1], t, risk) for t in looks(3000)}
    assert 0.02 * repeats < ever_false(bounds, 0.6, "lower") <= risk * repeats * 1.2


# Mutants: what must not be done, done on purpose.


def test_the_adversary_catches_a_bound_for_one_n_that_is_looked_at_again_and_again() -> None:
    repeats, risk = 600, 0.05
    counts = np.cumsum(drawn(bernoulli(0.7), 3000, repeats), axis=1)
    for side in ("lower", "upper"):
        bound = getattr(clopper_pearson, side)
        bounds = {t: bound(counts[:, t - 1], t, risk) for t in looks(3000)}
        assert too_many(ever_false(bounds, 0.7, side), repeats, risk)
        last = {3000: bounds[3000]}
        assert not too_many(ever_false(last, 0.7, side), repeats, risk)  # at one n it holds


def test_the_adversary_catches_a_prior_that_follows_the_samples() -> None:
    """The best prior for the samples so far: the evidence is then the largest likelihood, and no fair game."""
    repeats, risk = 600, 0.05
    counts = np.cumsum(drawn(bernoulli(0.7), 3000, repeats), axis=1)
    bounds = {}
    for t in looks(3000):
        k = counts[:, t - 1]
        bounds[t] = beta_mixture.lower(k, t, risk, prior=(100 * k + 0.5, 100 * (t - k) + 0.5))
    assert too_many(ever_false(bounds, 0.7, "lower"), repeats, risk)


def test_the_adversary_catches_the_best_stake_in_hindsight() -> None:
    """All wealth to the gambler who would have won most, instead of a share for each."""
    repeats, risk, mean = 1500, 0.05, 0.7
    samples = drawn(bernoulli(mean), 1500, repeats)
    stakes = np.minimum(1.98 * 1.6 ** -np.arange(14.0), 0.99 / mean)
    best = np.full(repeats, -np.inf)
    for stake in stakes:
        best = np.maximum(best, np.cumsum(np.log1p(stake * (samples - mean)), axis=1).max(axis=1))
    assert too_many(int((best >= np.log(1 / risk)).sum()), repeats, risk)
