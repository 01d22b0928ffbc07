"""The training loop. Random numbers depend only on seed, epoch and step, so that checkpoints need no random state."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Generator, Tensor, nn

from lvmrs.data import Dataset
from lvmrs.errors import InvalidArgumentError, ModelError, RunError, guarded
from lvmrs.kernel import checks, torch_checks
from lvmrs.training import checkpoint
from lvmrs.training.batches import augmented, generator, shuffled
from lvmrs.training.objective_settings import description
from lvmrs.training.objectives import Objective
from lvmrs.training.optimizers import optimizer
from lvmrs.training.settings import Settings

__all__ = ["Epoch", "train"]


@dataclass(frozen=True)
class Epoch:
    """Loss and duration of one epoch."""

    number: int
    """Epochs are numbered from 1."""
    loss: float
    """The mean over all inputs."""
    seconds: float

    def __post_init__(self) -> None:
        numbers = isinstance(self.number, int), isinstance(self.loss, float), isinstance(self.seconds, float)
        if not all(numbers) or self.number < 1:
            raise TypeError(f"an epoch has a number from 1, a loss and seconds, got {self}")


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
    place = torch_checks.device_to_run_on(device)
    workers = checks.count("workers", workers, least=0)
    checks.instance("model", model, nn.Module, "a torch module")
    checks.instance("data", data, Dataset, "a Dataset, as lvmrs.data.load gives it")
    checks.instance("objective", objective, Objective, "an Objective such as Gaussian(0.5)")
    checks.instance("settings", settings, Settings, "Settings of a training")
    objective.check(model)
    model.to(place)
    state = checkpoint.State(model, _optimizer(model, settings), _scaler(settings, place), [])
    made_with = {**(origin or {}), "objective": description(objective), **dataclasses.asdict(settings)}
    if resume:
        if saved is None:
            raise InvalidArgumentError("resume needs saved, the checkpoint to resume from")
        with guarded(f"{saved}: it is not a checkpoint of lvmrs train; delete it to begin again", error=RunError):
            state.history[:] = [Epoch(**row) for row in checkpoint.read(saved, state, made_with)]
    with _seeded_for_layers(place):
        for number in range(len(state.history), settings.epochs):
            start = time.perf_counter()
            loss = _epoch(state, data, objective, settings, number, place, workers, on_step)
            state.history.append(Epoch(number + 1, loss, time.perf_counter() - start))
            if saved is not None:
                checkpoint.write(saved, state, made_with)
            on_epoch(state.history[-1])
    model.eval()
    return state.history


def _epoch(
    state: checkpoint.State,
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
        kind = torch_checks.precision(settings.autocast)
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


def _optimizer(model: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    return optimizer(settings.optimizer, model, lr=settings.lr, weight_decay=settings.weight_decay)


def _scaler(settings: Settings, place: torch.device) -> torch.amp.GradScaler:
    return torch.amp.GradScaler(place.type, enabled=settings.autocast == "float16")


@contextmanager
def _seeded_for_layers(place: torch.device) -> Iterator[None]:
    """Restore the caller's random state after the block, in which torch is seeded for layers such as dropout."""
    devices = [place] if place.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        yield
