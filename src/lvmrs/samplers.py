"""Samplers of one model: for each kind of input, the model is checked once and its batch size is found once."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from lvmrs.errors import ModelError
from lvmrs.noise import Stream
from lvmrs.sampling import Sampler, check_logits, tuned_batch

__all__ = ["Pace", "Samplers"]

_LARGEST_BATCH = 4096


@dataclass(frozen=True)
class Pace:
    """How inputs of one kind are run."""

    batch: int
    """Samples in a forward pass."""
    rate: float
    """Samples per second, as measured."""
    classes: int
    """How many classes the model has."""


class Samplers:
    """One sampler for each kind of input (shape, precision, device)."""

    def __init__(self, pattern: Sampler, batch: int | None) -> None:
        """Make samplers like ``pattern``; the best batch size is measured if ``batch`` is None."""
        self.pattern, self.batch = pattern, batch
        self._samplers: dict[tuple[Any, ...], Sampler] = {}
        self._rates: dict[tuple[Any, ...], float] = {}
        self._classes: dict[tuple[Any, ...], int] = {}

    def of(self, x: Tensor) -> Sampler:
        """The sampler for inputs like this one."""
        kind = _kind(x)
        if kind not in self._samplers:
            self._classes[kind] = _check_model(self.pattern, x)
            if self.batch is None:
                self._samplers[kind] = tuned_batch(lambda size: self._of_size(x, size), x, most=_LARGEST_BATCH)
            else:
                self._samplers[kind] = self._of_size(x, self.batch)
        return self._samplers[kind]

    def prepare(self, x: Tensor) -> Pace:
        """Measure how inputs like this one are run; from now on, inputs of every kind run in this batch size."""
        sampler, kind = self.of(x), _kind(x)
        self.batch = sampler.batch
        if kind not in self._rates:
            self._rates[kind] = _rate(sampler, x)
        return Pace(sampler.batch, self._rates[kind], self._classes[kind])

    def _of_size(self, x: Tensor, batch: int) -> Sampler:
        channels_last = x.dim() == 3 and x.device.type == "cuda"
        layout = torch.channels_last if channels_last else torch.contiguous_format
        return replace(self.pattern, batch=batch, memory_format=layout)


def _rate(sampler: Sampler, x: Tensor, seconds: float = 0.3) -> float:
    """Samples per second, with all that a certificate needs: noise, forward passes and the checks of logits."""
    stream, done, start = Stream(0, 0, "prediction"), 0, time.perf_counter()
    while True:
        for logits in sampler.logits(x, stream, sampler.batch):
            done += len(logits)
        if (elapsed := time.perf_counter() - start) > seconds:
            return done / elapsed


def _kind(x: Tensor) -> tuple[Any, ...]:
    return x.shape, x.dtype, x.device


def _check_model(sampler: Sampler, x: Tensor) -> int:
    """Run a few noisy inputs twice, and some of them alone; refuse answers that are no logits or that differ.

    Returns the number of classes.
    """
    noise = torch.randn(8, *x.shape, generator=torch.Generator().manual_seed(0)).to(x)
    inputs = x + sampler.sigma * noise
    once, again, fewer = (sampler.forward(part.clone()) for part in (inputs, inputs, inputs[:3]))
    check_logits(once, 8, 0)
    check_logits(again, 8, once.shape[1])
    check_logits(fewer, 3, once.shape[1])
    slack = 1e-3 * float(once.abs().max()) + 1e-6
    if not torch.allclose(once, again, rtol=0, atol=slack):
        raise ModelError(
            "the model gives different answers to the same inputs; a certificate is about one fixed function: switch "
            "off what is random in its forward pass"
        )
    if not torch.allclose(once[:3], fewer, rtol=0, atol=slack):
        raise ModelError(
            "the model's answer to an input depends on the other inputs in its batch, and cannot be certified: put "
            "normalisation layers in eval mode, with running statistics"
        )
    return once.shape[1]
