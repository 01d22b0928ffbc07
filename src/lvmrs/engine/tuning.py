"""Choosing how to run a model by short trials that a busy moment cannot spoil.

- Trials take turns, and the best of several rounds counts.
- On a CPU, a trial runs in as many threads as a run will have, since they share caches and memory. Its cost is the
  *processor time* of these threads: time that other programs take is not counted.
- Among ways that are about as good, the batch size nearest to 32 is taken, which is good for most networks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from lvmrs.engine.execution import Fast, Model, same
from lvmrs.engine.threads import ThreadPool, Work, torch_threads
from lvmrs.engine.way import Way
from lvmrs.errors import ModelError, first_line

__all__ = [
    "Choice",
    "affordable_batch",
    "best",
    "chosen_batch",
    "chosen_way",
    "costs",
    "costs_together",
    "if_worth_it",
    "trial",
]

Key = TypeVar("Key")
Clock = Callable[[], float]

_SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
_LARGEST_ELSEWHERE = 4096
# Seconds that one trial may take, and all together.
_ONE, _ALL = 0.2, 0.3
_ROUNDS = 3
# In a trial each thread has one piece of at least so many samples.
_SMALL_PIECE = 32
# The batch size that is good for most networks; layouts are compared at about this size.
_MIDDLE = 32
# What costs this much more than the best after a round is not tried again; what is within the second factor is as good.
_CUTOFF, _AS_GOOD = 1.25, 1.03


def costs(
    trials: dict[Key, tuple[Callable[[], object], int]],
    *,
    clock: Clock = time.thread_time,
    seconds: float = _ALL,
    cutoff: float = _CUTOFF,
) -> dict[Key, float]:
    """Measure what one sample costs in each trial; the best of several rounds counts.

    Args:
        trials: what to run, and how many samples that is.
        clock: what is measured.
        seconds: about how long all rounds may take, after one to warm up.
        cutoff: what costs so many times as much as the best is not tried again.

    Returns:
        Seconds for a sample, of the trials that were not dropped.
    """
    found = dict.fromkeys(trials, math.inf)
    for run, _ in trials.values():
        run()
    begun = clock()
    for _ in range(_ROUNDS):
        for key in found:
            run, samples = trials[key]
            found[key] = min(found[key], _once(run, clock) / samples)
        least = min(found.values())
        found = {key: cost for key, cost in found.items() if cost <= cutoff * least}
        if clock() - begun > seconds:
            break
    return found


def _once(run: Callable[[], object], clock: Clock) -> float:
    start = clock()
    run()
    return max(clock() - start, 1e-9)


def best(found: dict[Way, float]) -> Way:
    """The way with the most usual batch size among those that are as good as the best."""
    enough = _AS_GOOD * min(found.values())
    good = (way for way, cost in found.items() if cost <= enough)
    return min(good, key=lambda way: (abs(math.log2(way.batch / _MIDDLE)), way.batch))


@dataclass(frozen=True)
class Choice:
    """What trials have shown."""

    way: Way
    """How to run the model."""
    cost: float
    """What a sample costs in seconds: the processor time of one thread on a CPU, elsewhere as the clock shows."""
    workers: int = 1
    """How many threads run a batch each."""


def chosen_way(fast: Fast, x: Tensor, batch: int | None, threads: int) -> Choice:
    """Choose batch size and layout for a fast version of a model.

    Args:
        fast: the fast version.
        x: an input, without a batch dimension.
        batch: the batch size, if it is given.
        threads: how many threads may be used.
    """
    with torch_threads(1):
        layouts = (False, True) if fast.convolves and x.dim() == 3 else (False,)
        runners = {last: fast.runner(fast.way(1, channels_last=last), threads, x) for last in layouts}
        sizes = _affordable(runners[False], x, _SIZES if batch is None else _up_to(batch))
    if batch is not None:
        sizes = sizes[-1:]
    middle = min(sizes, key=lambda size: abs(size - _MIDDLE))
    ways = {fast.way(middle, channels_last=last): runners[last] for last in layouts}
    last = min(found := costs_together(ways, x, threads), key=found.__getitem__).channels_last
    found = costs_together({fast.way(size, channels_last=last): runners[last] for size in sizes}, x, threads)
    way = best(found)
    return Choice(replace(way, batch=batch or way.batch), found[way], threads)


def costs_together(ways: dict[Way, Model], x: Tensor, workers: int) -> dict[Way, float]:
    """What a sample costs in each way, if so many threads run a batch each."""
    with ThreadPool(workers) as pool:
        trials = {
            way: _together(pool, run, x, way.batch, max(1, _SMALL_PIECE // way.batch)) for way, run in ways.items()
        }
        return costs(trials, clock=time.process_time)


def _together(pool: ThreadPool, run: Model, x: Tensor, batch: int, passes: int) -> tuple[Callable[[], object], int]:
    """Let each thread of a pool do a piece of so many passes; the second number is how many samples that is."""
    alone = trial(run, x, batch)

    def piece() -> None:
        for _ in range(passes):
            alone()

    def together() -> None:
        queue = pool.queue(Work(0, piece, elsewhere=True) for _ in range(pool.workers))
        while queue.has_more():
            queue.take()

    return together, pool.workers * passes * batch


def _affordable(run: Model, x: Tensor, sizes: Sequence[int] = _SIZES) -> list[int]:
    """The batch sizes that can be tried in the time that one trial may take; at least the smallest.

    Each size is judged by what the one before it took: some networks need far less for a sample of a larger batch.
    """
    enough = [sizes[0]]
    for size in sizes[1:]:
        before = trial(run, x, enough[-1])
        before()  # the first pass takes longer
        if _once(before, time.thread_time) * size / enough[-1] > _ONE:
            break
        enough.append(size)
    return enough


def _up_to(batch: int) -> tuple[int, ...]:
    """The usual batch sizes below one that is given, and that one."""
    return (*(size for size in _SIZES if size < batch), batch)


def affordable_batch(cost: float, most: int) -> int:
    """The largest usual batch size up to ``most`` that takes no longer than a trial may, for this cost of a sample."""
    return max((size for size in _SIZES if size <= most and size * cost <= _ONE), default=_SIZES[0])


def trial(run: Model, x: Tensor, size: int) -> Callable[[], object]:
    """Run a batch of this size; the model may change it."""
    inputs = x.expand(size, *x.shape).contiguous()

    def run_batch() -> object:
        with torch.inference_mode():
            return run(inputs.clone())

    return run_batch


def chosen_batch(run: Model, x: Tensor, threads: int) -> Choice:
    """Choose the batch size of a model that runs as it is.

    On a CPU, sizes are tried in one thread, and the best is multiplied by the number of threads. Elsewhere the size is
    doubled while that pays.

    Args:
        run: runs the model on a batch.
        x: an input, without a batch dimension.
        threads: how many threads a pass uses.
    """
    if x.device.type != "cpu":
        return _doubled(run, x)
    with torch_threads(1):
        found = costs({Way(size): (trial(run, x, size), size) for size in _affordable(run, x)})
    way = best(found)
    return Choice(Way(way.batch * threads), found[way])


def _doubled(run: Model, x: Tensor) -> Choice:
    size, cost = 0, float("inf")
    trying = 32
    while trying <= _LARGEST_ELSEWHERE:
        waited = _waiting(trial(run, x, trying))
        waited()
        now = min(_once(waited, time.perf_counter) for _ in range(3)) / trying
        if now > cost / _AS_GOOD:
            break
        size, cost, trying = trying, now, 2 * trying
    return Choice(Way(size), cost)


def _waiting(trial: Callable[[], object]) -> Callable[[], object]:
    """A trial on a device that queues work: the queue is waited for."""

    def waited() -> object:
        answer = trial()
        return answer.sum().item() if isinstance(answer, Tensor) else answer

    return waited


# ---------------------------------------------------------------------------------------------------------------------
# Whether compiling a network pays: it takes many seconds, and saves a share of each pass.


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
