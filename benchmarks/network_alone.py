"""What the processor makes of a network alone: processor time of a sample in one thread, without noise and proofs.

    python benchmarks/network_alone.py [resnet20] [--precision bfloat16]

The folded network in float32 and in a 16-bit type, in both layouts, in several batch sizes, uncompiled and compiled.
The last line is the ratio of the fastest passes, which no certificate in that type can beat.
"""

import argparse
import time

import torch
from torch import Tensor

from lvmrs.engine.execution import Fast, Model, fast_version
from suite.networks import NETWORKS, network

BATCHES, COMPILED = (16, 32, 64, 128, 256), (32, 128)
SAMPLES, TIMES = 512, 5


def seconds(run: Model, inputs: Tensor) -> float:
    """Processor time of a sample, the least of several trials."""
    passes = max(1, SAMPLES // len(inputs))
    found = []
    with torch.inference_mode():
        run(inputs)
        for _ in range(TIMES):
            start = time.thread_time()
            for _ in range(passes):
                run(inputs)
            found.append((time.thread_time() - start) / (passes * len(inputs)))
    return min(found)


def trials(fast: Fast, x: Tensor, *, compiled: bool, last: bool) -> dict[int, float]:
    """Seconds of a sample for each batch size."""
    found = {}
    for batch in COMPILED if compiled else BATCHES:
        way = fast.way(batch, channels_last=last, compiled=compiled)
        found[batch] = seconds(fast.runner(way, 1, x), x.expand(batch, *x.shape).contiguous())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="?", default="resnet20", choices=list(NETWORKS))
    parser.add_argument("--precision", default="bfloat16", choices=["bfloat16", "float16"])
    given = parser.parse_args()
    torch.set_num_threads(1)
    made = network(given.network)
    rows = made.x + 0.5 * torch.randn(16, *made.x.shape, generator=torch.Generator().manual_seed(0))
    best: dict[str, dict[bool, float]] = {}
    for name, kind in (("float32", None), (given.precision, getattr(torch, given.precision))):
        fast = fast_version(made.model.eval(), rows, kind)
        best[name] = {}
        for compiled in (False, True):
            for last in (False, True):
                found = trials(fast, made.x, compiled=compiled, last=last)
                best[name][compiled] = min(best[name].get(compiled, torch.inf), *found.values())
                how = ("compiled" if compiled else "uncompiled", "channels last" if last else "contiguous")
                shown = ", ".join(f"{batch}: {1e6 * each:.0f}" for batch, each in found.items())
                print(f"{name}, {', '.join(how)}; µs a sample by batch size: {shown}", flush=True)
    limit = min(best["float32"].values())
    ratios = [best[given.precision][each] / limit for each in (False, True)]
    print(f"{given.precision} / the fastest float32: {ratios[0]:.2f} uncompiled, {ratios[1]:.2f} compiled")


if __name__ == "__main__":
    main()
