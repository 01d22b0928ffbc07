"""Whether compiling a network pays: it takes many seconds, and saves a share of each pass."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from lvmrs.running.choosing import costs, trial
from lvmrs.running.crew import one_thread_each
from lvmrs.running.fast import Fast, same
from lvmrs.running.way import Way

__all__ = ["if_worth_it"]

# What compiling is expected to take: seconds in any case, and for each layer.
_SECONDS, _EACH_LAYER = 15.0, 0.2
# The share of the time that it is expected to save, and what it must save to be kept.
_SAVED, _AT_LEAST = 0.05, 0.02
# It must save this many times what it takes.
_TIMES = 2.0


def if_worth_it(fast: Fast, way: Way, x: Tensor, samples: int, rate: float, *, asked: bool) -> Way:
    """The way, compiled if that was asked for, or if it is expected to pay and is then measured to be faster.

    Args:
        fast: the fast version of the network.
        way: how to run it without compiling.
        x: an input, without a batch dimension.
        samples: how many samples are to come.
        rate: samples per second without compiling.
        asked: whether to compile in any case.

    Returns:
        The way to take.
    """
    layers = sum(not list(layer.children()) for layer in fast.network.modules())
    takes = _SECONDS + _EACH_LAYER * layers
    if not asked and samples / rate * _SAVED < _TIMES * takes:
        return way
    compiled = fast.way(way.batch, channels_last=way.channels_last, compiled=True)
    with one_thread_each(), torch.inference_mode():
        plain, program = (fast.runner(one, 1) for one in (way, compiled))
        inputs = x + 0.1 * torch.randn(way.batch, *x.shape, generator=torch.Generator().manual_seed(0)).to(x)
        begun = time.perf_counter()
        try:
            equal = same(plain, program, inputs)
        except Exception:  # a compiler that is missing or fails raises many kinds of errors
            if asked:
                raise
            return way
        takes = time.perf_counter() - begun
        found = costs({one: (trial(run, x, way.batch), way.batch) for one, run in ((way, plain), (compiled, program))})
    if asked:
        return compiled
    saves = 1 - found.get(compiled, float("inf")) / found.get(way, float("inf"))
    return compiled if equal and saves >= _AT_LEAST else way
