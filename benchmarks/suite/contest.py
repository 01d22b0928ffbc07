"""All contestants on one network, side by side in one process.

cd benchmarks && python -m suite.contest NETWORK [--rounds 5] [--n N] [--busy]
"""

from __future__ import annotations

import argparse
import contextlib
import time
from typing import Any

import torch

from suite.busy import busy
from suite.child import answer
from suite.limit import Bare, Way, search
from suite.networks import NETWORKS, Network, network
from suite.others import art, field
from suite.ours import PLANNERS, ours, smoothed
from suite.rounds import rounds_of, seconds_per_sample
from suite.spread import ratio, spread

__all__ = ["contest", "results"]

_N0 = 100
_ART = (64, 128, 256)


def contest(chosen: Network, n: int, rounds: int) -> dict[str, Any]:
    """Search the limit, let everyone choose what is theirs to choose, and run the rounds."""
    bare, samples = Bare(chosen), n + _N0
    found = search(bare, chosen.contest.batches, max(n // 4, 64))
    finalists = sorted(found, key=found.__getitem__)[:2]
    short = _best(found, "folded", "channels-last") or _best(found, "folded") or finalists[0]
    ways = {"limit": finalists[0], "limit, second": finalists[-1], "folded, channels-last": short}
    if eager := _best(found, "eager", "contiguous"):
        ways["eager, contiguous"] = eager
    taking_part = {name: bare.contestant(way, samples) for name, way in ways.items()}
    settings = {name: str(way) for name, way in ways.items()}
    preparing = {}
    for length in ("short", "long"):
        start = time.perf_counter()
        made = smoothed(chosen, length)
        preparing[length] = time.perf_counter() - start
        for planner in PLANNERS if length == "long" else ("Cohen",):
            name = f"ours, {planner}, {length}"
            taking_part[name] = ours(chosen, made, planner, _N0, n)
            settings[name] = f"batch {made.batch}"
    best = min(_ART, key=lambda batch: seconds_per_sample(art(chosen, 1, max(n // 4, batch), batch)))
    taking_part |= {"ART, default batch": art(chosen, _N0, n, 32), "ART, best batch": art(chosen, _N0, n, best)}
    settings |= {"ART, default batch": "batch 32", "ART, best batch": f"batch {best}"}
    taking_part |= {f"the field's loop, {batch}": field(chosen, _N0, n, batch) for batch in chosen.contest.field}
    times = rounds_of(taking_part, rounds)
    return {
        "title": chosen.contest.title,
        "n0": _N0,
        "n": n,
        "rounds": rounds,
        "threads": torch.get_num_threads(),
        "preparing": preparing,
        "tried": {str(way): seconds for way, seconds in found.items()},
        **results(times, settings),
    }


def results(times: dict[str, list[float]], settings: dict[str, str]) -> dict[str, Any]:
    """Times per sample, and ratios to the limit, which is the better one of both finalists."""
    better = min(("limit", "limit, second"), key=lambda name: spread(times[name]).median)
    times, settings = {**times, "limit": times[better]}, {**settings, "limit": settings[better]}
    del times["limit, second"]
    return {
        "contestants": {
            name: {
                "setting": settings.get(name, ""),
                "times": of_name,
                "microseconds": vars(spread([1e6 * seconds for seconds in of_name])),
                "to_limit": vars(ratio(times, name, "limit")),
            }
            for name, of_name in times.items()
        }
    }


def _best(found: dict[Way, float], kind: str, layout: str | None = None) -> Way | None:
    ways = [way for way in found if way.kind == kind and layout in (None, way.layout)]
    return min(ways, key=found.__getitem__, default=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=list(NETWORKS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--n", type=int, help="samples of each turn; by default as many as suit the network")
    parser.add_argument("--busy", action="store_true", help="with two other processes that use the machine")
    given = parser.parse_args()
    chosen = network(given.network)
    with busy() if given.busy else contextlib.nullcontext():
        answer(contest(chosen, given.n or chosen.contest.n, given.rounds))


if __name__ == "__main__":
    main()
