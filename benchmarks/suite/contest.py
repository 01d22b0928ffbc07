"""All contestants on one network, side by side.

cd benchmarks && python -m suite.contest NETWORK [--rounds 5] [--n N] [--groups bare,ours] [--busy]
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

from suite.busy import busy
from suite.child import answer
from suite.groups import GROUPS, N0
from suite.networks import NETWORKS
from suite.rounds import rounds_of
from suite.spread import ratio, spread
from suite.worker import Worker

__all__ = ["contest", "results"]


def contest(network: str, n: int, rounds: int, groups: list[str]) -> dict[str, Any]:
    """Let everyone in these groups choose what is theirs to choose, one group after another, and run the rounds."""
    settings: dict[str, str] = {}
    more: dict[str, Any] = {}
    turns: dict[str, Callable[[], float]] = {}
    with contextlib.ExitStack() as stack:
        for group in groups:
            worker = stack.enter_context(Worker(group, network, n))
            settings |= worker.settings
            more |= worker.more
            turns |= {name: partial(worker.turn, name) for name in worker.settings}
        times = rounds_of(turns, rounds)
    about = {"title": NETWORKS[network].title, "n0": N0, "n": n, "long": n * NETWORKS[network].longer}
    return {**about, "rounds": rounds, **more, **results(times, settings)}


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=list(NETWORKS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--n", type=int, help="samples of a usual turn; by default as many as suit the network")
    parser.add_argument(
        "--groups", help=f"who takes part, of {', '.join(GROUPS)}; by default those that suit the network"
    )
    parser.add_argument("--busy", action="store_true", help="with two other processes that use the machine")
    given = parser.parse_args()
    with busy() if given.busy else contextlib.nullcontext():
        usual = NETWORKS[given.network]
        groups = given.groups.split(",") if given.groups else list(usual.groups)
        answer(contest(given.network, given.n or usual.n, given.rounds, groups))


if __name__ == "__main__":
    main()
