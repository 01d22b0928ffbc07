"""One certificate, step by step, with the mathematics of lvmrs alone: plan on one sample, prove on another.

The classifier has three classes in the plane, with linear logits, so that its Lipschitz constant is known exactly.
"""

import numpy as np
import torch
from torch import Tensor

from lvmrs import lipschitz, radius, simplex
from lvmrs.confidence import bernstein, betting, clopper_pearson

SIGMA, RISK, N0, N = 0.1, 0.001, 1_000, 100_000
WEIGHTS = torch.tensor([[2.0, 0.5], [-1.5, 1.0], [-0.5, -1.5]])
INPUT = torch.tensor([0.8, 0.4])
TEMPERATURES = np.geomspace(0.01, 50, 50)


def logits_of_noisy_copies(n: int, seed: int) -> Tensor:
    """Logits of n Gaussian copies of the input."""
    noise = torch.randn(n, 2, generator=torch.Generator().manual_seed(seed))
    return (INPUT + SIGMA * noise) @ WEIGHTS.T


def main() -> None:
    """Certify the input with hardmax as Cohen et al. do, and with the sparsemax temperature chosen for it."""
    # Plan: from the selection sample alone, the class and the temperature that promise the largest radius for n.
    planned = simplex.sweep(logits_of_noisy_copies(N0, seed=0), TEMPERATURES, map="sparsemax")
    top = int(planned.mean.sum(dim=0).argmax())
    p_a = bernstein.lower(planned.mean[:, top], planned.variance[:, top], N, RISK)
    slopes = lipschitz.of_map("sparsemax", torch.linalg.matrix_norm(WEIGHTS, 2), of="vector", temperature=TEMPERATURES)
    best = int(radius.ramp(p_a, 1 - p_a, sigma=SIGMA, lipschitz=slopes).argmax())

    # Prove: bounds on fresh samples. The two other classes are bounded together, by 1 minus the bound of the top class.
    fresh = logits_of_noisy_copies(N, seed=1)
    hits = int(simplex.hardmax(fresh)[:, top].sum())
    p_hard = clopper_pearson.lower(hits, N, RISK)
    scores = simplex.sparsemax(fresh, temperature=float(TEMPERATURES[best]))[:, top].clamp(0, 1)
    p_soft = betting.lower(scores, RISK)

    certified = radius.ramp(p_soft, 1 - p_soft, sigma=SIGMA, lipschitz=slopes[best])
    print(f"class {top}, n = {N}, risk = {RISK}, sigma = {SIGMA}")
    for name, proved in (
        ("hardmax", radius.r3(p_hard, sigma=SIGMA)),
        (f"sparsemax at t = {TEMPERATURES[best]:.3f}", certified),
    ):
        print(f"{name:24} radius {radius.text(proved, 3)}")


if __name__ == "__main__":
    main()
