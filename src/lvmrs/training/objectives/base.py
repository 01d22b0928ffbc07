"""The base class of training objectives, and functions for all of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from lvmrs.kernel import checks

Network = Callable[[Tensor], Tensor]


class Objective(ABC):
    """Base class: the loss of one batch, and whether it trains a classifier or a denoiser."""

    sigma: float
    """Standard deviation of the noise for which the model is trained and evaluated."""
    classifies = True
    """True if the model returns logits, False if it returns images."""

    def __post_init__(self) -> None:
        self.check_sigma()

    @property
    def passes(self) -> int:
        """Forward and backward passes per input in one step, those of an attack included."""
        return 1

    def check_sigma(self) -> None:
        """Raise if the standard deviation is missing, negative or not finite."""
        checks.nonnegative_number("sigma", getattr(self, "sigma", None))  # type: ignore[arg-type]

    def check(self, model: object) -> None:  # noqa: B027
        """Raise if the objective cannot train this model; by default every model is accepted."""

    @abstractmethod
    def loss(self, model: Network, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        """The mean loss over the batch.

        Args:
            model: the network, in training mode.
            x: a batch of inputs in [0, 1].
            y: their labels.
            generator: the source of all random numbers, so that a training can be resumed exactly.

        Returns:
            A differentiable tensor of one number.
        """


def normal(x: Tensor, generator: Generator) -> Tensor:
    """Standard normal noise of the shape and type of ``x``."""
    return torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)


def noisy(x: Tensor, sigma: float, generator: Generator) -> Tensor:
    """One noisy copy of each input."""
    return x + sigma * normal(x, generator)


def log_softmaxes(logits: Tensor, samples: int) -> Tensor:
    """The log-softmax of the ``samples`` consecutive copies of each input, (inputs, samples, classes).

    16-bit logits, which autocast gives, become float32.
    """
    logs = functional.log_softmax(logits, dim=1, dtype=torch.promote_types(logits.dtype, torch.float32))
    return logs.view(-1, samples, logits.shape[1])


def log_mean(logs: Tensor) -> Tensor:
    """The logarithm of the softmax averaged over the copies of each input, from ``log_softmaxes``."""
    return torch.logsumexp(logs, dim=1).sub(math.log(logs.shape[1]))


def log_mean_softmax(logits: Tensor, samples: int) -> Tensor:
    """The logarithm of the softmax averaged over the ``samples`` consecutive copies of each input."""
    return log_mean(log_softmaxes(logits, samples))


def nearest(sigma: float, published: Mapping[float, float]) -> float:
    """The published setting for the standard deviation nearest to ``sigma``.

    >>> nearest(0.3, {0.25: 20.0, 0.5: 10.0})
    20.0
    """
    return published[min(published, key=lambda known: abs(known - sigma))]


@contextmanager
def frozen_statistics(model: object) -> Iterator[None]:
    """In this block, batch normalisation uses batch statistics and does not update its running statistics."""
    modules = model.modules() if isinstance(model, nn.Module) else iter(())
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    counting = [m for m in modules if isinstance(m, kinds) and m.track_running_stats]
    for layer in counting:
        layer.track_running_stats = False
    try:
        yield
    finally:
        for layer in counting:
            layer.track_running_stats = True
