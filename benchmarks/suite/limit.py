"""The limit: the fastest bare forward passes that a search finds, on noise that was made beforehand.

Nothing is drawn, counted or proved here, so no certificate can take less time.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable
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

    def __str__(self) -> str:
        """A line of a table."""
        return f"{self.kind}, {self.layout}, batch {self.batch}{', memory kept' if self.kept else ''}"


class Bare:
    """Bare forward passes of one network, in each way."""

    def __init__(self, network: Network) -> None:
        """Fold the network."""
        self._network = network
        self._folded = folded(network.model)
        self._models: dict[tuple[str, str], nn.Module] = {}
        self._compiled: dict[tuple[str, int], Callable[[Tensor], Tensor]] = {}

    def contestant(self, way: Way, n: int) -> Contestant:
        """Forward passes of whole batches, at least n samples; what must be compiled is compiled now."""
        x, model = self._network.x, self._run(way)
        pool = (x + _SIGMA * torch.randn(way.batch, *x.shape)).contiguous(memory_format=LAYOUTS[way.layout])
        passes = -(-n // way.batch)

        def run(passes: int = passes) -> int:
            with torch.inference_mode():
                for _ in range(passes):
                    model(pool)
            return passes * way.batch

        def prepare() -> None:
            keep_freed_memory(kept=way.kept)
            if way.kept:
                run(1)  # the first pass fetches the memory

        with torch.inference_mode(), _frozen():
            model(pool)
        return Contestant(run, prepare)

    def _run(self, way: Way) -> Callable[[Tensor], Tensor]:
        if way.kind != "compiled":
            return self._laid_out(way.kind, way.layout)
        if (way.layout, way.batch) not in self._compiled:  # a program for sizes that are not known would be slower
            program = torch.compile(self._laid_out("folded", way.layout), dynamic=False)
            self._compiled[way.layout, way.batch] = program
        return self._compiled[way.layout, way.batch]

    def _laid_out(self, kind: str, layout: str) -> nn.Module:
        if (kind, layout) not in self._models:
            source: Any = copy.deepcopy(self._folded if kind == "folded" else self._network.model)
            self._models[kind, layout] = source.to(memory_format=LAYOUTS[layout])
        return self._models[kind, layout]


def search(bare: Bare, batches: tuple[int, ...], n: int, trials: int = 3) -> dict[Way, float]:
    """Seconds per sample of each way that was tried, at best; ways that cannot run are left out.

    Eager and folded networks are tried in both layouts and all batch sizes. Compiling takes long, so the compiled
    network is tried in both layouts at the batch size that was best so far, and then in the better one at the others.
    The best ways of all are tried again with freed memory kept.
    """
    found: dict[Way, float] = {}
    for kind in ("eager", "folded"):
        found |= _tried(bare, [Way(kind, layout, batch) for layout in LAYOUTS for batch in batches], n, trials)
    batch = min(found, key=found.__getitem__).batch
    found |= _tried(bare, [Way("compiled", layout, batch) for layout in LAYOUTS], n, trials)
    if compiled := best(found, "compiled"):
        others = [replace(compiled, batch=other) for other in batches if other != batch]
        found |= _tried(bare, others, n, trials)
    leading = sorted(found, key=found.__getitem__)[:_KEPT]
    return found | _tried(bare, [replace(way, kept=True) for way in leading], n, trials)


def best(found: dict[Way, float], kind: str, layout: str | None = None) -> Way | None:
    """The fastest way of a kind with memory as usual; None if none could run."""
    ways = [way for way in found if way.kind == kind and layout in (None, way.layout) and not way.kept]
    return min(ways, key=found.__getitem__, default=None)


def _tried(bare: Bare, ways: Iterable[Way], n: int, trials: int) -> dict[Way, float]:
    """The best of several turns, in which all ways take part."""
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
    shortest = {way: min(of_way) for way, of_way in times.items()}
    for way, seconds in shortest.items():
        print(f"{way!s:44} {1e6 * seconds:9.1f} µs a sample", file=sys.stderr, flush=True)
    return shortest


def _frozen() -> Any:
    import torch._inductor.config

    return torch._inductor.config.patch(freezing=True)
