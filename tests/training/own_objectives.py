"""Objectives of a user's own: a dataclass, and a class that is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional

from lvmrs.training import Objective


@dataclass(frozen=True)
class Clipped(Objective):
    """Cross-entropy on noisy inputs that are clipped to [0, 1]."""

    sigma: float
    samples: int = 1
    reduction: str = "mean"

    def loss(self, model: Callable[[Tensor], Tensor], x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        x, y = x.repeat_interleave(self.samples, dim=0), y.repeat_interleave(self.samples)
        noise = torch.randn(x.shape, generator=generator, device=x.device)
        logits = model((x + self.sigma * noise).clamp(0, 1))
        return functional.cross_entropy(logits, y, reduction=self.reduction)


class Smoothed(Objective):
    """Cross-entropy with smoothed labels; no dataclass, and it keeps more than settings."""

    def __init__(self, sigma: float, margin: float = 0.1) -> None:
        self.sigma, self.margin = sigma, margin
        self.criterion = functional.cross_entropy
        self._calls = 0

    def loss(self, model: Callable[[Tensor], Tensor], x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        self._calls += 1
        noise = torch.randn(x.shape, generator=generator, device=x.device)
        return self.criterion(model(x + self.sigma * noise), y, label_smoothing=self.margin)


class Half(Objective):
    """It has no loss."""


class Silent(Smoothed):
    """It does not take sigma."""

    def __init__(self) -> None:
        super().__init__(0.5)


class Demanding(Smoothed):
    """It cannot be made from a name and sigma alone."""

    def __init__(self, sigma: float, teacher: object) -> None:
        super().__init__(sigma)
        self.teacher = teacher


class Failing(Smoothed):
    """Its constructor fails."""

    def __init__(self, sigma: float) -> None:
        raise KeyError("nothing")


class Returning(Objective):
    """Its loss is what it was made with."""

    def __init__(self, answer: Any, sigma: float = 0.5) -> None:
        self.sigma, self.answer = sigma, answer

    def loss(self, model: Callable[[Tensor], Tensor], x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        if isinstance(self.answer, BaseException):
            raise self.answer
        answer: Tensor = self.answer
        return answer
