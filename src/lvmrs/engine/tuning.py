"""Chooses how to run a model by short trials, robust to other programs on the machine.

- Trials alternate, and the best of several rounds counts.
- On a CPU, a trial runs in as many threads as a run will have, since they share caches and memory. Its cost is the
  *processor time* of these threads, which excludes other programs.
- Among nearly equal settings, the batch size nearest to 32 is chosen, which suits most networks.
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

Key = TypeVar("Key")
Clock = Callable[[], float]

_SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
# On other devices than the CPU, batches have 32, 64, … up to 4096 samples.
_DOUBLINGS = 8
# The time limit in seconds of one trial, and of all trials together.
_ONE, _ALL = 0.1, 0.2
_ROUNDS = 3
# In a trial, each thread runs at least this many samples.
_SMALL_PIECE = 32
# The batch size that suits most networks; layouts are compared near this size.
_MIDDLE = 32
# After a round, trials above the first factor times the best cost are dropped; costs within the second factor are
# equal.
_CUTOFF, _AS_GOOD = 1.25, 1.03


def costs(
    trials: dict[Key, tuple[Callable[[], object], int]],
    *,
    clock: Clock = time.thread_time,
    seconds: float = _ALL,
    cutoff: float = _CUTOFF,
) -> dict[Key, float]:
    """Measure the cost of one sample in each trial; the best of several rounds counts.

    Args:
        trials: for each key, a function and the number of samples that it runs.
        clock: returns the time that is measured.
        seconds: the approximate time limit of all rounds, after one to warm up.
        cutoff: trials above this multiple of the best cost are dropped.

    Returns:
        Seconds per sample, for the trials that were not dropped.
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
    """Among the settings within a few percent of the best, the one with the batch size nearest to 32."""
    enough = _AS_GOOD * min(found.values())
    good = (way for way, cost in found.items() if cost <= enough)
    return min(good, key=lambda way: (abs(math.log2(way.batch / _MIDDLE)), way.batch))


@dataclass(frozen=True)
class Tuned:
    """The result of trials."""

    way: Way
    """How to run the model."""
    cost: float
    """Seconds per sample: processor time of one thread on a CPU, wall-clock time on other devices."""
    workers: int = 1
    """The number of threads that run a batch each."""


def chosen_way(fast: Fast, x: Tensor, batch: int | None, threads: int) -> Tuned:
    """Choose batch size and layout for a fast version of a model.

    Args:
        fast: the fast version.
        x: an input, without a batch dimension.
        batch: the batch size; None to choose it.
        threads: the number of threads to use.
    """
    layouts = (False, True) if fast.convolves and x.dim() == 3 else (False,)
    if x.device.type != "cpu":
        return min((_doubled(fast, last, x, batch) for last in layouts), key=lambda choice: choice.cost)
    with torch_threads(1):
        runners = {last: fast.runner(fast.way(1, channels_last=last), threads, x) for last in layouts}
        few = min(batch or _SIZES[0], _SIZES[0])
        first = trial(runners[False], x, few)
        first()  # warm up
        cost = _once(first, time.thread_time) / few
    size = min(batch or _MIDDLE, affordable_batch(cost, batch or _MIDDLE))
    ways = {fast.way(size, channels_last=last): runners[last] for last in layouts}
    found = costs_together(ways, x, threads, cost)
    way = min(found, key=found.__getitem__)
    if batch is not None:
        return Tuned(replace(way, batch=batch), found[way], threads)

    def cost_of(size: int) -> float:
        tried = replace(way, batch=size)
        return costs_together({tried: runners[way.channels_last]}, x, threads, found[way])[tried]

    by_size = {replace(way, batch=size): cost for size, cost in _climbed(cost_of, size, found[way]).items()}
    way = best(by_size)
    return Tuned(way, by_size[way], threads)


def _climbed(cost_of: Callable[[int], float], size: int, cost: float) -> dict[int, float]:
    """Measure larger batch sizes until the cost stops falling; if none is better than the first guess, smaller ones.

    Args:
        cost_of: measures the cost of a sample in batches of a size.
        size: the first guess.
        cost: its cost.
    """
    found = {size: cost}
    at = _SIZES.index(size)
    for sizes in (_SIZES[at + 1 :], _SIZES[:at][::-1]):
        for trying in sizes:
            least = min(found.values())
            if trying * least > _ONE:
                break
            found[trying] = cost_of(trying)
            if found[trying] * _AS_GOOD > least:
                break
        if min(found, key=found.__getitem__) != size:
            break
    return found


def costs_together(ways: dict[Way, Model], x: Tensor, workers: int, cost: float) -> dict[Way, float]:
    """The cost of a sample for each setting, with ``workers`` threads that run a batch each on a CPU.

    Args:
        ways: functions that run a batch, by settings.
        x: an input, without a batch dimension.
        workers: the number of threads.
        cost: about the cost of a sample.
    """
    if x.device.type != "cpu":
        waiting = {way: (_waiting(trial(run, x, way.batch)), way.batch) for way, run in ways.items()}
        return costs(waiting, clock=time.perf_counter)
    few = min(_SMALL_PIECE, _ONE / cost)
    with ThreadPool(workers) as pool:
        trials = {way: _together(pool, run, x, way.batch, max(1, int(few / way.batch))) for way, run in ways.items()}
        return costs(trials, clock=time.process_time)


def _together(pool: ThreadPool, run: Model, x: Tensor, batch: int, passes: int) -> tuple[Callable[[], object], int]:
    """A trial in which each thread runs ``passes`` passes, and the number of samples of the trial."""
    alone = trial(run, x, batch)

    def piece() -> None:
        for _ in range(passes):
            alone()

    def together() -> None:
        queue = pool.queue(Work(0, piece, elsewhere=True) for _ in range(pool.workers))
        while queue.has_more():
            queue.take()

    return together, pool.workers * passes * batch


def _affordable(run: Model, x: Tensor) -> list[int]:
    """The batch sizes whose trial fits in the time limit; at least the smallest.

    The time of each size is extrapolated from the size before it, since a larger batch can be far cheaper per sample.
    """
    enough = [_SIZES[0]]
    for size in _SIZES[1:]:
        before = trial(run, x, enough[-1])
        before()  # warm up
        if _once(before, time.thread_time) * size / enough[-1] > _ONE:
            break
        enough.append(size)
    return enough


def affordable_batch(cost: float, most: int) -> int:
    """The largest standard batch size up to ``most`` whose trial fits in the time limit at this cost per sample."""
    return max((size for size in _SIZES if size <= most and size * cost <= _ONE), default=_SIZES[0])


def trial(run: Model, x: Tensor, size: int) -> Callable[[], object]:
    """A function that runs a batch of this size, on a copy since the model may change its input."""
    inputs = x.expand(size, *x.shape).contiguous()

    def run_batch() -> object:
        with torch.inference_mode():
            return run(inputs.clone())

    return run_batch


def chosen_batch(run: Model, x: Tensor, threads: int) -> Tuned:
    """Choose the batch size of a model that runs without a fast version.

    On a CPU, sizes are tried in one thread, and the best is multiplied by the number of threads. On other devices the
    size is doubled while the cost per sample falls.

    Args:
        run: runs the model on a batch.
        x: an input, without a batch dimension.
        threads: the number of threads of a pass.
    """
    if x.device.type != "cpu":
        size, cost = _largest_useful(run, x)
        return Tuned(Way(size), cost)
    with torch_threads(1):
        found = costs({Way(size): (trial(run, x, size), size) for size in _affordable(run, x)})
    way = best(found)
    return Tuned(Way(way.batch * threads), found[way])


def _doubled(fast: Fast, last: bool, x: Tensor, batch: int | None) -> Tuned:
    """Choose the batch size of a fast version on another device than the CPU, with or without channels last."""
    run = fast.runner(fast.way(1, channels_last=last), 1, x)
    size, cost = _largest_useful(run, x, () if batch is None else (batch,))
    return Tuned(fast.way(size, channels_last=last), cost)


def _largest_useful(run: Model, x: Tensor, sizes: Sequence[int] = ()) -> tuple[int, float]:
    """Double the batch size while the cost of a sample falls; or measure the given size. Returns size and cost."""
    size, cost = 0, math.inf
    for trying in sizes or [32 << doubling for doubling in range(_DOUBLINGS)]:
        waited = _waiting(trial(run, x, trying))
        try:
            waited()
            now = min(_once(waited, time.perf_counter) for _ in range(3)) / trying
        except (torch.OutOfMemoryError, ModelError) as error:
            if size and isinstance(error.__cause__ or error, torch.OutOfMemoryError):
                break
            raise
        if now > cost / _AS_GOOD:
            break
        size, cost = trying, now
    return size, cost


def _waiting(trial: Callable[[], object]) -> Callable[[], object]:
    """A trial that waits for the result of a device that queues work."""

    def waited() -> object:
        answer = trial()
        return answer.sum().item() if isinstance(answer, Tensor) else answer

    return waited


def gain_of_bfloat16(fast: Fast, choice: Tuned, x: Tensor) -> float:
    """How many times as fast a sample is in bfloat16; 1 if it cannot run, or if a batch is too slow to be tried.

    Args:
        fast: the fast version in the precision of the model.
        choice: how it runs, and its cost without compiling.
        x: an input, without a batch dimension.
    """
    way = replace(choice.way, compiled=False)
    if not fast.folded or way.batch * choice.cost > _ONE:
        return 1.0
    try:
        run = fast.lower(torch.bfloat16).runner(way, choice.workers, x)
        found = costs_together({way: run}, x, choice.workers, choice.cost)
    except RuntimeError:  # a step has no implementation in bfloat16, or mixes it with float32
        return 1.0
    return choice.cost / found[way]


# ---------------------------------------------------------------------------------------------------------------------
# Compiling a network takes many seconds, and saves a share of each pass.


# The expected time of compilation in seconds: constant, and per layer.
_SECONDS, _EACH_LAYER = 15.0, 0.2
# The share of run time that compilation is expected to save, and the measured share that it must save.
_SAVED, _AT_LEAST = 0.08, 0.02
# Compilation must be expected to save this many times the time that it takes.
_TIMES = 2.0
# Compiled networks are often faster with larger batches: this size is tried too.
_BATCH = 64
# The σ of the noise under which compiled and plain networks are compared.
_STRENGTH = 0.25


def plain_or_compiled(fast: Fast, choice: Tuned, x: Tensor, batch: int | None, seconds: float, *, asked: bool) -> Way:
    """Choose between plain and compiled: compiled if requested, or if expected and then measured to be faster.

    Args:
        fast: the fast version of the network.
        choice: how to run the network without compiling.
        x: an input, without a batch dimension.
        batch: the batch size; None to choose it.
        seconds: the duration of the run without compiling.
        asked: whether the user requested compilation.
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
            raise ModelError(f"the model cannot be compiled ({first_line(error)}); do not compile it") from error
        return way
    with torch_threads(1):
        noise = torch.randn(max(sizes), *x.shape, generator=torch.Generator().manual_seed(2)).to(x)
        equal = {each: run for each, run in programs.items() if same(fast.network, run, x + _STRENGTH * noise)}
    if not equal or (asked and len(equal) == 1):
        return next(iter(equal), way)
    found = costs_together(equal if asked else {way: plain, **equal}, x, choice.workers, choice.cost)
    fastest = min(found, key=found.__getitem__)
    saves = 1 - found[fastest] / found.get(way, float("inf"))
    return fastest if saves >= _AT_LEAST else way
