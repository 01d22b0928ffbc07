"""The methods beside each other: what LVM and duels cost beyond Cohen's votes.

    cd benchmarks && python -m suite.methods CLASSES [--rounds 7] [--n 10000]

ResNet-20 runs as in a long run. Planning and proving are also timed by themselves, on the logits of these samples.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from lvmrs import Terms
from lvmrs.kernel.proof import prove
from lvmrs.testing import CERTIFICATION, SELECTION, made_up_scores
from suite.child import answer
from suite.networks import network
from suite.ours import PLANNERS, SIGMA, ours, smoothed
from suite.rounds import Contestant, rounds_of, seconds_per_sample
from suite.spread import ratio, spread

_NETWORKS = {10: "resnet20", 1000: "resnet20-1000"}


def methods(classes: int, n0: int, n: int, rounds: int, settings: str = "long") -> dict[str, Any]:
    """Ratios to Cohen, and the seconds of planning and proving."""
    chosen = network(_NETWORKS[classes])
    classifier = smoothed(chosen, settings)
    spent: dict[str, list[float]] = {name: [] for name in PLANNERS}
    # A turn has two inputs, with n samples each.
    whole = {name: _counted(ours(chosen, classifier, name, n0, 2 * n), spent[name]) for name in PLANNERS}
    times = rounds_of(_turns(whole), rounds, warm=1)
    processor = {name: seconds[1:] for name, seconds in spent.items()}  # without the round that warms up
    alone = rounds_of(_turns({name: _without_network(name, classes, n0, n) for name in PLANNERS}), rounds)
    return {
        "n0": n0,
        "n": n,
        "to_cohen": {name: vars(ratio(times, name, "Cohen")) for name in PLANNERS},
        "processor_to_cohen": {name: vars(ratio(processor, name, "Cohen")) for name in PLANNERS},
        "milliseconds_alone": {
            name: vars(spread([1e3 * (n0 + n) * seconds for seconds in alone[name]])) for name in PLANNERS
        },
        "milliseconds_in_all": {
            name: vars(spread([1e3 * (n0 + n) * seconds for seconds in times[name]])) for name in PLANNERS
        },
    }


def _counted(contestant: Contestant, spent: list[float]) -> Contestant:
    """The same, which notes the processor time of each turn: other programs change it less than the clock."""

    def run() -> int:
        start = time.process_time()
        samples = contestant.run()
        spent.append(time.process_time() - start)
        return samples

    return Contestant(run, contestant.prepare)


def _turns(contestants: dict[str, Contestant]) -> dict[str, Callable[[], float]]:
    return {name: partial(seconds_per_sample, each) for name, each in contestants.items()}


def _without_network(planner: str, classes: int, n0: int, n: int) -> Contestant:
    """Planning and proving, on made-up logits whose top class has few close rivals."""
    generator = torch.Generator().manual_seed(0)
    strength = torch.randn(classes, generator=generator)
    strength[0] = strength.max() + 2
    selection, certification = (strength + torch.randn(count, classes, generator=generator) for count in (n0, n))
    terms = Terms(SIGMA, 0.001, n)

    def run() -> int:
        plan = PLANNERS[planner].plan(made_up_scores(selection, SELECTION), terms)
        prove(plan, terms, made_up_scores(certification, CERTIFICATION))
        return n0 + n

    return Contestant(run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("classes", type=int, choices=list(_NETWORKS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--n0", type=int, default=1_000)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--settings", default="long")
    given = parser.parse_args()
    answer(methods(given.classes, given.n0, given.n, given.rounds, given.settings))


if __name__ == "__main__":
    main()
