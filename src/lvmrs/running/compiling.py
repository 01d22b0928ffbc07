"""Whether compiling a network pays: it takes many seconds, and saves a share of each pass."""

from __future__ import annotations

import torch
from torch import Tensor

from lvmrs.errors import ModelError, first_line
from lvmrs.running.choosing import Choice, affordable_batch, costs_together
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
# Compiled networks often want larger batches than others: this size is tried too.
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
    sizes = {batch} if batch else {way.batch, affordable_batch(choice.cost, max(_BATCH, way.batch))}
    ways = [fast.way(size, channels_last=way.channels_last, compiled=True) for size in sorted(sizes)]
    plain = fast.runner(way, choice.workers, x)
    try:
        programs = {each: fast.runner(each, choice.workers, x) for each in ways}
    except Exception as error:  # a compiler that is missing or fails raises errors of many kinds
        if asked:
            raise ModelError(f"the model cannot be compiled ({first_line(error)}); do not ask for it") from error
        return way
    with torch_threads(1):
        noise = torch.randn(max(sizes), *x.shape, generator=torch.Generator().manual_seed(2)).to(x)
        equal = {each: run for each, run in programs.items() if same(fast.network, run, x + _STRENGTH * noise)}
    if not equal or (asked and len(equal) == 1):
        return next(iter(equal), way)
    found = costs_together(equal if asked else {way: plain, **equal}, x, choice.workers)
    fastest = min(found, key=found.__getitem__)
    saves = 1 - found[fastest] / found.get(way, float("inf"))
    return fastest if saves >= _AT_LEAST else way
