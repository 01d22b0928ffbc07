"""What sampling that stops early costs beyond the network, and how full its batches are.

    python benchmarks/adaptive.py [--inputs 40] [--rounds 5] [--full 500]

ResNet-20 on 32 × 32 images, 10 classes, random weights; the mean answer under noise is taken off, so that classes
compete. All contestants compute the same number of samples in the same batches and threads, in turn:

- bare: forward passes of noisy copies that were made before;
- noise: the same with fresh noise, which any smoothing needs;
- fixed: ``certify`` with a number of samples that is fixed before;
- adaptive: several inputs at once, each until its goal is reached.

Then, with a quick network, how full batches are over a data set of ``--full`` inputs.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from lvmrs import Certificate, Duels, SmoothedClassifier
from lvmrs.engine import pipeline
from lvmrs.engine.batching import Batched, BatchStatistics
from lvmrs.engine.pipeline import Procedure
from lvmrs.engine.sources import Input
from lvmrs.engine.threads import ThreadPool, torch_threads
from lvmrs.kernel.method import Goal
from lvmrs.kernel.noise import Stream
from lvmrs.models import ResNet
from lvmrs.models.networks import fast_cnn
from side_by_side import seconds_in_turn

SIGMA, N0 = 0.5, 64


def centred(network: nn.Module, x: Iterable[Tensor]) -> nn.Module:
    """The network, whose answers to noisy copies of these inputs have the mean 0 in each class."""
    last = [module for module in network.modules() if isinstance(module, nn.Linear)][-1]
    with torch.inference_mode():
        copies = torch.stack([each + SIGMA * torch.randn_like(each) for each in x for _ in range(4)])
        mean = network.eval()(copies).mean(dim=0)
    with torch.no_grad():
        last.bias.sub_(mean)
    return network


def images(count: int) -> list[Tensor]:
    """Smooth random images, so that the network does not answer to all of them alike."""
    coarse = torch.rand(count, 3, 4, 4)
    return list(nn.functional.interpolate(coarse, size=32, mode="bilinear").clamp(0, 1))


def adaptive(
    smoothed: SmoothedClassifier, inputs: list[Tensor], goal: Goal, n: int, batch_statistics: BatchStatistics
) -> list[Certificate]:
    sampler, _ = smoothed.sampler(inputs[0])
    terms = partial(smoothed.terms, 0.001, n, method=Duels())
    items = [Input(k, None, partial(terms, x), x, sampler) for k, x in enumerate(inputs)]
    with ThreadPool(sampler.workers) as pool, torch_threads(1 if sampler.workers > 1 else torch.get_num_threads()):
        source = Batched(pool, 0, n, batch_statistics=batch_statistics)
        return [certificate for _, certificate in pipeline.certify(items, source, Procedure(Duels(), N0, goal), n)]


def in_threads(smoothed: SmoothedClassifier, x: Tensor, make: Callable[[int], Tensor], batches: int) -> None:
    """Forward passes of batches, by as many threads as certificates are computed by."""
    sampler, _ = smoothed.sampler(x)
    with (
        ThreadPoolExecutor(sampler.workers) as pool,
        torch_threads(1 if sampler.workers > 1 else torch.get_num_threads()),
    ):
        for _ in pool.map(lambda number: sampler.answers_as_run(make(number)), range(batches)):
            pass


def overhead(inputs: list[Tensor], goal: Goal, n: int, rounds: int) -> None:
    smoothed = SmoothedClassifier(centred(ResNet(20, shortcut="convolved"), inputs), SIGMA)
    throughput = smoothed.prepare(inputs[0], samples=len(inputs) * n)
    sampler, x = smoothed.sampler(inputs[0])
    samples = sum(each.n + N0 for each in adaptive(smoothed, inputs, goal, n, BatchStatistics()))
    batches = round(samples / throughput.batch)
    (pool,) = replace(sampler, batch=throughput.batch).copies(x, Stream(0, 0, "certification"), throughput.batch)

    def fresh(number: int) -> Tensor:
        return torch.cat(
            list(sampler.copies(x, Stream(0, 1, "certification"), throughput.batch, first=number * throughput.batch))
        )

    contestants = {
        "bare": lambda: in_threads(smoothed, x, lambda number: pool, batches),
        "noise": lambda: in_threads(smoothed, x, fresh, batches),
        "fixed": lambda: smoothed.certify_batch(inputs, Duels(), n0=N0, n=max(2, samples // len(inputs) - N0)),
        "adaptive": lambda: adaptive(smoothed, inputs, goal, n, BatchStatistics()),
    }
    times = seconds_in_turn(contestants, rounds)
    print(f"{len(inputs)} inputs, {samples} samples ({samples / len(inputs):.0f} an input), {throughput.words}")
    for name, taken in times.items():
        ratios = [each / bare for each, bare in zip(taken, times["bare"], strict=True)]
        to_noise = [each / noise for each, noise in zip(taken, times["noise"], strict=True)]
        print(
            f"{name:9} {1e6 * statistics.median(taken) / samples:8.1f} µs a sample   / bare {_shown(ratios)}   "
            f"/ noise {_shown(to_noise)}"
        )

    here, all_ = time.thread_time(), time.process_time()
    adaptive(smoothed, inputs, goal, n, BatchStatistics())
    here, all_ = time.thread_time() - here, time.process_time() - all_
    print(f"{100 * here / all_:.1f} % of the processor time is in the thread that plans, proves and compares")


def _shown(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f}–{max(ratios):.3f})"


def fill(count: int, goal: Goal, n: int) -> None:
    inputs, batch_statistics = images(count), BatchStatistics()
    smoothed = SmoothedClassifier(centred(fast_cnn(width=8), inputs[:50]), SIGMA)
    throughput = smoothed.prepare(inputs[0], samples=count * n)
    found = adaptive(smoothed, inputs, goal, n, batch_statistics)
    spent = [each.n for each in found]
    print(
        f"{count} inputs, {batch_statistics.rows} samples, median {statistics.median(spent):.0f}, "
        f"{batch_statistics.batches} batches of {throughput.batch}: {100 * batch_statistics.share:.1f} % full"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=40)
    parser.add_argument("--n", type=int, default=2000, help="the most samples that an input takes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--full", type=int, default=500, help="inputs over which the batches are watched")
    parser.add_argument("--target-radius", type=float, default=0.5)
    options = parser.parse_args()
    torch.manual_seed(0)
    goal = Goal((options.target_radius,))
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}; {time.strftime('%Y-%m-%d')}; {goal.words}")
    overhead(images(options.inputs), goal, options.n, options.rounds)
    fill(options.full, goal, options.n)


if __name__ == "__main__":
    main()
