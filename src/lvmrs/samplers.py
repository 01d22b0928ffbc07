"""Samplers of one model: for each kind of input, the model is checked once and its batch size is found once."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from lvmrs.model_check import check_model
from lvmrs.noise import Stream
from lvmrs.sampling import Sampler, tuned_batch

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
            plain = replace(self.pattern, memory_format=_layout(x))
            check = check_model(plain, x, batch=self.batch)
            self._classes[kind] = check.classes
            checked = replace(plain, recheck=check.recheck)
            if self.batch is None:
                self._samplers[kind] = tuned_batch(lambda size: replace(checked, batch=size), x, most=_LARGEST_BATCH)
            else:
                self._samplers[kind] = replace(checked, batch=self.batch)
        return self._samplers[kind]

    def prepare(self, x: Tensor) -> Pace:
        """Measure how inputs like this one are run; from now on, inputs of every kind run in this batch size."""
        sampler, kind = self.of(x), _kind(x)
        self.batch = sampler.batch
        if kind not in self._rates:
            self._rates[kind] = _rate(sampler, x)
        return Pace(sampler.batch, self._rates[kind], self._classes[kind])


def _layout(x: Tensor) -> torch.memory_format:
    return torch.channels_last if x.dim() == 3 and x.device.type == "cuda" else torch.contiguous_format


def _rate(sampler: Sampler, x: Tensor, seconds: float = 0.3) -> float:
    """Samples per second, with all that a certificate needs: noise, forward passes and the checks of logits."""
    stream, done, start = Stream(0, 0, "calibration"), 0, time.perf_counter()  # a stage that is not checked again
    while True:
        for logits in sampler.logits(x, stream, sampler.batch):
            done += len(logits)
        if (elapsed := time.perf_counter() - start) > seconds:
            return done / elapsed


def _kind(x: Tensor) -> tuple[Any, ...]:
    return x.shape, x.dtype, x.device
