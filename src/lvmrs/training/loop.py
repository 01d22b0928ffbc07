"""The loop. All that is random depends on the seed, the epoch and the step: a checkpoint needs no random state."""

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
from torch.nn import functional

from lvmrs import _checks, _torch_checks
from lvmrs.data import Dataset
from lvmrs.errors import InvalidArgumentError, LvmrsError, ModelError, first_line
from lvmrs.sampling import evaluating
from lvmrs.training import checkpoint
from lvmrs.training.batches import AUGMENTATIONS, augmented, generator, in_order, shuffled
from lvmrs.training.objectives import Objective

__all__ = ["Epoch", "Settings", "accuracy", "mean_squared_error", "train"]

_OPTIMIZERS = ("adam", "sgd")
_SCHEDULES = ("one-cycle", "cosine")
_WARM_UP = 0.3  # share of a one-cycle schedule in which the rate rises


@dataclass(frozen=True)
class Settings:
    """How to train. ``lr`` is the largest learning rate; both schedules end at 0.

    ``one-cycle`` rises from a twenty-fifth of it for three tenths of the steps, ``cosine`` begins with it.
    """

    epochs: int = 20
    batch: int = 128
    lr: float = 0.005
    optimizer: str = "adam"
    weight_decay: float = 0.0
    schedule: str = "one-cycle"
    augment: str = "none"
    autocast: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch"):
            _checks.whole(name, getattr(self, name), least=1)
        _checks.whole("seed", self.seed, least=0)
        _checks.positive("lr", self.lr)
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise InvalidArgumentError(f"weight_decay must be at least 0 and finite, got {self.weight_decay!r}")
        _checks.one_of("optimizer", self.optimizer, _OPTIMIZERS)
        _checks.one_of("schedule", self.schedule, _SCHEDULES)
        _checks.one_of("augment", self.augment, AUGMENTATIONS)
        _torch_checks.precision(self.autocast)

    def rate(self, done: float) -> float:
        """The learning rate when this share of the steps is done."""
        if self.schedule == "one-cycle":
            if done < _WARM_UP:
                return self.lr * (1 / 25 + (1 - 1 / 25) * done / _WARM_UP)
            done = (done - _WARM_UP) / (1 - _WARM_UP)
        return self.lr * (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True)
class Epoch:
    """What an epoch came to."""

    number: int
    loss: float
    seconds: float


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
    """Train the model in place, in eval mode afterwards; what each epoch came to.

    ``saved`` is a checkpoint, written after every epoch; with ``resume`` the training goes on from it and ends bit for
    bit as if it had not been stopped, on the same machine. ``origin`` says what model and data are, under names, so
    that a checkpoint of others is refused. ``on_step`` is told how many steps are done in all.
    """
    place = _torch_checks.device(device) or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    workers = _checks.count("workers", workers, least=0)
    objective.check(model)
    model.to(place)
    state = checkpoint.State(model, _optimizer(model, settings), _scaler(settings, place), [])
    told = {**(origin or {}), "objective": repr(objective), **dataclasses.asdict(settings)}
    if resume:
        if saved is None:
            raise InvalidArgumentError("resume needs saved, the checkpoint to go on from")
        state.history[:] = [Epoch(**row) for row in checkpoint.read(saved, state, told)]
    with _seeded_for_layers(place):
        for number in range(len(state.history), settings.epochs):
            start = time.perf_counter()
            loss = _epoch(state, data, objective, settings, number, place, workers, on_step)
            state.history.append(Epoch(number + 1, loss, time.perf_counter() - start))
            if saved is not None:
                checkpoint.write(saved, state, told)
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
    steps = max(1, len(data) // settings.batch)
    total = seen = 0.0
    for step, (x, y) in enumerate(shuffled(data, settings.batch, settings.seed, number, workers)):
        x, y = x.to(place, non_blocking=True), y.to(place, non_blocking=True)
        random = generator(place, settings.seed, number, step + 1)
        x = augmented(x, settings.augment, random)
        for group in state.optimizer.param_groups:
            group["lr"] = settings.rate((number * steps + step) / (settings.epochs * steps))
        state.optimizer.zero_grad(set_to_none=True)
        kind = _torch_checks.precision(settings.autocast)
        with torch.autocast(place.type, dtype=kind, enabled=kind is not None):
            loss = _loss(objective, state.model, x, y, random)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise ModelError(f"the loss is {value} in epoch {number + 1}, step {step + 1}; try a smaller lr")
        state.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        state.scaler.step(state.optimizer)
        state.scaler.update()
        total, seen = total + value * len(x), seen + len(x)
        on_step(number * steps + step + 1)
    return total / seen


def _loss(objective: Objective, model: nn.Module, x: Tensor, y: Tensor, random: Generator) -> Tensor:
    try:
        return objective.loss(model, x, y, random)
    except (RuntimeError, ValueError) as error:
        if isinstance(error, LvmrsError):
            raise
        raise ModelError(f"the model fails on {len(x)} inputs in training mode: {first_line(error)}") from error


def accuracy(
    model: nn.Module, data: Dataset, sigma: float = 0.0, *, seed: int = 0, device: str | torch.device = "auto"
) -> float:
    """How often the model is right on one noisy copy of each input."""
    return _mean(model, data, sigma, seed, device, lambda out, x, y: (out.argmax(dim=1) == y).sum())


def mean_squared_error(
    model: nn.Module, data: Dataset, sigma: float, *, seed: int = 0, device: str | torch.device = "auto"
) -> float:
    """How far a denoiser's answer to one noisy copy of each input is from the input, a pixel on average."""
    return _mean(model, data, sigma, seed, device, lambda out, x, y: functional.mse_loss(out, x) * len(x))


def _mean(
    model: nn.Module,
    data: Dataset,
    sigma: float,
    seed: int,
    device: str | torch.device,
    score: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> float:
    place = _torch_checks.device(device) or next((p.device for p in model.parameters()), torch.device("cpu"))
    total = 0.0
    with evaluating(model):
        for number, (x, y) in enumerate(in_order(data, 256)):
            x, y = x.to(place), y.to(place)
            noise = torch.randn(x.shape, generator=generator(place, seed, number), device=place)
            total += float(score(model(x + sigma * noise), x, y))
    return total / len(data)


def _optimizer(model: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    """Weights are decayed, biases and scales of normalisation are not."""
    decayed = [p for p in model.parameters() if p.requires_grad and p.dim() > 1]
    free = [p for p in model.parameters() if p.requires_grad and p.dim() <= 1]
    groups = [
        {"params": part, "weight_decay": decay}
        for part, decay in ((decayed, settings.weight_decay), (free, 0.0))
        if part
    ]
    if not groups:
        raise ModelError("the model has no parameters to train")
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=settings.lr, momentum=0.9, nesterov=True)
    return torch.optim.AdamW(groups, lr=settings.lr)


def _scaler(settings: Settings, place: torch.device) -> torch.amp.GradScaler:
    return torch.amp.GradScaler(place.type, enabled=settings.autocast == "float16")


@contextmanager
def _seeded_for_layers(place: torch.device) -> Iterator[None]:
    """The caller's random state is as it was, afterwards."""
    devices = [place] if place.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        yield
