"""The limit: the fastest bare forward passes that a search finds, on noise that was made beforehand.

Nothing is drawn, counted or proved here, so no certificate can take less time.
"""

from __future__ import annotations

import copy
import statistics
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from suite.folding import folded
from suite.memory import keep_freed_memory
from suite.networks import Network
from suite.rounds import Contestant, seconds_per_sample

__all__ = ["LAYOUTS", "Bare", "Way", "best", "search"]

LAYOUTS = {"contiguous": torch.contiguous_format, "channels-last": torch.channels_last}
_SIGMA = 0.5
# The best so many ways are tried with freed memory kept, too.
_KEPT = 3


@dataclass(frozen=True)
class Way:
    """One way of running a network."""

    kind: str
    """eager, folded, or compiled (of the folded network, with frozen weights)."""
    layout: str
    batch: int
    kept: bool = False
    """Whether the C library keeps freed memory."""
    threads: int = 1
    """How many threads run a batch each, with one core each; 1 for passes that all cores share."""

    def __str__(self) -> str:
        """A line of a table."""
        more = [f"{self.threads} at a time"] * (self.threads > 1) + ["memory kept"] * self.kept
        return ", ".join([self.kind, self.layout, f"batch {self.batch}", *more])


class Bare:
    """Bare forward passes of one network, in each way."""

    def __init__(self, network: Network) -> None:
        """Fold the network."""
        self._network = network
        self._folded = folded(network.model)
        self._models: dict[tuple[str, str], nn.Module] = {}
        self._compiled: dict[tuple[str, int, int], Callable[[Tensor], Tensor]] = {}

    def contestant(self, way: Way, n: int) -> Contestant:
        """Forward passes of whole batches, at least n samples; what must be compiled is compiled now."""
        x, model = self._network.x, self._run(way)
        pool = (x + _SIGMA * torch.randn(way.batch, *x.shape)).contiguous(memory_format=LAYOUTS[way.layout])
        passes = -(-n // (way.batch * way.threads))

        def some(passes: int) -> None:
            with torch.inference_mode():
                for _ in range(passes):
                    model(pool)

        def run(passes: int = passes) -> int:
            if way.threads == 1:
                some(passes)
            else:
                crew = ThreadPoolExecutor(way.threads, "limit", torch.set_num_threads, (1,))
                with crew:
                    list(crew.map(some, [passes] * way.threads))
            return passes * way.batch * way.threads

        def prepare() -> None:
            keep_freed_memory(kept=way.kept)
            if way.kept:
                run(1)  # the first pass fetches the memory

        before = torch.get_num_threads()
        torch.set_num_threads(1 if way.threads > 1 else before)  # a compiled program has its number of threads
        with torch.inference_mode(), _frozen():
            model(pool)
        torch.set_num_threads(before)
        return Contestant(run, prepare)

    def _run(self, way: Way) -> Callable[[Tensor], Tensor]:
        if way.kind != "compiled":
            return self._laid_out(way.kind, way.layout)
        key = way.layout, way.batch, way.threads
        if key not in self._compiled:  # a program for sizes that are not known would be slower
            self._compiled[key] = torch.compile(copy.deepcopy(self._laid_out("folded", way.layout)), dynamic=False)
        return self._compiled[key]

    def _laid_out(self, kind: str, layout: str) -> nn.Module:
        if (kind, layout) not in self._models:
            source: Any = copy.deepcopy(self._folded if kind == "folded" else self._network.model)
            self._models[kind, layout] = source.to(memory_format=LAYOUTS[layout])
        return self._models[kind, layout]


def search(bare: Bare, batches: tuple[int, ...], n: int, trials: int = 3) -> dict[Way, float]:
    """Seconds per sample of each way that was tried; ways that cannot run are left out.

    Eager and folded networks are tried in both layouts and all batch sizes. Compiling takes long, so the compiled
    network is tried in both layouts at the batch size that was best so far, and then in the better one at the others.
    Folded and compiled networks are also tried in threads that run a batch each. The best ways of all are tried again
    with freed memory kept.
    """
    found: dict[Way, float] = {}
    for kind in ("eager", "folded"):
        found |= _tried(bare, [Way(kind, layout, batch) for layout in LAYOUTS for batch in batches], n, trials)
    batch = min(found, key=found.__getitem__).batch
    found |= _tried(bare, [Way("compiled", layout, batch) for layout in LAYOUTS], n, trials)
    if compiled := best(found, "compiled"):
        others = [replace(compiled, batch=other) for other in batches if other != batch]
        found |= _tried(bare, others, n, trials)
    if (cores := torch.get_num_threads()) > 1:
        found |= _tried(bare, _one_core_each(found, batches, cores), n, trials)
    leading = sorted(found, key=found.__getitem__)[:_KEPT]
    return found | _tried(bare, [replace(way, kept=True) for way in leading], n, trials)


def _one_core_each(found: dict[Way, float], batches: tuple[int, ...], cores: int) -> list[Way]:
    """The better layout of each kind, in threads that run a batch each, of usual and of smaller sizes."""
    smaller = {max(1, size // cores) for size in batches} | {min(batches) // (2 * cores) or 1}
    leading = [way for kind in ("folded", "compiled") if (way := best(found, kind))]
    sizes = {"folded": sorted(smaller), "compiled": sorted(smaller)[:2]}
    return [replace(way, batch=size, threads=cores) for way in leading for size in sizes[way.kind]]


def best(found: dict[Way, float], kind: str, layout: str | None = None) -> Way | None:
    """The fastest way of a kind with memory as usual, in passes that all cores share; None if none could run."""
    plain = [way for way in found if way.threads == 1 and not way.kept]
    ways = [way for way in plain if way.kind == kind and layout in (None, way.layout)]
    return min(ways, key=found.__getitem__, default=None)


def _tried(bare: Bare, ways: Iterable[Way], n: int, trials: int) -> dict[Way, float]:
    """The median of several turns, in which all ways take part."""
    ready = {}
    for way in ways:
        try:
            ready[way] = bare.contestant(way, n)
        except Exception as error:  # whatever a compiler raises
            print(f"{way}: it cannot run: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)
    times: dict[Way, list[float]] = {way: [] for way in ready}
    for _ in range(trials):
        for way, contestant in ready.items():
            times[way].append(seconds_per_sample(contestant))
    usual = {way: statistics.median(of_way) for way, of_way in times.items()}
    for way, seconds in usual.items():
        print(f"{way!s:44} {1e6 * seconds:9.1f} µs a sample", file=sys.stderr, flush=True)
    return usual


def _frozen() -> Any:
    import torch._inductor.config

    return torch._inductor.config.patch(freezing=True)
