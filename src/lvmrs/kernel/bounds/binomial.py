"""Exact one-sided bounds for a binomial proportion, from counts (Clopper and Pearson 1934), and a test of two counts.

These are formulas without checks: certificates use them through ``lvmrs.kernel.bounds.clopper_pearson``, which checks
its arguments, and confidence intervals of a test set through ``lvmrs.analysis``. The arguments are arrays that
broadcast: ``count`` of n independent trials were successes, with 0 ≤ count ≤ n and n ≥ 1, and 0 < ``risk`` < 1.
"""

import numpy as np

from lvmrs.kernel import special
from lvmrs.kernel.checks import Floats

__all__ = ["by_chance", "lower", "upper"]


def lower(count: Floats, n: Floats, risk: Floats) -> Floats:
    """Lower bound, which exceeds the true proportion with probability at most ``risk``; 0 for a count of 0.

    >>> print(f"{lower(np.array(9.0), np.array(10.0), np.array(0.05)):.4f}")
    0.6058
    """
    inside = special.betaincinv(np.maximum(count, 1), n - np.maximum(count, 1) + 1, risk)
    return np.where(count > 0, inside, 0.0)


def upper(count: Floats, n: Floats, risk: Floats) -> Floats:
    """Upper bound, which falls below the true proportion with probability at most ``risk``; 1 for a count of n.

    >>> print(f"{upper(np.array(1.0), np.array(10.0), np.array(0.05)):.4f}")
    0.3942
    """
    # The beta quantile at 1 − risk, by its complement: 1 − risk itself would lose the digits of a small risk.
    inside = special.betainccinv(np.minimum(count, n - 1) + 1, np.maximum(n - count, 1), risk)
    return np.where(count < n, inside, 1.0)


def by_chance(won: int, lost: int) -> float:
    """The two-sided p-value of the sign test: the probability of a result at least as far from a tie by chance.

    >>> print(f"{by_chance(9, 1):.4f}, {by_chance(5, 5):g}")
    0.0215, 1
    """
    return min(1.0, 2 * float(special.betainc(max(won, lost), min(won, lost) + 1, 0.5)))
