"""Networks that are trained for a given processor time, whatever the training objective costs per step.

Objectives that need more copies or an attack take more time per step, and so fewer steps. The number of steps follows
from the cost of a step, which is measured right before the training; both are in the record of the network.
"""

from __future__ import annotations

import dataclasses
import hashlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from lab.settings import Lab
from lvmrs import data
from lvmrs.data import Arrays, Dataset
from lvmrs.models import trained
from lvmrs.training import Gaussian, Objective, Settings, accuracy, objective, train
from lvmrs.training.measure import measured
from lvmrs.training.network import network_for
from lvmrs.training.objectives import description

__all__ = ["POINTS", "Trained", "network", "share_of_time"]

POINTS = 8
"""At how many moments, evenly spaced in processor time, the accuracy under noise is measured."""
_WATCHED = 1000  # test inputs for these measurements
_MEASURED_STEPS, _FIRST_STEPS = 20, 3


@dataclass(frozen=True)
class Trained:
    """A network, its noise, its objective, and how long it is trained."""

    lab: Lab
    objective: str
    """Its name. A step has batch/m inputs for an objective with m noisy copies of each, so that all objectives see
    the same number of copies in a step."""
    sigma: float
    seed: int
    settings: dict[str, Any] = field(default_factory=dict)
    """The settings of the objective."""
    first: float = 0.0
    """The share of the time in which the objective is Gaussian."""
    then: float = 1.0
    """The learning rate is multiplied by this from then on."""

    @property
    def data(self) -> str:
        """CIFAR-10 if its data are given, else digits."""
        return "digits" if self.lab.cifar10 is None else f"cifar10:{self.lab.cifar10}"

    @property
    def seconds(self) -> float:
        """The processor time of the training."""
        return 60 * self.lab.minutes

    @property
    def file(self) -> Path:
        """Its weights; they are trained if the cache does not have them."""
        name = f"{self.objective}-{self.sigma:g}-{self.seed}-{self._code}"
        out = self.lab.cache / "budgeted" / f"{name}.safetensors"
        if not out.exists():
            out.parent.mkdir(parents=True, exist_ok=True)
            _make(self, out)
        return out

    @property
    def _code(self) -> str:
        first = self.first if self.then == 1 else (self.first, self.then)
        told = (self.made_objective, self.seed, first, self.seconds, network(self.lab), Path(self.data).name)
        return hashlib.sha256(repr(told).encode()).hexdigest()[:8]

    @property
    def made_objective(self) -> Objective:
        """The objective with all its settings."""
        return objective(self.objective, self.sigma, **self.settings)

    @property
    def about(self) -> dict[str, Any]:
        """The record of its training."""
        told: dict[str, Any] = trained.training_record(self.file)["training"]
        return told


def network(lab: Lab) -> tuple[str, Settings]:
    """The network and the settings that all objectives share."""
    if lab.cifar10 is None:
        return "ready:small_cnn", Settings(batch=64, augment="shift")
    shared = Settings(batch=128, lr=0.1, optimizer="sgd", weight_decay=5e-4, augment="shift-mirror")
    name = {"paper": "ready:cifar_resnet110", "laptop": "ready:fast_cnn,width=16", "digits": "ready:fast_cnn,width=4"}
    return name[lab.scale], dataclasses.replace(shared, autocast="bfloat16")


class _Repeated(Dataset):
    """A data set so often after itself that one epoch of it is a training of a given number of steps."""

    def __init__(self, inner: Dataset, length: int) -> None:
        self.inner, self.length = inner, length
        self.name, self.split, self.classes = inner.name, inner.split, inner.classes

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Tensor, int | None] | Tensor:
        return self.inner[index % len(self.inner)]

    def many(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        return self.inner.many([index % len(self.inner) for index in indices])

    def fingerprint(self) -> str:
        return f"{self.inner.fingerprint()} {self.length}"


class _GaussianFirst(Objective):
    """The Gaussian objective in the first steps, on ``copies`` noisy copies of each input, then another one."""

    def __init__(self, steps: int, copies: int, then: Objective) -> None:
        self.sigma, self.steps, self.copies, self.then = then.sigma, steps, copies, then
        self._done = 0
        super().__post_init__()

    def loss(self, model: Any, x: Tensor, y: Tensor, generator: Generator) -> Tensor:
        """The loss of the objective whose turn it is; all calls are steps of one training."""
        self._done += 1
        if self._done > self.steps:
            return self.then.loss(model, x, y, generator)
        x, y = (each.repeat_interleave(self.copies, dim=0) for each in (x, y))
        return Gaussian(self.sigma).loss(model, x, y, generator)


@dataclass(frozen=True)
class _ByTime(Settings):
    """The learning rate after a share of the time, not of the steps: Gaussian steps take less time."""

    first_steps: float = 0.0
    """The share of the steps that are Gaussian."""
    first_time: float = 0.0
    """The share of the time that they take."""
    then: float = 1.0
    """The learning rate is multiplied by this after these steps."""

    def rate(self, done: float) -> float:
        """The learning rate after a share of the steps."""
        rate = super().rate(share_of_time(done, self.first_steps, self.first_time))
        return rate if done < self.first_steps else self.then * rate


def share_of_time(done: float, first_steps: float, first_time: float) -> float:
    """The share of the time that has passed when a share of the steps is done.

    >>> share_of_time(0.4, 0.8, 0.2), round(share_of_time(0.9, 0.8, 0.2), 6)
    (0.1, 0.6)
    """
    if done < first_steps:
        return done / first_steps * first_time
    return first_time + (done - first_steps) / (1 - first_steps) * (1 - first_time) if done < 1 else 1.0


def _make(wanted: Trained, out: Path) -> None:
    """Measure the cost of a step, train, and write the weights with the record."""
    torch.set_num_threads(1)
    name, settings = network(wanted.lab)
    settings = dataclasses.replace(settings, epochs=1, seed=wanted.seed, schedule="one-cycle")
    inputs = data.load(wanted.data, split="train")
    then = wanted.made_objective
    copies = getattr(then, "samples", 1)
    each = dataclasses.replace(settings, batch=max(1, settings.batch // copies))
    cost = _seconds_of_a_step(name, inputs, then, each)
    only = _GaussianFirst(sys.maxsize, copies, then)
    gaussian = _seconds_of_a_step(name, inputs, only, each) if wanted.first else cost
    first = round(wanted.first * wanted.seconds / gaussian)
    steps = max(2, first + round((1 - wanted.first) * wanted.seconds / cost))
    timed = _ByTime(**dataclasses.asdict(each), first_steps=first / steps, first_time=wanted.first, then=wanted.then)
    made = network_for(inputs, name, seed=wanted.seed)
    test = data.load(wanted.data, split="test")
    curve = _Curve(made.module, test, wanted, steps, first)
    chosen = _GaussianFirst(first, copies, then) if first else then
    train(made.module, _Repeated(inputs, steps * each.batch), chosen, timed, device="cpu", on_step=curve.step)
    spent = curve.spent
    record = {
        "objective": description(then),
        "settings": dataclasses.asdict(each),
        "data": {"name": wanted.data, "split": inputs.split, "fingerprint": inputs.fingerprint()},
        "budget": wanted.seconds,
        "seconds": spent,
        "first": {"share": wanted.first, "steps": first, "milliseconds a step": 1000 * gaussian},
        "steps": steps,
        "milliseconds a step": 1000 * cost,
        "epochs": steps * each.batch / len(inputs),
        "curve": curve.points,
        "measured": measured(made.module, test, then, seed=wanted.seed),
    }
    trained.save(out, made.module, made.name, record)


def _seconds_of_a_step(name: str, inputs: Dataset, chosen: Objective, settings: Settings) -> float:
    """The mean processor time of a step, after a few steps that are not counted."""
    made, moments = network_for(inputs, name, seed=settings.seed), []
    steps = _FIRST_STEPS + _MEASURED_STEPS
    train(made.module, _Repeated(inputs, steps * settings.batch), chosen, settings, device="cpu",
          on_step=lambda done: moments.append(time.process_time()))  # fmt: skip
    return (moments[-1] - moments[_FIRST_STEPS - 1]) / _MEASURED_STEPS


class _Curve:
    """Measures the accuracy under noise during a training, outside its time."""

    def __init__(self, model: torch.nn.Module, test: Dataset, wanted: Trained, steps: int, first: int) -> None:
        x, y = test.many(range(min(_WATCHED, len(test))))
        self.model, self.inputs = model, Arrays("watched", "test", x.numpy(), y.numpy())
        self.sigma, self.steps, self.first = wanted.sigma, steps, (first / steps, wanted.first)
        self.points: list[dict[str, float]] = []
        self.paused, self.begun = 0.0, time.process_time()

    @property
    def spent(self) -> float:
        """The processor time of the training so far, without the measurements."""
        return time.process_time() - self.begun - self.paused

    def step(self, done: int) -> None:
        """Measure if the share of the time that has passed calls for it."""
        due = int(share_of_time(done / self.steps, *self.first) * POINTS + 1e-9) - len(self.points)
        if due > 0:  # more than one if there are few steps
            start, spent = time.process_time(), self.spent
            found = accuracy(self.model, self.inputs, self.sigma)
            self.points += [{"seconds": spent, "steps": done, "noisy accuracy": found}] * due
            self.paused += time.process_time() - start
