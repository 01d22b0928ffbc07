"""Kept scores of many inputs, certified again by the command, start-up and all.

    cd benchmarks && python -m suite.recertified FOLDER INPUTS SAMPLES CLASSES

writes a run with kept scores into the folder. It is a real run, of a linear classifier of few numbers.
"""

from __future__ import annotations

import sys

__all__ = ["write"]


def write(folder: str, inputs: int, samples: int, classes: int) -> None:
    """Certify made-up inputs by Cohen, and keep their scores."""
    import numpy as np
    import torch
    from torch import nn

    from lvmrs import Cohen, SmoothedClassifier, models, runs
    from lvmrs.data import Arrays
    from lvmrs.record import Selection

    torch.manual_seed(0)
    x = np.random.default_rng(0).random((inputs, 8)).astype(np.float32)
    model = models.Loaded.of(nn.Linear(8, classes).eval(), "linear")
    smoothed = SmoothedClassifier(model.model, 0.5, batch=1000)
    data = Arrays("made up", "test", x, np.zeros(inputs, dtype=np.int64))
    sampling = runs.Sampling(n0=min(1000, samples), n=samples)
    job = runs.Job(model, data, smoothed, Cohen(), sampling, Selection(inputs), keeps_scores=True)
    runs.certify(job, folder)


def main() -> None:
    from suite.child import answer

    folder, *numbers = sys.argv[1:]
    write(folder, *map(int, numbers))
    answer({})


if __name__ == "__main__":
    main()
