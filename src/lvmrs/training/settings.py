"""Settings of a training: epochs, batches, optimizer and learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from lvmrs.kernel import checks, torch_checks
from lvmrs.training.batches import AUGMENTATIONS
from lvmrs.training.optimizers import OPTIMIZERS

__all__ = ["Settings"]

_WARM_UP = 0.3  # share of the steps in which the learning rate of one-cycle rises


def _cosine(done: float) -> float:
    return (1 + math.cos(math.pi * done)) / 2


def _one_cycle(done: float) -> float:
    if done < _WARM_UP:
        return 1 / 25 + (1 - 1 / 25) * done / _WARM_UP
    return _cosine((done - _WARM_UP) / (1 - _WARM_UP))


# From the share of steps done to the share of the largest learning rate.
_SCHEDULES: dict[str, Callable[[float], float]] = {"one-cycle": _one_cycle, "cosine": _cosine}


@dataclass(frozen=True)
class Settings:
    """Settings of a training that do not depend on the network, the data or the objective.

    Both schedules end at a learning rate of 0. ``one-cycle`` rises from a twenty-fifth of ``lr`` to ``lr`` in the first
    three tenths of the steps; ``cosine`` begins at ``lr``.

    >>> Settings(lr=0.1, schedule="cosine").rate(0.5)
    0.05
    """

    epochs: int = 20
    """Number of passes over the data."""
    batch: int = 128
    """Inputs per step."""
    lr: float = 0.005
    """The largest learning rate."""
    optimizer: str = "adam"
    weight_decay: float = 0.0
    """Weight decay, except for biases and scales of normalisation."""
    schedule: str = "one-cycle"
    augment: str = "none"
    """The data augmentation: see ``lvmrs.training.batches.augmented``."""
    autocast: str | None = None
    """The 16-bit type of mixed precision. None: full precision."""
    seed: int = 0
    """Seed of the initial weights, the order of the inputs and the noise."""

    def __post_init__(self) -> None:
        for name, least in {"epochs": 1, "batch": 1, "seed": 0}.items():
            # Python integers, which JSON can represent.
            object.__setattr__(self, name, checks.count(name, getattr(self, name), least=least))
        object.__setattr__(self, "lr", checks.positive_number("lr", self.lr))
        decay = checks.single("weight_decay", checks.at_least_zero("weight_decay", self.weight_decay))
        object.__setattr__(self, "weight_decay", decay)
        checks.one_of("optimizer", self.optimizer, OPTIMIZERS)
        checks.one_of("schedule", self.schedule, _SCHEDULES)
        checks.one_of("augment", self.augment, AUGMENTATIONS)
        torch_checks.precision(self.autocast)

    def rate(self, done: float) -> float:
        """The learning rate after the share ``done`` of all steps, from 0 to 1."""
        return self.lr * _SCHEDULES[self.schedule](done)

    def steps(self, inputs: int) -> int:
        """The number of steps in one epoch; an incomplete last batch counts only if it is the only batch."""
        return max(1, inputs // self.batch)
