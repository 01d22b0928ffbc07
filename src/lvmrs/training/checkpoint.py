"""Checkpoints of a training. They are replaced atomically, so that a killed process leaves a complete checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lvmrs._util.files import replacing
from lvmrs.errors import RunError, first_line, guarded
from lvmrs.models.weights import read_torch

__all__ = ["State", "read", "write"]


@dataclass
class State:
    """The state that changes during a training."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    history: list[Any]


def write(path: Path, state: State, settings: Mapping[str, Any]) -> None:
    """Replace the checkpoint file by the state and the settings of the training."""
    stored = {
        "settings": dict(settings),
        "history": [dataclasses.asdict(epoch) for epoch in state.history],
        "state_dict": state.model.state_dict(),
        "optimizer": state.optimizer.state_dict(),
        "scaler": state.scaler.state_dict(),
    }
    try:
        with replacing(path) as opened:
            torch.save(stored, opened)
    except (OSError, RuntimeError) as error:  # torch raises RuntimeError for a full disk
        raise RunError(f"{path}: the checkpoint cannot be written: {first_line(error)}") from error


def read(path: Path, state: State, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Load a checkpoint into ``state`` and return its epochs. Raises RunError if the settings differ."""
    if not path.is_file():
        raise RunError(f"{path}: there is no checkpoint to resume from; begin a new training instead")
    with guarded(f"{path}: it is not a whole checkpoint of lvmrs train; delete it to begin again", error=RunError):
        stored = read_torch(path)
        before, history = dict(stored["settings"]), [dict(epoch) for epoch in stored["history"]]
        weights, optimizer, scaler = (dict(stored[part]) for part in ("state_dict", "optimizer", "scaler"))
    changed = [
        f"{key} was {before.get(key)!r} and is {settings.get(key)!r}"
        for key in {**before, **settings}
        if before.get(key) != settings.get(key)
    ]
    if changed:
        raise RunError(f"{path}: it was made with other settings ({'; '.join(changed)}); use those, or delete it")
    with guarded(f"{path}: it does not fit the model; delete it to begin again", error=RunError):
        state.model.load_state_dict(weights)
        state.optimizer.load_state_dict(optimizer)
        state.scaler.load_state_dict(scaler)
    return history
