"""What noise costs: exact noise and noise in floating point beside torch's own, and certificates with both.

    python benchmarks/noise.py [--n 3000]

The two kinds of noise take turns on the same network and input, so the ratio is what exact noise costs a run.
"""

import argparse
from functools import partial

import torch
from torch import nn

from lvmrs import SmoothedClassifier
from lvmrs.kernel.exact_noise import ExactGaussian
from lvmrs.kernel.noise import GAUSSIAN, Draws, Noise
from lvmrs.models import ResNet
from lvmrs.models.networks import small_cnn
from lvmrs.testing import SELECTION
from side_by_side import median_ratio

SIGMA = 0.5
CPU = torch.device("cpu")


def drawn(noise: Noise, shape: torch.Size, n: int, batch: int) -> None:
    """Draw noise and add it to an input, batch by batch."""
    x = torch.zeros(shape)
    base, copies = noise.base(x), torch.empty(batch, *shape)
    threads = torch.get_num_threads()
    with Draws(noise, SIGMA, SELECTION, shape, device=CPU, dtype=torch.float32, threads=threads) as draws:
        for first in range(0, n, batch):
            noise.combine(base, draws.of(first, batch), SIGMA, copies)


def torch_noise(shape: torch.Size, n: int, batch: int) -> None:
    """The same with torch's generator, whose float32 numbers end at 5.77σ."""
    x, buffer, copies = torch.zeros(shape), torch.empty(batch, *shape), torch.empty(batch, *shape)
    for _ in range(0, n, batch):
        torch.add(x, buffer.normal_(), alpha=SIGMA, out=copies)


def certified(name: str, network: nn.Module, shape: tuple[int, ...], n: int, rounds: int) -> None:
    x = torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(0)) / 255
    floating, exact = (
        SmoothedClassifier(network.eval(), SIGMA, batch=128, noise=noise) for noise in (GAUSSIAN, ExactGaussian())
    )
    seconds, ratio = median_ratio(
        lambda: floating.certify(x, n0=100, n=n), lambda: exact.certify(x, n0=100, n=n), rounds=rounds
    )
    print(f"{name:24} n = {n}  gaussian {seconds:6.2f}s  exact / gaussian {ratio:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.manual_seed(0)
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, σ = {SIGMA}")
    for shape, batch in (((3, 32, 32), 128), ((3, 224, 224), 32), ((1, 28, 28), 128)):
        size = torch.Size(shape)
        n = 12_000_000 // size.numel() // batch * batch
        ratios = {}
        for noise in (GAUSSIAN, ExactGaussian()):
            plain, ratios[noise.name] = median_ratio(
                partial(torch_noise, size, n, batch), partial(drawn, noise, size, n, batch), rounds=options.rounds
            )
        told = "  ".join(f"{name} / torch {ratio:.2f}" for name, ratio in ratios.items())
        print(f"noise {shape!s:14} batch {batch:4}  torch {1e9 * plain / (n * size.numel()):.2f} ns a number  {told}")
    certified("small network, 1×28×28", small_cnn(1, 28), (1, 28, 28), options.n, options.rounds)
    certified("ResNet-8, 3×32×32", ResNet(8, shortcut="convolved"), (3, 32, 32), options.n, options.rounds)
    certified("ResNet-20, 3×32×32", ResNet(20, shortcut="convolved"), (3, 32, 32), options.n, options.rounds)


if __name__ == "__main__":
    main()
