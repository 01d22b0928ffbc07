"""The training loop, its settings and its checkpoints.

Random numbers depend only on seed, epoch and step, so that checkpoints need no random state. Checkpoints are replaced
atomically, so that a killed process leaves a complete checkpoint.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from lvmrs._util import machine
from lvmrs._util.files import replacing
from lvmrs.data import Dataset
from lvmrs.errors import InvalidArgumentError, ModelError, RunError, first_line, guarded
from lvmrs.kernel import checks
from lvmrs.models.weights import read_torch
from lvmrs.record.manifest import TIME
from lvmrs.training.batches import AUGMENTATIONS, augmented, generator, shuffled
from lvmrs.training.objectives import Objective, description

_WARM_UP = 0.3  # share of the steps in which the learning rate of one-cycle rises


def _cosine(done: float) -> float:
    return (1 + math.cos(math.pi * done)) / 2


def _one_cycle(done: float) -> float:
    if done < _WARM_UP:
        return 1 / 25 + (1 - 1 / 25) * done / _WARM_UP
    return _cosine((done - _WARM_UP) / (1 - _WARM_UP))


# From the share of steps done to the share of the largest learning rate.
_SCHEDULES: dict[str, Callable[[float], float]] = {"one-cycle": _one_cycle, "cosine": _cosine}
_OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "adam": torch.optim.AdamW,
    "sgd": partial(torch.optim.SGD, momentum=0.9, nesterov=True),
}


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
        plain = {  # Python numbers, which JSON can represent
            "epochs": checks.count("epochs", self.epochs, least=1),
            "batch": checks.count("batch", self.batch, least=1),
            "seed": checks.count("seed", self.seed, least=0),
            "lr": checks.positive_number("lr", self.lr),
            "weight_decay": checks.nonnegative_number("weight_decay", self.weight_decay),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        checks.one_of("optimizer", self.optimizer, _OPTIMIZERS)
        checks.one_of("schedule", self.schedule, _SCHEDULES)
        checks.one_of("augment", self.augment, AUGMENTATIONS)
        checks.precision("autocast", self.autocast)

    def rate(self, done: float) -> float:
        """The learning rate after the share ``done`` of all steps, from 0 to 1."""
        return self.lr * _SCHEDULES[self.schedule](done)

    def steps(self, inputs: int) -> int:
        """The number of steps in one epoch; an incomplete last batch counts only if it is the only batch."""
        return max(1, inputs // self.batch)


def optimizer(settings: Settings, model: nn.Module) -> Optimizer:
    """Make an optimizer for a model. Weight decay does not apply to biases and scales of normalisation."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise ModelError("the model has no parameters to train")
    parts = ((settings.weight_decay, [p for p in trained if p.dim() > 1]), (0.0, [p for p in trained if p.dim() <= 1]))
    groups = [{"params": part, "weight_decay": decay} for decay, part in parts if part]
    return _OPTIMIZERS[settings.optimizer](groups, lr=settings.lr)


# ---------------------------------------------------------------------------------------------------------------------
# The loop.


@dataclass(frozen=True)
class Epoch:
    """Loss, duration and beginning of one epoch."""

    number: int
    """Epochs are numbered from 1."""
    loss: float
    """The mean over all inputs."""
    seconds: float
    begun: str
    """The time when the epoch began."""

    def __post_init__(self) -> None:
        numbers = isinstance(self.number, int), isinstance(self.loss, float), isinstance(self.seconds, float)
        if not all(numbers) or self.number < 1 or not isinstance(self.begun, str):
            raise TypeError(f"an epoch has a number from 1, a loss, seconds and a time, got {self}")


def train(
    model: nn.Module,
    data: Dataset,
    objective: Objective,
    settings: Settings,
    *,
    saved: Path | None = None,
    resume: bool = False,
    origin: Mapping[str, str] | None = None,
    device: str | torch.device = "auto",
    workers: int = 0,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    on_step: Callable[[int], None] = lambda done: None,
) -> list[Epoch]:
    """Train a model in place, and leave it in eval mode.

    Args:
        model: the network to train.
        data: the training data.
        objective: the loss.
        settings: epochs, learning rate and other settings.
        saved: a checkpoint file, replaced after every epoch. None: no checkpoints.
        resume: continue from ``saved``. On the same machine, the result equals that of an uninterrupted training.
        origin: identifies the model and the data, under names of your choice; a checkpoint of another origin is an
            error.
        device: the device to train on; ``auto`` takes a GPU if there is one.
        workers: number of processes that read the data; 0 reads them in this process.
        on_epoch: called after each epoch.
        on_step: called after each step with the total number of steps done.

    Returns:
        All epochs, including those before a resumption.

    >>> import numpy as np
    >>> from lvmrs.data import Arrays
    >>> from lvmrs.training import Gaussian
    >>> model, corners = nn.Linear(2, 2), Arrays("corners", "train", np.eye(2), np.arange(2))
    >>> history = train(model, corners, Gaussian(0.1), Settings(epochs=50, batch=2, lr=0.1), device="cpu")
    >>> len(history), history[-1].loss < history[0].loss
    (50, True)
    """
    place = machine.device_to_run_on(device)
    workers = checks.count("workers", workers, least=0)
    checks.instance("model", model, nn.Module, "a torch module")
    checks.instance("data", data, Dataset, "a Dataset, as lvmrs.data.load gives it")
    checks.instance("objective", objective, Objective, "an Objective such as Gaussian(0.5)")
    checks.instance("settings", settings, Settings, "Settings of a training")
    objective.check(model)
    model.to(place)
    scaler = torch.amp.GradScaler(place.type, enabled=settings.autocast == "float16")
    state = _State(model, optimizer(settings, model), scaler, [])
    made_with = {**(origin or {}), "objective": description(objective), **dataclasses.asdict(settings)}
    if resume:
        if saved is None:
            raise InvalidArgumentError("resume needs saved, the checkpoint to resume from")
        state.read(saved, made_with)
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):  # keeps the caller's random state
        for number in range(len(state.history), settings.epochs):
            start, begun = time.perf_counter(), time.strftime(TIME)
            loss = _epoch(state, data, objective, settings, number, place, workers, on_step)
            state.history.append(Epoch(number + 1, loss, time.perf_counter() - start, begun))
            if saved is not None:
                state.write(saved, made_with)
            on_epoch(state.history[-1])
    model.eval()
    return state.history


def _epoch(
    state: _State,
    data: Dataset,
    objective: Objective,
    settings: Settings,
    number: int,
    place: torch.device,
    workers: int,
    on_step: Callable[[int], None],
) -> float:
    state.model.train()
    torch.manual_seed(generator(torch.device("cpu"), settings.seed, number, 0).initial_seed())  # for dropout
    steps = settings.steps(len(data))
    total = seen = 0.0
    for step, (x, y) in enumerate(shuffled(data, settings.batch, settings.seed, number, workers)):
        x, y = x.to(place, non_blocking=True), y.to(place, non_blocking=True)
        random = generator(place, settings.seed, number, step + 1)
        x = augmented(x, settings.augment, random)
        for group in state.optimizer.param_groups:
            group["lr"] = settings.rate((number * steps + step) / (settings.epochs * steps))
        state.optimizer.zero_grad(set_to_none=True)
        kind = checks.precision("autocast", settings.autocast)
        with torch.autocast(place.type, dtype=kind, enabled=kind is not None):
            loss = _loss(objective, state.model, x, y, random)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise ModelError(f"the loss is {value} in epoch {number + 1}, step {step + 1}; try a smaller lr")
        with guarded(f"the gradients fail in epoch {number + 1}, step {step + 1}", error=ModelError):
            state.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            state.scaler.step(state.optimizer)
        state.scaler.update()
        total, seen = total + value * len(x), seen + len(x)
        on_step(number * steps + step + 1)
    return total / seen


def _loss(objective: Objective, model: nn.Module, x: Tensor, y: Tensor, random: Generator) -> Tensor:
    kind = type(objective).__name__
    with guarded(f"the model or the loss of {kind} fails on {len(x)} inputs in training mode", error=ModelError):
        loss = objective.loss(model, x, y, random)
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
        shown = repr(loss).replace("\n", " ")
        raise ModelError(
            f"the loss of {kind} must be a tensor of one number that depends on the model, got {shown:.60}"
        )
    return loss


@dataclass
class _State:
    """The state that changes during a training, which checkpoints contain."""

    model: nn.Module
    optimizer: Optimizer
    scaler: torch.amp.GradScaler
    history: list[Epoch]

    def write(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Replace the checkpoint file by the state and the settings of the training."""
        stored = {
            "settings": dict(settings),
            "history": [dataclasses.asdict(epoch) for epoch in self.history],
            "state_dict": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
        }
        try:
            with replacing(path) as opened:
                torch.save(stored, opened)
        except (OSError, RuntimeError) as error:  # torch raises RuntimeError for a full disk
            raise RunError(f"{path}: the checkpoint cannot be written: {first_line(error)}") from error

    def read(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Load a checkpoint. Raises RunError if the settings differ."""
        if not path.is_file():
            raise RunError(f"{path}: there is no checkpoint to resume from; begin a new training instead")
        with guarded(f"{path}: it is not a whole checkpoint of lvmrs train; delete it to begin again", error=RunError):
            with path.open("rb") as opened:
                stored = read_torch(opened)
            before, self.history = dict(stored["settings"]), [Epoch(**epoch) for epoch in stored["history"]]
            weights, optimizer, scaler = (dict(stored[part]) for part in ("state_dict", "optimizer", "scaler"))
        changed = [
            f"{key} was {before.get(key)!r} and is {settings.get(key)!r}"
            for key in {**before, **settings}
            if before.get(key) != settings.get(key)
        ]
        if changed:
            raise RunError(f"{path}: it was made with other settings ({'; '.join(changed)}); use those, or delete it")
        with guarded(f"{path}: it does not fit the model; delete it to begin again", error=RunError):
            self.model.load_state_dict(weights)
            self.optimizer.load_state_dict(optimizer)
            self.scaler.load_state_dict(scaler)
