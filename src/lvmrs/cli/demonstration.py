"""The demonstration: a small network trained on digits with noise, certified in four ways from the same samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lvmrs import data, models, training
from lvmrs import runs as jobs
from lvmrs.kernel.exact_noise import suited_noise
from lvmrs.planners import settings as method_settings
from lvmrs.record import Row, Run, Selection
from lvmrs.smoothed import SmoothedClassifier

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
    first, *others = (method_settings.method(name) for name in METHODS)
    job = jobs.Job(
        loaded,
        digits,
        SmoothedClassifier(loaded.model, SIGMA, noise=suited_noise(digits.levels)),
        first,
        jobs.Sampling(ALPHA, N0, N),
        Selection(len(digits), max=INPUTS),
        keeps_scores=True,
    )
    sampled = jobs.certify(job, out / METHODS[0], command="lvmrs demo", on_row=on_row)
    return [
        sampled,
        *(
            jobs.recertify(sampled, out / name, method, command="lvmrs demo")
            for name, method in zip(METHODS[1:], others, strict=True)
        ),
    ]
