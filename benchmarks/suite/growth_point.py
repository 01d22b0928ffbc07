"""One point of the growth curves, in a process of its own.

    cd benchmarks && python -m suite.growth_point n METHOD N | classes METHOD C | side METHOD PIXELS | rows METHOD COUNT

Networks are tiny, so that everything else is what is measured.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from lvmrs import SmoothedClassifier, models, runs
from lvmrs.data import Arrays
from lvmrs.record import Selection
from suite.child import answer
from suite.ours import PLANNERS, SIGMA

_BATCH = 500
_PART = 1000


def _linear(numbers: int, classes: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(numbers, classes)).eval()


def _certified(model: nn.Module, x: torch.Tensor, method: str, n0: int, n: int) -> dict[str, Any]:
    smoothed = SmoothedClassifier(model, SIGMA, batch=_BATCH, noise="exact")
    smoothed.certify(x, PLANNERS[method], n0=10, n=10)
    start = time.perf_counter()
    smoothed.certify(x, PLANNERS[method], n0=n0, n=n)
    return {"seconds": time.perf_counter() - start, "samples": n0 + n}


def of_n(method: str, n: int) -> dict[str, Any]:
    """A linear classifier of 64 numbers."""
    return _certified(_linear(64, 10), torch.ones(1, 8, 8) / 5, method, 1000, n)


def of_classes(method: str, classes: int) -> dict[str, Any]:
    """The same with other numbers of classes."""
    return _certified(_linear(64, classes), torch.ones(1, 8, 8) / 5, method, 100, 1000)


def of_side(method: str, side: int) -> dict[str, Any]:
    """One convolution with large steps, so that noise is most of the work."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 8, stride=8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)
    ).eval()
    return _certified(model, torch.ones(3, side, side) / 5, method, 100, 1000)


def of_rows(method: str, count: int) -> dict[str, Any]:
    """A run of many inputs with few samples each: the first and the last thousand rows are also timed alone."""
    data = Arrays("made up", "test", np.full((count, 1, 8, 8), 51, np.uint8), np.zeros(count, dtype=np.int64))
    model = models.Loaded.of(_linear(64, 10), "linear")
    smoothed = SmoothedClassifier(model.model, SIGMA, batch=20, noise="exact")
    job = runs.Job(model, data, smoothed, PLANNERS[method], runs.Sampling(n0=10, n=10), Selection(count))
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        runs.certify(job, Path(folder) / "run", on_row=lambda row: times.append(time.perf_counter()))
        seconds = time.perf_counter() - start
    part = min(_PART, count // 2)
    return {
        "seconds": seconds,
        "samples": 20 * count,
        "first": (times[part - 1] - times[0]) / (part - 1),
        "last": (times[-1] - times[-part]) / (part - 1),
    }


KINDS = {"n": of_n, "classes": of_classes, "side": of_side, "rows": of_rows}


def main() -> None:
    kind, method, value = sys.argv[1:]
    answer(KINDS[kind](method, int(value)))


if __name__ == "__main__":
    main()
