"""Evaluation of a trained network: accuracy of classifiers, mean squared error of denoisers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lvmrs._util import machine
from lvmrs.data import Dataset
from lvmrs.errors import ModelError, guarded
from lvmrs.kernel import checks
from lvmrs.kernel.sampler import evaluating
from lvmrs.training.batches import generator, in_order
from lvmrs.training.objectives import Objective


def accuracy(
    model: nn.Module, data: Dataset, sigma: float = 0.0, *, seed: int = 0, device: str | torch.device = "auto"
) -> float:
    """The share of inputs that the model classifies correctly on one noisy copy each.

    Args:
        model: a classifier.
        data: inputs with labels.
        sigma: standard deviation of the noise; 0 for clean inputs.
        seed: seed of the noise.
        device: the device to compute on; by default that of the model.

    Returns:
        A number from 0 to 1.

    >>> import numpy as np
    >>> from lvmrs.data import Arrays
    >>> accuracy(nn.Identity(), Arrays("two", "test", np.eye(2), np.array([0, 0])))
    0.5
    """
    return _mean(model, data, sigma, seed, device, lambda out, x, y: (out.argmax(dim=1) == y).sum())


def mean_squared_error(
    model: nn.Module, data: Dataset, sigma: float, *, seed: int = 0, device: str | torch.device = "auto"
) -> float:
    """The mean squared error per pixel of the denoised noisy copies of all inputs.

    Args:
        model: a denoiser.
        data: inputs; their labels are not used.
        sigma: standard deviation of the noise.
        seed: seed of the noise.
        device: the device to compute on; by default that of the model.

    Returns:
        The error. The error of the identity is about ``sigma`` squared.

    >>> import numpy as np
    >>> from lvmrs.data import Arrays
    >>> images = Arrays("grey", "test", np.full((100, 1, 8, 8), 0.5), np.zeros(100, dtype=int))
    >>> round(mean_squared_error(nn.Identity(), images, 0.5), 2)
    0.25
    """
    return _mean(model, data, sigma, seed, device, lambda out, x, y: functional.mse_loss(out, x) * len(x))


def measured(model: nn.Module, data: Dataset, objective: Objective, *, seed: int) -> dict[str, Any]:
    """Evaluate a model on a split, for the record in its file of weights."""
    found: dict[str, Any] = {"split": data.split, "inputs": len(data), "sigma": float(objective.sigma)}
    if objective.classifies:
        found["clean accuracy"] = accuracy(model, data, seed=seed)
        found["noisy accuracy"] = accuracy(model, data, objective.sigma, seed=seed)
    else:
        found["mean squared error"] = mean_squared_error(model, data, objective.sigma, seed=seed)
    return found


def _mean(
    model: nn.Module,
    data: Dataset,
    sigma: float,
    seed: int,
    device: str | torch.device,
    score: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> float:
    checks.instance("model", model, nn.Module, "a torch module")
    checks.instance("data", data, Dataset, "a Dataset, as lvmrs.data.load gives it")
    sigma, seed = checks.nonnegative_number("sigma", sigma), checks.seed("seed", seed)
    place = machine.device(device) or next((p.device for p in model.parameters()), torch.device("cpu"))
    total = 0.0
    with evaluating(model):
        for number, (x, y) in enumerate(in_order(data, 256)):
            x, y = x.to(place), y.to(place)
            noise = torch.randn(x.shape, generator=generator(place, seed, number), device=place)
            with guarded(f"the model fails on {data.split} inputs of shape {tuple(x.shape[1:])}", error=ModelError):
                answer = model(x + sigma * noise)
            total += float(score(answer, x, y))
    return total / len(data)
