"""Runs of tiny models without trials, which take longer than the run itself."""

from typing import Any

import pytest

from lvmrs.engine.tuning import Tuned
from lvmrs.engine.way import Way


def without_trials(patch: pytest.MonkeyPatch) -> None:
    """How to run a model is not tried out."""
    patch.setattr("lvmrs.engine.samplers.chosen_batch", lambda run, x, threads: Tuned(Way(64), 0.001))
    patch.setattr("lvmrs.engine.samplers.chosen_way", _as_asked)


def _as_asked(fast: Any, x: Any, batch: int | None, threads: int) -> Tuned:
    return Tuned(fast.way(batch or 64), 0.001)
