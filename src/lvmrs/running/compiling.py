"""Whether compiling a network pays: it takes many seconds, and saves a share of each pass."""

from __future__ import annotations

import torch
from torch import Tensor

from lvmrs.errors import ModelError, first_line
from lvmrs.running.choosing import Choice, affordable_batch, costs, trial
from lvmrs.running.crew import torch_threads
from lvmrs.running.fast import Fast, same
from lvmrs.running.way import Way

__all__ = ["if_worth_it"]

# What compiling is expected to take: seconds in any case, and for each layer.
_SECONDS, _EACH_LAYER = 15.0, 0.2
# The share of the time that it is expected to save, and what it must save to be kept.
_SAVED, _AT_LEAST = 0.08, 0.02
# It must save this many times what it takes.
_TIMES = 2.0
# Compiled networks want larger batches than others.
_BATCH = 64
# Both versions are compared under noise of this σ.
_STRENGTH = 0.25


def if_worth_it(fast: Fast, choice: Choice, x: Tensor, batch: int | None, seconds: float, *, asked: bool) -> Way:
    """The way to take: compiled if that was asked for, or if it is expected to pay and is then measured to be faster.

    Args:
        fast: the fast version of the network.
        choice: how to run it without compiling.
        x: an input, without a batch dimension.
        batch: the batch size, if it is given.
        seconds: how long the run takes without compiling.
        asked: whether to compile in any case.
    """
    way = choice.way
    layers = sum(not list(layer.children()) for layer in fast.network.modules())
    if not asked and seconds * _SAVED < _TIMES * (_SECONDS + _EACH_LAYER * layers):
        return way
    size = batch or affordable_batch(choice.cost, max(_BATCH, way.batch))
    compiled = fast.way(size, channels_last=way.channels_last, compiled=True)
    plain = fast.runner(way, 1, x)
    try:
        program = fast.runner(compiled, 1, x)
    except Exception as error:  # a compiler that is missing or fails raises errors of many kinds
        if asked:
            raise ModelError(f"the model cannot be compiled ({first_line(error)}); do not ask for it") from error
        return way
    with torch_threads(1):
        noise = torch.randn(size, *x.shape, generator=torch.Generator().manual_seed(2)).to(x)
        equal = same(plain, program, x + _STRENGTH * noise)
        if asked and equal:
            return compiled
        found = costs({way: (trial(plain, x, way.batch), way.batch), compiled: (trial(program, x, size), size)})
    saves = 1 - found.get(compiled, float("inf")) / found.get(way, float("inf"))
    return compiled if equal and saves >= _AT_LEAST else way
