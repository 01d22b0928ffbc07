"""The demonstration: a small network trained on digits with noise, certified in two ways from the same samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from lvmrs import data, methods, models, training, work
from lvmrs.models import trained
from lvmrs.models.small import small_cnn
from lvmrs.runs import Manifest, Row, Run, RunWriter, Selection
from lvmrs.smooth import SmoothedClassifier

__all__ = ["ALPHA", "INPUTS", "N0", "SIGMA", "N", "certify_both", "train"]

SIGMA, ALPHA, N0, N, INPUTS = 0.5, 0.001, 1_000, 10_000, 100


def train(weights: Path, *, sigma: float, epochs: int = 40) -> float:
    """Train on noisy digits, write the weights, and say how often the network is right on noisy test digits."""
    settings = training.Settings(epochs=epochs, lr=0.01)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        network = small_cnn()
    history = training.train(network, data.load("digits", split="train"), training.Gaussian(sigma), settings)
    accuracy = training.accuracy(network, data.load("digits"), sigma)
    about = {"settings": vars(settings), "losses": [epoch.loss for epoch in history], "noisy accuracy": accuracy}
    trained.save(weights, network, "ready:small_cnn", about)
    return accuracy


def certify_both(out: Path, weights: Path, on_row: Callable[[Row], None]) -> tuple[Run, Run]:
    """Certify test digits with LVM, keeping the scores, and certify the same scores as Cohen et al. (2019)."""
    digits = data.load("digits")
    loaded = models.load(f"trained:{weights}")
    smoothed = SmoothedClassifier(loaded.model, SIGMA)
    planner = methods.planner("lvm")
    settings = work.settings_of(loaded, digits, smoothed, planner, alpha=ALPHA, n0=N0, n=N, seed=0)
    manifest = Manifest(
        settings,
        Selection(len(digits), max=INPUTS),
        smoothed.batch_for(digits[0][0]),
        keeps_scores=True,
        about=work.about("lvmrs demo", **work.about_data(digits)),
    )
    with RunWriter.begin(out / "lvm", manifest) as writer:
        work.certify(writer, smoothed, digits, planner, on_row)
    lvm = writer.run
    cohen = work.recertify(lvm, out / "cohen", methods.planner("cohen"), command="lvmrs demo")
    return lvm, cohen
