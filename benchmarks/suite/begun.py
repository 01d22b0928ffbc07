"""A run that is begun while other processes use the machine, and goes on without them.

    cd benchmarks && python -m suite.begun NETWORK [--busy]

What can be chosen is chosen at the beginning. The samples per second are measured afterwards, on the idle machine.
"""

from __future__ import annotations

import argparse
import contextlib
import time

from suite.busy import busy
from suite.child import answer
from suite.networks import NETWORKS, network
from suite.ours import ours, smoothed
from suite.rounds import seconds_per_sample

_TURNS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=list(NETWORKS))
    parser.add_argument("--n", type=int)
    parser.add_argument("--busy", action="store_true", help="begin with two other processes that use the machine")
    given = parser.parse_args()
    chosen = network(given.network)
    with busy() if given.busy else contextlib.nullcontext():
        start = time.perf_counter()
        classifier = smoothed(chosen, "default")
        beginning = time.perf_counter() - start
    contestant = ours(chosen, classifier, "Cohen", 100, given.n or chosen.contest.n)
    seconds = min(seconds_per_sample(contestant) for _ in range(_TURNS))
    answer({"rate": 1 / seconds, "beginning": beginning, "batch": classifier.batch})


if __name__ == "__main__":
    main()
