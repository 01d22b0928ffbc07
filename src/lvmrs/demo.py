"""The demonstration: a small network trained on digits with noise, certified in four ways from the same samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lvmrs import data, method_settings, models, provenance, training, work
from lvmrs.runs import Manifest, Row, Run, RunWriter, Selection
from lvmrs.smooth import SmoothedClassifier

__all__ = ["ALPHA", "INPUTS", "METHODS", "N0", "SIGMA", "N", "certify_all", "train"]

SIGMA, ALPHA, N0, N, INPUTS = 0.5, 0.001, 1_000, 10_000, 100
METHODS = ("cohen", "votes", "lvm", "duels")
"""What is compared: each after the plainer one before it."""


def train(weights: Path, *, sigma: float, epochs: int = 40) -> float:
    """Train on noisy digits, write the weights, and return the accuracy of the network on noisy test digits.

    A training that was stopped is resumed, if it had the same ``sigma`` and ``epochs``.
    """
    settings = training.Settings(epochs=epochs, lr=0.01)
    job = training.TrainingJob(
        "ready:small_cnn", "digits", training.Gaussian(sigma), weights, settings, command="lvmrs demo"
    )
    accuracy: float = training.run(job, resume=job.checkpoint.exists()).measured["noisy accuracy"]
    return accuracy


def certify_all(out: Path, weights: Path, on_row: Callable[[Row], None]) -> list[Run]:
    """Certify test digits as Cohen et al. (2019) do, keeping the scores, and the same scores by the other methods."""
    digits = data.load("digits")
    loaded = models.load(f"trained:{weights}")
    smoothed = SmoothedClassifier(loaded.model, SIGMA)
    first, *others = METHODS
    method = method_settings.method(first)
    settings = provenance.settings_of(loaded, digits, smoothed, method, alpha=ALPHA, n0=N0, n=N, seed=0)
    manifest = Manifest(
        settings,
        Selection(len(digits), max=INPUTS),
        smoothed.batch_for(digits[0][0]),
        keeps_scores=True,
        about=provenance.about("lvmrs demo", **provenance.about_data(digits), **provenance.about_method(method, SIGMA)),
    )
    with RunWriter.begin(out / first, manifest) as writer:
        work.certify(writer, smoothed, digits, method, on_row)
    sampled = writer.run
    return [
        sampled,
        *(work.recertify(sampled, out / name, method_settings.method(name), command="lvmrs demo") for name in others),
    ]
