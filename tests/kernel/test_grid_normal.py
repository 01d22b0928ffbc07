"""Whole numbers of steps are drawn as the normal distribution says, to the last of 64 bits."""

from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel.exact_noise import GridNormal, grid_normal
from lvmrs.kernel.noise import Stream

SCALES = [Fraction(1, 20), Fraction(1, 2), Fraction(8), Fraction(0.25) * 255, Fraction(255, 2), Fraction(0.1) * 1000]


def probabilities(scale: Fraction, largest: int) -> list[mpmath.mpf]:
    """Those of −largest to largest, computed with other means and 60 digits; the outermost have the tails."""
    with mpmath.workdps(60):
        unit = mpmath.mpf(scale.denominator) / scale.numerator
        edges = [mpmath.ncdf((k + mpmath.mpf(1) / 2) * unit) for k in range(-largest, largest)]
        return [b - a for a, b in zip([mpmath.mpf(0), *edges], [*edges, mpmath.mpf(1)], strict=True)]


@pytest.mark.parametrize("scale", SCALES)
def test_the_distance_to_the_distribution_is_within_its_bound(scale: Fraction) -> None:
    numbers = grid_normal(scale)
    edges = [0, *map(int, numbers.thresholds), 1 << 64]
    counts = np.diff(np.array(edges, dtype=object))
    with mpmath.workdps(60):
        meant = probabilities(scale, numbers.largest)
        distance = sum(abs(mpmath.mpf(int(c)) / 2**64 - p) for c, p in zip(counts, meant, strict=True)) / 2
        tails = 2 * mpmath.ncdf(-(numbers.largest + mpmath.mpf(1) / 2) * scale.denominator / scale.numerator)
        assert distance + tails <= numbers.error
    assert numbers.error <= (20 * float(scale) + 8) * 2**-64
    assert (np.diff(numbers.thresholds.astype(object)) >= 0).all()


@pytest.mark.parametrize("scale", SCALES)
def test_the_table_agrees_with_all_64_bits(scale: Fraction) -> None:
    """The table is a shortcut: what is drawn is what the same bits give by the thresholds alone."""
    numbers = grid_normal(scale)
    out = np.empty(100_001, numbers.table.dtype)
    numbers.fill(out, Stream(3, 1, "selection").generator(0))
    raw = Stream(3, 1, "selection").generator(0).bit_generator.random_raw
    first = raw(-(-out.size // 4)).view(np.uint16)[: out.size]
    open_ = numbers.table[first] == np.iinfo(numbers.table.dtype).min
    whole = first.astype(np.uint64) << np.uint64(48)
    whole[open_] |= raw(int(open_.sum())) >> np.uint64(16)
    # Where the table decides, the other 48 bits may be anything.
    for rest in (np.uint64(0), np.uint64((1 << 48) - 1)):
        assert np.array_equal(numbers.numbers_of(np.where(open_, whole, whole | rest)), out)


@pytest.mark.parametrize("scale", SCALES)
def test_a_comparison_decides_as_a_search_does(scale: Fraction) -> None:
    """At every threshold, just below it, and at both ends of its first 16 bits; in the tails several have the same."""
    numbers = grid_normal(scale)
    low = numbers.thresholds >> np.uint64(48) << np.uint64(48)
    ends = low, low | np.uint64((1 << 48) - 1), numbers.thresholds, numbers.thresholds - np.uint64(1)
    uniform = np.concatenate(ends)
    first = (uniform >> np.uint64(48)).astype(np.uint16)
    open_ = numbers.table[first] == np.iinfo(numbers.table.dtype).min
    assert open_.sum() >= len(open_) / 2
    assert np.array_equal(numbers._decided(first[open_], uniform[open_]), numbers.numbers_of(uniform[open_]))


def slow_draw(scale: Fraction, uniform: int) -> int:
    """The number that a 64-bit integer stands for, by the definition alone."""
    k = round(float(scale) * float(np.clip(stats.norm.ppf(uniform / 2**64), -9, 9)))
    with mpmath.workdps(60):
        share = mpmath.mpf(uniform) / 2**64
        unit = mpmath.mpf(scale.denominator) / scale.numerator
        while mpmath.ncdf((k + mpmath.mpf(1) / 2) * unit) <= share:
            k += 1
        while mpmath.ncdf((k - mpmath.mpf(1) / 2) * unit) > share:
            k -= 1
    return k


@pytest.mark.parametrize("scale", SCALES)
def test_numbers_are_those_of_a_slow_search(scale: Fraction) -> None:
    random = np.random.default_rng(0)
    uniform = random.integers(0, 1 << 64, 20, dtype=np.uint64, endpoint=False)
    extremes = np.array([1 << 30, 1 << 50, 1 << 63, (1 << 64) - (1 << 30)], dtype=np.uint64)
    given = np.concatenate([uniform, extremes])
    numbers = grid_normal(scale)
    assert numbers.numbers_of(given).tolist() == [slow_draw(scale, int(u)) for u in given]


def chi_square(numbers: GridNormal, draws: int, block: int) -> tuple[float, float]:
    """The p-value of the counts of all numbers, and the larger deviation of mean and variance in standard errors."""
    out, counts = np.empty(block, numbers.table.dtype), np.zeros(2 * numbers.largest + 1, np.int64)
    for number in range(draws // block):
        numbers.fill(out, Stream(0, 7, "certification").generator(number))
        counts += np.bincount(out.astype(np.int64) + numbers.largest, minlength=len(counts))
    values = np.arange(-numbers.largest, numbers.largest + 1)
    total = counts.sum()
    edges = np.concatenate([[0.0], numbers.thresholds.astype(float), [2.0**64]])
    expected = np.diff(edges) / 2**64 * total
    keep = expected >= 10
    seen = np.append(counts[keep], counts[~keep].sum())
    meant = np.append(expected[keep], max(expected[~keep].sum(), 1e-9))
    p = float(stats.chisquare(seen, meant * (seen.sum() / meant.sum())).pvalue)
    mean = float((counts @ values) / total)
    square = float((counts @ values.astype(float) ** 2) / total)
    weights = expected / expected.sum()
    variance, fourth = float(weights @ values.astype(float) ** 2), float(weights @ values.astype(float) ** 4)
    z = max(abs(mean) / (variance / total) ** 0.5, abs(square - variance) / ((fourth - variance**2) / total) ** 0.5)
    return p, z


@pytest.mark.parametrize("scale", [Fraction(8), Fraction(255, 2)])
def test_frequencies_and_moments(scale: Fraction) -> None:
    p, z = chi_square(grid_normal(scale), 1 << 22, 1 << 16)
    assert p > 1e-4
    assert z < 4.5


@pytest.mark.slow
@pytest.mark.parametrize("scale", [Fraction(0.25) * 255, Fraction(255, 2)])
def test_frequencies_and_moments_of_a_thousand_million_draws(scale: Fraction) -> None:
    p, z = chi_square(grid_normal(scale), 10**9, 1 << 16)
    assert p > 1e-4
    assert z < 4.5


def test_a_wrong_table_is_found() -> None:
    """The test above can fail: one number in twenty is moved by one step."""
    good = grid_normal(Fraction(8))
    table = good.table.copy()
    moved = np.arange(500, len(table), 20)
    table[moved[table[moved] != np.iinfo(table.dtype).min]] += 1
    p, z = chi_square(replace(good, table=table), 1 << 22, 1 << 16)
    assert p < 1e-4 or z > 4.5


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(10_001)])
def test_other_scales_are_refused(scale: Fraction) -> None:
    with pytest.raises(InvalidArgumentError, match="steps of the grid, and at most 10000 are possible"):
        grid_normal(scale)


@pytest.mark.parametrize("scale", [Fraction(1, 10**6), Fraction(1e-300)])
def test_noise_far_below_a_step_is_none(scale: Fraction) -> None:
    numbers = grid_normal(scale)
    out = np.ones(100, numbers.table.dtype)
    numbers.fill(out, Stream(0, 0, "selection").generator(0))
    assert numbers.largest == 0
    assert not out.any()
