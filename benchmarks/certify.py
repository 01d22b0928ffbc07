"""What certification costs beyond the network: noise, planning and proving, against bare forward passes.

    python benchmarks/certify.py [--n 10000]

Networks have random weights; what they answer does not matter here.
"""

import argparse
import time
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from lvmrs import LVM, Duels, Planner, SmoothedClassifier, Terms
from lvmrs.kernel.noise import Draws, Gaussian
from lvmrs.models import ResNet
from lvmrs.testing import SELECTION, made_up_scores
from side_by_side import median_ratio, seconds


def large(classes: int = 1000) -> nn.Module:
    """A quick network for 224 × 224 images."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 7, 4, 3), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1),
        nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, classes),
    ).eval()  # fmt: skip


def compare(name: str, network: nn.Module, x: Tensor, n0: int, n: int, rounds: int) -> None:
    smoothed = SmoothedClassifier(network, 0.5)
    batch = smoothed.prepare(x).batch
    pool = x + 0.5 * torch.randn(batch, *x.shape)

    def forward() -> None:
        with torch.inference_mode():
            for stage in (n0, n):
                for start in range(0, stage, batch):
                    network(pool[: min(batch, stage - start)])

    bare, ratio = median_ratio(forward, lambda: smoothed.certify(x, n0=n0, n=n), rounds=rounds)
    logits = torch.cat(list(smoothed.scores(x, n0, stage="selection").logits()))
    print(f"{name:24} batch {batch:4}  n0 + n = {n0 + n}  forward {bare:6.2f}s  certify / forward {ratio:.3f}")
    for planner in (Duels(), LVM()):
        (planning,) = seconds(partial(_planned, planner, logits, Terms(0.5, 0.001, n)), rounds=9)
        share = f"{planning * 1e3:7.2f} ms = {100 * planning / bare:.3f} % of forward"
        print(f"{'':24} planning with {type(planner).__name__:6} {share}")


def _planned(planner: Planner, logits: Tensor, terms: Terms) -> None:
    planner.plan(made_up_scores(logits, SELECTION), terms)


def noise(shape: tuple[int, ...], n: int, batch: int) -> None:
    buffer = torch.empty(batch, *shape)
    kind: dict[str, Any] = {"device": torch.device("cpu"), "dtype": torch.float32}
    ours = Draws(Gaussian(), 1.0, SELECTION, torch.Size(shape), **kind, threads=torch.get_num_threads())
    plain, ratio = median_ratio(
        lambda: [torch.randn(batch, *shape, out=buffer) for _ in range(0, n, batch)],
        lambda: [ours.of(first, batch) for first in range(0, n, batch)],
        rounds=15,
    )
    print(f"noise {shape!s:18} batch {batch:4}  torch.randn {plain * 1e3:6.1f}ms  streams / torch.randn {ratio:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    n, rounds = options.n, options.rounds
    torch.manual_seed(0)
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}; {time.strftime('%Y-%m-%d')}")
    for shape, batch in (
        ((3, 32, 32), 128),
        ((3, 32, 32), 1000),
        ((3, 32, 32), 100),
        ((3, 224, 224), 32),
        ((64,), 1000),
        ((64,), 128),
        ((1, 28, 28), 100),
    ):
        noise(shape, 25_000_000 // torch.Size(shape).numel(), batch)
    compare("ResNet-8, 32×32, c = 10", ResNet(8, shortcut="convolved").eval(), torch.rand(3, 32, 32), 1000, n, rounds)
    compare("ResNet-20, 32×32, c = 10", ResNet(20, shortcut="convolved").eval(), torch.rand(3, 32, 32), 1000, n, rounds)
    compare("large, 224×224, c = 1000", large(), torch.rand(3, 224, 224), 1000, n, rounds)


if __name__ == "__main__":
    main()
