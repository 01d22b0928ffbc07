"""The answer by votes: the same doubt as the exact binomial test, and no slow import for it."""

import subprocess
import sys

import pytest
import torch
from scipy import stats

from lvmrs.kernel.method import ABSTAIN
from lvmrs.planners.votes import winner_of_votes


@pytest.mark.parametrize("won", [5, 6, 9, 30, 50, 59, 60, 64, 99, 100])
def test_it_answers_where_the_exact_test_has_no_doubt(won: int) -> None:
    for n in (won, 2 * won - 1, 2 * won, 100):
        if not won <= n <= 2 * won:
            continue
        logits = torch.eye(3)[[1] * won + [2] * (n - won)]
        exact = stats.binomtest(won, n, 0.5).pvalue
        assert winner_of_votes([logits], exact * 1.0001) == 1
        assert winner_of_votes([logits], exact * 0.9999) == ABSTAIN


def test_certifying_does_not_import_scipy_stats() -> None:
    code = "import sys; from lvmrs import LVM, Cohen, SmoothedClassifier, runs; print('scipy.stats' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == "False\n"
