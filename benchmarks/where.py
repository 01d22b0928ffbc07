"""Where the time of a long run goes, beside the bare network: processor time of each part, for one network.

    python benchmarks/where.py [small_cnn] [--inputs 2] [--n 20000] [--precision bfloat16]

Noise is drawn and added, the network runs, rows are run again alone by the user's model, and plans and proofs are made.
Processor time is that of the thread that does it, so that other programs count little; what is left of the processor
time of all threads is the rest. *Waiting* is what the clock shows beyond that, for as many threads as compute.
"""

import argparse
import functools
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch

from lvmrs.kernel.model_check import ModelCheck
from lvmrs.kernel.proof import Proof
from lvmrs.kernel.sampler import Sampler
from lvmrs.planners import Planner
from suite.networks import NETWORKS, network
from suite.ours import PLANNERS, smoothed

PARTS = (
    ("noise", Sampler, "_made"),
    ("network", Sampler, "answers_as_run"),
    ("rows again", ModelCheck, "_compare"),
    ("plan", Planner, "plan"),
    ("proof", Proof, "add"),
    ("proof", Proof, "certificate"),
)
SPENT: dict[str, float] = defaultdict(float)
INNER = threading.local()


def timed(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which notes the processor time of its thread, without that of other parts that it calls."""

    @functools.wraps(call)
    def run(*arguments: Any, **named: Any) -> Any:
        before, INNER.seconds = getattr(INNER, "seconds", 0.0), 0.0
        start = time.thread_time()
        try:
            return call(*arguments, **named)
        finally:
            taken = time.thread_time() - start
            SPENT[name] += taken - INNER.seconds
            INNER.seconds = before + taken

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="?", default="small_cnn", choices=list(NETWORKS))
    parser.add_argument("--inputs", type=int, default=2)
    parser.add_argument("--n", type=int, help="samples an input; by default those of the contest")
    parser.add_argument("--method", choices=list(PLANNERS), default="duels")
    parser.add_argument("--precision", help="bfloat16 or float16; by default float32")
    options = parser.parse_args()
    made = network(options.network)
    n = options.n or made.contest.n * made.contest.longer // 2
    classifier = smoothed(made, "long", options.precision)
    throughput = classifier.prepare(made.x)
    inputs = [made.x] * options.inputs
    classifier.certify_batch(inputs, PLANNERS[options.method], n0=100, n=min(n, 1000))  # to warm up
    for name, owner, attribute in PARTS:
        setattr(owner, attribute, timed(name, getattr(owner, attribute)))
    clock, processor = time.perf_counter(), time.process_time()
    classifier.certify_batch(inputs, PLANNERS[options.method], n0=100, n=n)
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    samples = options.inputs * (n + 100)
    SPENT["the rest"] = processor - sum(SPENT.values())
    SPENT["waiting"] = torch.get_num_threads() * clock - processor
    print(f"{made.contest.title}, {options.method}, {options.inputs} inputs × {n + 100} samples; {throughput.words}")
    for name, seconds in SPENT.items():
        share = 100 * seconds / SPENT["network"]
        print(f"{name:10} {1e6 * seconds / samples:9.1f} µs a sample  {share:6.1f} % of the network")


if __name__ == "__main__":
    main()
