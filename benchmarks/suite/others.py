"""Other software: the adversarial-robustness-toolbox, and the loop that the field copies from paper to paper."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special
from torch import Tensor, nn

from suite.networks import Network
from suite.rounds import Contestant

__all__ = ["art", "field", "field_certificate", "field_counts"]

_SIGMA, _ALPHA = 0.5, 0.001


def field_counts(model: nn.Module, x: Tensor, n: int, batch: int, classes: int) -> NDArray[np.int64]:
    """Votes of n noisy copies, as most code for smoothing counts them.

    Noise is allocated for each batch, and each answer is counted in Python.
    """
    counts = np.zeros(classes, dtype=np.int64)
    with torch.no_grad():
        while n > 0:
            size = min(batch, n)
            n -= size
            copies = x.repeat(size, *[1] * x.dim())
            answers = model(copies + torch.randn_like(copies) * _SIGMA).argmax(1)
            for answer in answers.cpu().numpy():
                counts[answer] += 1
    return counts


def field_certificate(model: nn.Module, x: Tensor, n0: int, n: int, batch: int, classes: int) -> tuple[int, float]:
    """The class with most of n0 votes, and its radius from n others (Cohen, Rosenfeld and Kolter 2019); or −1 and 0."""
    top = int(field_counts(model, x, n0, batch, classes).argmax())
    votes = int(field_counts(model, x, n, batch, classes)[top])
    lower = float(special.betaincinv(votes, n - votes + 1, _ALPHA)) if votes else 0.0
    return (top, _SIGMA * float(special.ndtri(lower))) if lower > 0.5 else (-1, 0.0)


def field(network: Network, n0: int, n: int, batch: int) -> Contestant:
    """The field's loop at a batch size."""

    def run() -> int:
        field_certificate(network.model, network.x, n0, n, batch, network.contest.classes)
        return n0 + n

    return Contestant(run)


def art(network: Network, n0: int, n: int, batch: int) -> Contestant:
    """ART's certificate of one input, at a batch size."""
    smoothing = import_module("art.estimators.certification.randomized_smoothing").PyTorchRandomizedSmoothing
    made = smoothing(
        model=network.model,
        loss=nn.CrossEntropyLoss(),
        input_shape=tuple(network.x.shape),
        nb_classes=network.contest.classes,
        device_type="cpu",
        sample_size=n0,
        scale=_SIGMA,
        alpha=_ALPHA,
    )
    inputs = network.x[None].numpy()

    def run() -> int:
        made.certify(inputs, n=n, batch_size=batch)
        return n0 + n

    return Contestant(run)
