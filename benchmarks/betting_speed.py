"""One bound by betting on 10⁵ samples against generating the noise of 10⁵ CIFAR-sized inputs."""

import numpy as np
import torch

from lvmrs.kernel.bounds import bernstein, betting
from side_by_side import seconds

N, PIXELS, BATCH = 100_000, 3072, 1000


def noise() -> None:
    buffer = torch.empty(BATCH, PIXELS)
    for _ in range(N // BATCH):
        buffer.normal_()


def main() -> None:
    random = np.random.default_rng(0)
    print(f"{torch.get_num_threads()} threads; n = {N}")
    for name, samples in {
        "Beta(60,2)": random.beta(60, 2, N),
        "Bernoulli(.99)": (random.random(N) < 0.99) * 1.0,
    }.items():
        generating, bound, simple = seconds(
            noise,
            lambda z=samples: betting.lower(z, 0.001),  # type: ignore[misc]
            lambda z=samples: bernstein.lower(z.mean(), z.var(ddof=1), N, 0.001),  # type: ignore[misc]
            rounds=3,
        )
        print(
            f"{name:15} noise {generating * 1e3:7.0f}ms  betting {bound * 1e3:5.1f}ms"
            f" ({generating / bound:4.0f} times less)  Bernstein {simple * 1e3:5.2f}ms"
        )


if __name__ == "__main__":
    main()
