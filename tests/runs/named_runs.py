"""Runs whose model and data were loaded by name, from small files in the working directory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lvmrs import Duels, data, models, runs
from lvmrs.kernel.method import Method
from lvmrs.models.trained import save
from lvmrs.record import Run, Selection
from lvmrs.smoothed import SmoothedClassifier

__all__ = ["NETWORK", "altered_manifest", "make_files", "named_run"]

NETWORK = "ready:small_cnn,width=2,classes=3"
# A model of the user's own: running its code leaves a trace.
_CODE = """
from pathlib import Path

import torch

Path("code-was-run").touch()


def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))


def inputs(split):
    import numpy as np

    return np.random.default_rng(1).random((4, 1, 8, 8)), np.arange(4) % 3
"""


def make_files() -> None:
    """A network, other weights, data, and code."""
    for number, name in enumerate(("net", "other")):
        torch.manual_seed(number)
        network = models.load(NETWORK).model
        assert isinstance(network, torch.nn.Module)
        save(Path(f"{name}.safetensors"), network, NETWORK, {})
    rng = np.random.default_rng(0)
    np.savez("data.npz", x_test=rng.random((6, 1, 8, 8)), y_test=np.arange(6) % 3)
    Path("mine.py").write_text(_CODE)


def named_run(
    model: str = "trained:net.safetensors",
    inputs: str = "npz:data.npz",
    *,
    out: str = "a",
    method: Method | None = None,
    keep: bool = False,
    **given: Any,
) -> Run:
    """A run of four inputs; ``given`` is for ``models.load``."""
    loaded, dataset = models.load(model, sigma=0.5, **given), data.load(inputs)
    smoothed = SmoothedClassifier(loaded.model, 0.5, batch=16)
    sampling = runs.Sampling(alpha=0.01, n0=20, n=200, seed=3)
    job = runs.Job(loaded, dataset, smoothed, method or Duels(), sampling, Selection(len(dataset), max=4), keep)
    return runs.certify(job, out)


def altered_manifest(run: Run, change: Callable[[dict[str, Any]], None]) -> Run:
    """The run after its manifest was edited by hand."""
    file = run.directory / "manifest.json"
    stored = json.loads(file.read_text())
    change(stored)
    file.write_text(json.dumps(stored))
    return Run(run.directory)
