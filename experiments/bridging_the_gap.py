"""The radius and the bounds of "Bridging the theoretical gap in randomized smoothing" beside ours, by formula.

    python experiments/bridging_the_gap.py

Their formulas are those of the code that Delattre et al. (2025) published. First the radii from exact means of scores
of constant L, at σ = 1. Then the mean radius R2 of votes, with bounds at α/c for each class, by their class
partitioning, and at α/2 for the top class and every rival.
"""

import sys

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import brentq

from lab.page import table
from lvmrs.kernel import radius

PAIRS = ((0.99, 0.005), (0.8, 0.1), (0.6, 0.3), (0.2, 0.15))
LIPSCHITZ = (0.25, 1.0, 5.0)
ALPHA, N0, N, DRAWS = 0.001, 100, 10_000, 100
Counts = NDArray[np.int64]


def slope(p: float, lipschitz: float) -> float:
    """The largest slope of Φ⁻¹ of a smoothed score of level p: that of a ramp of slope L, which they derive too."""

    def below(u: float) -> float:
        return float(u * special.ndtr(u) + np.exp(-u * u / 2) / np.sqrt(2 * np.pi))

    start = brentq(lambda s: lipschitz * (below(s + 1 / lipschitz) - below(s)) - (1 - p), -50.0, 50.0, xtol=1e-13)
    rise = lipschitz * (special.ndtr(start + 1 / lipschitz) - special.ndtr(start))
    return float(rise * np.sqrt(2 * np.pi) * np.exp(special.ndtri(p) ** 2 / 2))


def theirs(p_a: float, p_b: float, lipschitz: float) -> float:
    """Their radius for several classes, with the slopes at x, as their code has it."""
    return float(special.ndtri(p_a) / slope(p_a, lipschitz) - special.ndtri(p_b) / slope(p_b, lipschitz)) / 2


def partition(selection: Counts) -> list[list[int]]:
    """Their buckets: the strongest classes alone, until the others together have no more votes than the second."""
    order = np.argsort(-selection, kind="stable")
    alone = 2
    while alone < len(order) and selection[order[alone:]].sum() > selection[order[1]]:
        alone += 1
    return [[int(k)] for k in order[:alone]] + ([order[alone:].tolist()] if alone < len(order) else [])


def certified(buckets: list[list[int]], counts: Counts, risk: float) -> float:
    """R2 of the first bucket against the others, each bounded by Clopper–Pearson at this risk."""
    top, *others = (int(counts[bucket].sum()) for bucket in buckets)
    low, high = (
        special.betaincinv(top, N - top + 1, risk),
        special.betaincinv(max(others) + 1, N - max(others), 1 - risk),
    )
    return float(radius.r2(low, high, sigma=1.0))


def averages(means: NDArray[np.float64]) -> list[str]:
    """The mean number of buckets, and the mean radius: α/c for each class, their buckets, two events."""
    generator, classes, rows = np.random.default_rng(0), len(means), []
    for _ in range(DRAWS):
        selection, counts = generator.multinomial(N0, means), generator.multinomial(N, means)
        buckets = partition(selection)
        single = [buckets[0], *([k] for k in range(classes) if [k] != buckets[0])]
        shares = ((single, classes), (buckets, len(buckets)), (single, 2))
        rows.append([len(buckets), *(certified(each, counts, ALPHA / share) for each, share in shares)])
    size, *found = np.mean(rows, axis=0)
    return [f"{size:.1f}", *(f"{value:.4f}" for value in found)]


def main() -> int:
    """Print the two tables in Markdown."""
    rows = []
    for p_a, p_b in PAIRS:
        for each in LIPSCHITZ:
            ours = radius.ramp_per_class(p_a, p_b, sigma=1.0, class_lipschitz=each)
            found = (radius.r2(p_a, p_b, sigma=1.0), theirs(p_a, p_b, each), ours)
            rows.append([f"{p_a:g}, {p_b:g}", f"{each:g}", *(f"{float(value):.4f}" for value in found)])
    print(table(["p_A, p_B", "Lσ", "R2", "their radius", "ramp radius, per class"], rows))
    rows = []
    for top, classes in ((0.5, 10), (0.9, 10), (0.5, 1000), (0.9, 1000)):
        for name, rest in (("halving", 0.5 ** np.arange(1, classes)), ("equal", np.ones(classes - 1))):
            rows.append([f"{top:g}", f"{classes}, {name}", *averages(np.append(top, (1 - top) * rest / rest.sum()))])
    print("\n" + table(["p_A", "c, rivals", "buckets", "α/c each", "their buckets", "α/2, no union"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
