"""The limit: the fastest bare forward passes that a search finds, on noise that was made beforehand.

Nothing is drawn, counted or proved here, so no certificate can take less time.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from suite.folding import folded
from suite.networks import Network
from suite.rounds import Contestant, seconds_per_sample

__all__ = ["LAYOUTS", "Bare", "Way", "search"]

LAYOUTS = {"contiguous": torch.contiguous_format, "channels-last": torch.channels_last}
_SIGMA = 0.5


@dataclass(frozen=True)
class Way:
    """One way of running a network."""

    kind: str
    """eager, folded, or compiled (of the folded network, with frozen weights)."""
    layout: str
    batch: int

    def __str__(self) -> str:
        return f"{self.kind}, {self.layout}, batch {self.batch}"


class Bare:
    """Bare forward passes of one network, in each way."""

    def __init__(self, network: Network) -> None:
        """Fold the network."""
        self._network = network
        self._models: dict[tuple[str, str], nn.Module] = {}
        self._folded = folded(network.model)
        self._compiled: dict[Way, Callable[[Tensor], Tensor]] = {}

    def contestant(self, way: Way, n: int) -> Contestant:
        """Forward passes of whole batches, at least n samples; what must be compiled is compiled now."""
        x, model = self._network.x, self._run(way)
        pool = (x + _SIGMA * torch.randn(way.batch, *x.shape)).contiguous(memory_format=LAYOUTS[way.layout])
        passes = -(-n // way.batch)

        def run() -> int:
            with torch.inference_mode():
                for _ in range(passes):
                    model(pool)
            return passes * way.batch

        with torch.inference_mode(), _frozen():
            model(pool)
        return run

    def _run(self, way: Way) -> Callable[[Tensor], Tensor]:
        if way.kind != "compiled":
            return self._laid_out(way.kind, way.layout)
        if way not in self._compiled:  # one program for each size: sizes that are not known make slower ones
            self._compiled[way] = torch.compile(self._laid_out("folded", way.layout), dynamic=False)
        return self._compiled[way]

    def _laid_out(self, kind: str, layout: str) -> nn.Module:
        if (kind, layout) not in self._models:
            source = self._folded if kind == "folded" else self._network.model
            self._models[kind, layout] = copy.deepcopy(source).to(memory_format=LAYOUTS[layout])  # type: ignore[call-overload]
        return self._models[kind, layout]


def search(bare: Bare, batches: tuple[int, ...], n: int, trials: int = 3) -> dict[Way, float]:
    """Seconds per sample of each way that was tried, at best; ways that cannot run are left out.

    Eager and folded networks are tried in both layouts and all batch sizes. Compiling takes long, so the compiled
    network is tried in both layouts at the batch size that was best so far, and then in the better one at the others.
    """
    found: dict[Way, float] = {}
    for kind in ("eager", "folded"):
        found |= _tried(bare, (Way(kind, layout, batch) for layout in LAYOUTS for batch in batches), n, trials)
    batch = min(found, key=found.__getitem__).batch
    found |= _tried(bare, (Way("compiled", layout, batch) for layout in LAYOUTS), n, trials)
    compiled = [way for way in found if way.kind == "compiled"]
    if compiled:
        layout = min(compiled, key=found.__getitem__).layout
        others = (Way("compiled", layout, other) for other in batches if other != batch and other <= 256)
        found |= _tried(bare, others, n, trials)
    return found


def _tried(bare: Bare, ways: Iterator[Way], n: int, trials: int) -> dict[Way, float]:
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
    best = {way: min(of_way) for way, of_way in times.items()}
    for way, seconds in best.items():
        print(f"{way!s:40} {1e6 * seconds:9.1f} µs a sample", file=sys.stderr, flush=True)
    return best


def _frozen() -> Any:
    import torch._inductor.config

    return torch._inductor.config.patch(freezing=True)
