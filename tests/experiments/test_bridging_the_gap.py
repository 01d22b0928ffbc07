"""What docs/theory.md says of the radius and of the class partitioning of Delattre et al. (2025)."""

import numpy as np
import pytest
from scipy import special

import bridging_the_gap as theirs
from lvmrs.kernel import radius

LEVELS = np.linspace(0.1, 3.0, 12)


@pytest.mark.parametrize("lipschitz", [0.1, 0.25, 1.0, 5.0])
def test_the_slope_is_that_of_the_ramp_radius_and_least_at_one_half(lipschitz: float) -> None:
    step, slopes = 1e-4, []
    for z in LEVELS:
        p, low, high = (float(special.ndtr(each)) for each in (z, z - step, z + step))
        rise = 2 * float(radius.ramp_per_class(high, low, sigma=1.0, class_lipschitz=lipschitz))
        slopes.append(theirs.slope(p, lipschitz))
        assert slopes[-1] == pytest.approx(2 * step / rise, rel=1e-5)
        assert slopes[-1] == pytest.approx(theirs.slope(1 - p, lipschitz), rel=1e-9)
    assert np.all(np.diff([theirs.slope(0.5, lipschitz), *slopes]) > -1e-9)
    assert max(slopes) <= 1


@pytest.mark.parametrize("lipschitz", [0.1, 0.25, 1.0, 5.0])
def test_their_radius_is_at_most_the_ramp_radius(lipschitz: float) -> None:
    levels = special.ndtr(np.concatenate([-LEVELS[::-2], LEVELS[::2]]))
    for i, p_b in enumerate(levels):
        for p_a in levels[i + 1 :]:
            ours = radius.ramp_per_class(p_a, p_b, sigma=1.0, class_lipschitz=lipschitz)
            assert theirs.theirs(p_a, p_b, lipschitz) <= float(ours) * (1 + 1e-9)
    assert theirs.theirs(0.8, 0.1, 1e4) == pytest.approx(float(radius.r2(0.8, 0.1, sigma=1.0)), rel=1e-6)


def test_partition_by_hand() -> None:
    assert theirs.partition(np.array([5, 50, 30, 8, 7])) == [[1], [2], [3, 4, 0]]
    assert theirs.partition(np.array([40, 20, 14, 13, 7])) == [[0], [1], [2], [3, 4]]
    assert theirs.partition(np.array([9, 1])) == [[0], [1]]


def test_bounds_for_two_events_are_never_beaten_by_partitioning() -> None:
    generator = np.random.default_rng(1)
    for _ in range(50):
        means = generator.dirichlet(np.full(6, 0.7))
        selection, counts = (generator.multinomial(n, means) for n in (theirs.N0, theirs.N))
        buckets = theirs.partition(selection)
        single = [buckets[0], *([k] for k in range(6) if [k] != buckets[0])]
        assert len(buckets) >= 3
        partitioned = theirs.certified(buckets, counts, theirs.ALPHA / len(buckets))
        assert theirs.certified(single, counts, theirs.ALPHA / 2) >= partitioned
