"""The attack on the smoothed classifier that training uses (Salman et al. 2019)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from lvmrs.training.objectives.base import Network, frozen_statistics, log_mean_softmax


def attacked(
    model: Network, x: Tensor, y: Tensor, noise: Tensor, *, steps: int, step: float, radius: float = math.inf
) -> list[Tensor]:
    """Move inputs by gradient ascent on −log of the softmax averaged over noisy copies. Clamps them to [0, 1].

    The attack does not change the running statistics of batch normalisation.

    Args:
        model: the network.
        x: the inputs.
        y: their labels.
        noise: the noise of consecutive copies of each input, the same in every step.
        steps: number of steps.
        step: the length of a step.
        radius: the largest distance from ``x``.

    Returns:
        The inputs after 0, 1, … and ``steps`` steps.
    """
    samples = len(noise) // len(x)
    delta, places = torch.zeros_like(x), [x]
    with frozen_statistics(model):
        for _ in range(steps):
            delta.requires_grad_(True)
            logits = model((x + delta).repeat_interleave(samples, dim=0) + noise)
            (slope,) = torch.autograd.grad(
                functional.nll_loss(log_mean_softmax(logits, samples), y, reduction="sum"), delta
            )
            delta = delta.detach() + step * (slope / _lengths(slope))
            delta = delta * (radius / _lengths(delta)).clamp_max(1)
            delta = (x + delta).clamp(0, 1) - x
            places.append(x + delta)
    return places


def _lengths(x: Tensor) -> Tensor:
    sizes: Tensor = torch.linalg.vector_norm(x.flatten(1), dim=1)
    return sizes.clamp_min(1e-12).view(-1, *[1] * (x.dim() - 1))
