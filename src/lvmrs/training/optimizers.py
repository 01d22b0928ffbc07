"""Optimizers by name, with weight decay for weights only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from lvmrs.errors import ModelError

__all__ = ["OPTIMIZERS", "optimizer"]

_Groups = list[dict[str, Any]]


def _adam(groups: _Groups, lr: float) -> Optimizer:
    return torch.optim.AdamW(groups, lr=lr)


def _sgd(groups: _Groups, lr: float) -> Optimizer:
    return torch.optim.SGD(groups, lr=lr, momentum=0.9, nesterov=True)


OPTIMIZERS: dict[str, Callable[[_Groups, float], Optimizer]] = {"adam": _adam, "sgd": _sgd}


def optimizer(name: str, model: nn.Module, *, lr: float, weight_decay: float) -> Optimizer:
    """Make an optimizer for a model. Weight decay does not apply to biases and scales of normalisation."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise ModelError("the model has no parameters to train")
    parts = ((weight_decay, [p for p in trained if p.dim() > 1]), (0.0, [p for p in trained if p.dim() <= 1]))
    return OPTIMIZERS[name]([{"params": part, "weight_decay": decay} for decay, part in parts if part], lr)
