"""Certified radius over exact distance for classifiers whose logits are linear in the input.

    python experiments/linear_classifier.py [--n 100000]

For such a classifier the distance to the decision boundary is known, and the duel classifier is the classifier itself:
duels certify the distance up to the width of their confidence bound. Votes smooth to another classifier, whose boundary
lies elsewhere, so their ratio may also exceed 1.
"""

import argparse
import sys

import torch
from torch import Tensor

from lvmrs import Cohen, Duels, Planner, SmoothedClassifier, Votes
from lvmrs.kernel import radius

PLANNERS: dict[str, Planner] = {"Cohen": Cohen(), "votes, R2": Votes(), "duels": Duels()}
SIGMA = 0.5


def linear(dimension: int, classes: int, distance: float, seed: int) -> tuple[Tensor, Tensor]:
    """Random weights, and a random input moved to this distance from the decision boundary."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(classes, dimension, generator=generator, dtype=torch.float64)
    x = torch.randn(dimension, generator=generator, dtype=torch.float64)
    logits = weights @ x
    top = int(logits.argmax())
    gaps = (logits[top] - logits) / (weights[top] - weights).norm(dim=1)
    exact = gaps[[k for k in range(classes) if k != top]].min()
    return weights.float(), (x * distance / exact).float()


def main() -> int:
    """Print the smallest and the mean ratio over the inputs, in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n0", type=int, default=1_000)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--alpha", type=float, default=0.001)
    parser.add_argument("--inputs", type=int, default=5)
    options = parser.parse_args()
    print(
        f"σ = {SIGMA:g}, α = {options.alpha:g}, n0 = {options.n0}, n = {options.n}, {options.inputs} inputs at each "
        "distance; certified / exact, mean (smallest)\n"
    )
    print(f"| dimension | classes | distance | {' | '.join(PLANNERS)} |\n|---|---|---|{'---|' * len(PLANNERS)}")
    for dimension, classes in ((2, 2), (2, 10), (64, 10), (64, 100), (784, 10), (3072, 2), (3072, 100)):
        for distance in (0.25, 0.5, 1.0):
            ratios: dict[str, list[float]] = {name: [] for name in PLANNERS}
            for seed in range(options.inputs):
                weights, x = linear(dimension, classes, distance, seed)
                smoothed = SmoothedClassifier(torch.nn.Linear(dimension, classes, bias=False), SIGMA, batch=1000)
                smoothed.model.weight.data = weights  # type: ignore[attr-defined]
                for name, planner in PLANNERS.items():
                    made = smoothed.certify(x, planner, n0=options.n0, n=options.n, alpha=options.alpha, index=seed)
                    ratios[name].append(made.radius / distance)
            cells = (
                f"{radius.text(sum(each) / len(each), 3)} ({radius.text(min(each), 3)})" for each in ratios.values()
            )
            print(f"| {dimension} | {classes} | {distance:g} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
